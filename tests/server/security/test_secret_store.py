"""The secret store on a real store: values come back only to those who may have them, whatever happens to the key."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import create_engine, update

from tests.store.makers import with_slots
from windlass import failpoints
from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Denied, InvalidRequest, NotFound, ServerUnavailable, TooLarge
from windlass.core.states import Reason, RunState, Step
from windlass.server.security.key_file import KeyFile, KeyFileError
from windlass.server.security.log_redaction import RedactEverything
from windlass.server.security.run_secrets import RunSecrets
from windlass.server.security.secret_store import LARGEST, NAMED_RUNS, NOBODY, RUNS, SecretStore
from windlass.store import Leased, NewRun, Store, open_store
from windlass.store.access.secrets import OF_RUNS
from windlass.store.db.schema import secrets as table

CANARY = "the-canary-sings"


@pytest.fixture
def store(store_url: str, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(store_url, tmp_path / "files")
    opened.workspaces.create("default")
    yield opened
    opened.close()


@pytest.fixture
def secret_store(store: Store, tmp_path: Path) -> SecretStore:
    return SecretStore(store, KeyFile(tmp_path / "secrets.key"))


@pytest.fixture
def run_secrets(store: Store, secret_store: SecretStore) -> RunSecrets:
    return RunSecrets(store, secret_store)


def put(secret_store: SecretStore, name: str, value: str = CANARY, granted_to: str | None = None) -> int:
    return secret_store.put("default", name, SecretStr(value), granted_to, "ann").version


def use(secret_store: SecretStore, name: str, workspace: str = "default") -> str:
    return secret_store.use(workspace, name, "ann", {"for": "a test"}).get_secret_value()


def leased(*names: str, run: str = "demo_1", attempt: int = 1) -> Leased:
    now = datetime.now(UTC)
    made = Run(run, "default", "demo", 1, "x", RunState.STARTING, now, now, submitted_by="bob", attempt=attempt)
    return Leased(made, RunSpec(script="train.py", secrets=names), 1, "n")


def opened(run_secrets: RunSecrets, of: Leased) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in run_secrets.open(of).items()}


def acts(store: Store) -> list[tuple[str, str, str]]:
    return [(entry.principal, entry.act, entry.object) for entry in reversed(store.audit.list("default", 1000))]


def masked(store: Store) -> list[str]:
    """The jobs in whose logs something is to be masked."""
    return [
        s.name.removeprefix(OF_RUNS) for s in store.secrets.sealed_with_other_keys("") if s.name.startswith(OF_RUNS)
    ]


def submitted(store: Store, id: str, slots: int = 4) -> Leased:
    """A run of the store; without slots it waits."""
    store.targets.ensure("default", "here", "dummy", {}, 4, True)
    new = NewRun(id, "default", "demo", "x", spec=RunSpec(script="a", target="here"), nonce="n")
    run, _, found = store.runs.submit(new, "me", with_slots(slots), 30)
    return found or Leased(run, RunSpec(script="a", target="here"), 1, "n")


def end(store: Store, of: Leased) -> None:
    store.runs.advance(of.run.id, expect=of.run.state, step=Step(RunState.FAILED, Reason.GAVE_UP, ""), fence=None)


def tamper(url: str, name: str, **values: object) -> None:
    """Somebody who has the database and not the key."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(update(table).where(table.c.name == name).values(**values))
    engine.dispose()


def test_what_was_set_comes_back_and_each_use_is_told_before(store: Store, secret_store: SecretStore) -> None:
    assert [put(secret_store, "key", value) for value in ("first", "é\n\0", "x" * LARGEST)] == [1, 2, 3]
    assert use(secret_store, "key") == "x" * LARGEST
    assert acts(store) == [("ann", "secret.set", "key")] * 3 + [("ann", "secret.use", "key")]
    assert store.audit.list("default")[0].details == {"version": 3, "for": "a test"}
    assert CANARY not in repr(secret_store.put("default", "k", SecretStr(CANARY), None, "ann"))


def test_what_cannot_be_a_secret_is_refused(store: Store, secret_store: SecretStore) -> None:
    with pytest.raises(InvalidRequest, match="is empty"):
        put(secret_store, "key", "")
    with pytest.raises(TooLarge):
        put(secret_store, "key", "é" * (LARGEST // 2 + 1))
    with pytest.raises(NotFound, match="no workspace"):
        secret_store.put("nowhere", "key", SecretStr("x"), None, "ann")
    for act in (use, lambda k, n: k.delete("default", n, "ann")):
        with pytest.raises(NotFound, match="no secret key"):
            act(secret_store, "key")
    assert acts(store) == []


def test_a_grant_stays_with_the_next_version(secret_store: SecretStore) -> None:
    put(secret_store, "key")
    put(secret_store, "other", granted_to=NAMED_RUNS)
    put(secret_store, "other")
    assert [(s.name, s.granted_to, s.version) for s in secret_store.list("default")] == [
        ("key", RUNS, 1),
        ("other", NAMED_RUNS, 2),
    ]
    secret_store.grant("default", "other", NOBODY, "ann")
    assert secret_store.list("default")[1].granted_to == NOBODY and use(secret_store, "other") == CANARY


def test_drivers_get_what_opens_their_target_by_reference(store: Store, secret_store: SecretStore) -> None:
    secret_store.put("default", "target/gpu/password", SecretStr(CANARY), NOBODY, "ann")
    assert secret_store.of_target("default", "gpu").get("target/gpu/password").get_secret_value() == CANARY
    told = store.audit.list("default")[0]
    assert (told.principal, told.act, told.details) == ("server", "secret.use", {"version": 1, "target": "gpu"})
    assert secret_store.list("default") == []


def test_what_is_handed_out_sealed_is_told_and_not_the_value(store: Store, secret_store: SecretStore) -> None:
    put(secret_store, "key")
    found = secret_store.fetch("default", "key", "ann")
    assert CANARY.encode() not in found.sealed and found.version == 1
    assert acts(store)[-1] == ("ann", "secret.fetch", "key")


# the key


def test_rotation_seals_everything_anew(store: Store, secret_store: SecretStore) -> None:
    store.workspaces.create("other")
    put(secret_store, "a", "1st")
    put(secret_store, "b", "2nd")
    secret_store.put("other", "a", SecretStr("3rd"), None, "ann")
    before = store.secrets.keys()
    done = secret_store.rotate("default", "bob")
    assert (done.resealed, done.refused) == (3, ()) and store.secrets.keys() == {done.key_id} != before
    assert [use(secret_store, "a"), use(secret_store, "b"), use(secret_store, "a", "other")] == ["1st", "2nd", "3rd"]
    assert ("bob", "key.rotate", done.key_id) in acts(store) and ("bob", "secret.reseal", "b") in acts(store)
    assert [s.version for s in secret_store.list("default")] == [1, 1]
    assert secret_store.rotate("default", "bob").resealed == 3


def test_rotation_without_secrets_is_no_trouble(secret_store: SecretStore) -> None:
    assert secret_store.rotate("default", "bob").resealed == 0
    assert secret_store.rotate("default", "bob").resealed == 0


def test_f27_a_rotation_that_was_interrupted_is_gone_on_with(
    store: Store, secret_store: SecretStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        put(secret_store, f"s{number}", f"value {number}")
    points = tmp_path / "points"
    points.mkdir()
    (points / "F27").touch()
    (points / "F27.go").write_text("killed here")
    monkeypatch.setattr(failpoints, "FOLDER", str(points))
    with pytest.raises(failpoints.Injected):
        secret_store.rotate("default", "bob")
    assert len(store.secrets.keys()) == 2, "some are sealed with the new key, some with the old one"
    assert [use(secret_store, f"s{n}") for n in range(4)] == [f"value {n}" for n in range(4)]
    put(secret_store, "s3", "set meanwhile")

    again = SecretStore(store, KeyFile(tmp_path / "secrets.key"))
    again.start()
    assert len(store.secrets.keys()) == 1
    assert [use(again, f"s{n}") for n in range(4)] == ["value 0", "value 1", "value 2", "set meanwhile"]
    written = len(acts(store))
    SecretStore(store, KeyFile(tmp_path / "secrets.key")).start()
    assert len(acts(store)) == written, "there is nothing left to do"


def test_i5_without_its_key_no_server_begins(store: Store, secret_store: SecretStore, tmp_path: Path) -> None:
    put(secret_store, "key")
    (tmp_path / "secrets.key").rename(tmp_path / "away.key")
    again = SecretStore(store, KeyFile(tmp_path / "secrets.key"))
    with pytest.raises(KeyFileError, match="is not there"):
        again.start()
    with pytest.raises(KeyFileError, match="is not there"):
        put(again, "other")
    (tmp_path / "away.key").rename(tmp_path / "secrets.key")
    again.start()
    assert use(again, "key") == CANARY


# rows that somebody changed


def test_rows_that_were_exchanged_are_refused(store: Store, store_url: str, secret_store: SecretStore) -> None:
    put(secret_store, "mine", "my own value")
    put(secret_store, "other", CANARY)
    tamper(store_url, "mine", sealed=store.secrets.get("default", "other").sealed)
    with pytest.raises(KeyFileError, match="secret mine of workspace default does not open"):
        use(secret_store, "mine")
    assert ("ann", "secret.use", "mine") not in acts(store)
    assert use(secret_store, "other") == CANARY


def test_an_older_version_cannot_be_put_back(store: Store, store_url: str, secret_store: SecretStore) -> None:
    put(secret_store, "key", "revoked")
    old = store.secrets.get("default", "key").sealed
    put(secret_store, "key", "new")
    tamper(store_url, "key", sealed=old)
    with pytest.raises(KeyFileError):
        use(secret_store, "key")


def test_one_damaged_row_does_not_stop_a_rotation(store: Store, store_url: str, secret_store: SecretStore) -> None:
    for name in ("a", "b", "c"):
        put(secret_store, name)
    tamper(store_url, "b", sealed=b"nonsense")
    done = secret_store.rotate("default", "bob")
    assert (done.resealed, [secret.name for secret in done.refused]) == (2, ["b"])
    secret_store.start()
    assert use(secret_store, "a") == use(secret_store, "c") == CANARY
    assert put(secret_store, "b", "set again") == 2 and use(secret_store, "b") == "set again"


# runs


def test_a_run_gets_what_it_names_and_what_all_get(
    store: Store, secret_store: SecretStore, run_secrets: RunSecrets
) -> None:
    put(secret_store, "all", "for all")
    put(secret_store, "some", "for some", NAMED_RUNS)
    put(secret_store, "none", "for none", NOBODY)
    put(secret_store, "target/gpu/password", "for the target", NOBODY)
    assert run_secrets.names("default", RunSpec()) == ["all"]
    assert opened(run_secrets, leased()) == {"all": "for all"}
    assert opened(run_secrets, leased("some", run="demo_2")) == {"all": "for all", "some": "for some"}
    told = [entry for entry in store.audit.list("default") if entry.act == "secret.use"]
    assert [(e.principal, e.object, e.details["run"]) for e in reversed(told)] == [
        ("bob", "all", "demo_1"),
        ("bob", "all", "demo_2"),
        ("bob", "some", "demo_2"),
    ]


def test_a_plan_uses_nothing(store: Store, secret_store: SecretStore, run_secrets: RunSecrets) -> None:
    put(secret_store, "key")
    before = acts(store)
    assert run_secrets.names("default", RunSpec(secrets=("key",))) == ["key"]
    assert acts(store) == before and masked(store) == []


def test_what_a_run_asks_for_in_vain_is_refused(secret_store: SecretStore, run_secrets: RunSecrets) -> None:
    put(secret_store, "none", granted_to=NOBODY)
    for act in (lambda of: run_secrets.open(of), lambda of: run_secrets.names("default", of.spec)):
        with pytest.raises(NotFound, match="no secret missing"):
            act(leased("missing"))
        with pytest.raises(Denied, match="granted to nobody"):
            act(leased("none"))
        with pytest.raises(NotFound):
            act(leased("target/gpu/password"))


def test_a_run_without_secrets_leaves_nothing(store: Store, run_secrets: RunSecrets, tmp_path: Path) -> None:
    of = submitted(store, "demo_1")
    assert opened(run_secrets, of) == {} and run_secrets.redactor(of.run) is None
    run_secrets.forget(of.run)
    assert acts(store) == [] and masked(store) == [] and not (tmp_path / "secrets.key").exists()


def test_the_values_of_its_start_are_masked_although_they_change(
    store: Store, secret_store: SecretStore, run_secrets: RunSecrets
) -> None:
    """By the server that started it, and by one that takes it over."""
    put(secret_store, "key", "old-value")
    of = leased()
    assert opened(run_secrets, of) == {"key": "old-value"}
    put(secret_store, "key", "new-value")
    secret_store.rotate("default", "ann")
    for server in (run_secrets, RunSecrets(store, secret_store)):
        redactor = server.redactor(of.run)
        assert redactor is not None and redactor.redact(b"old-value new-value")[0] == b"********* new-value"
    assert opened(run_secrets, of) == {"key": "new-value"}, "it is started again, since nothing had begun"
    for server in (run_secrets, RunSecrets(store, secret_store)):
        redactor = server.redactor(of.run)
        assert redactor is not None and redactor.redact(b"old-value new-value")[0] == b"********* *********"


def test_what_to_mask_goes_with_the_end_whoever_ends_it(
    store: Store, secret_store: SecretStore, run_secrets: RunSecrets
) -> None:
    """A server that has never read its log, one that detaches its target, one that gives it up."""
    put(secret_store, "key")
    of, other = submitted(store, "demo_1"), submitted(store, "demo_2")
    for each in (of, other):
        run_secrets.open(each)
    end(store, of)
    assert masked(store) == ["demo_2.1"]
    late = RunSecrets(store, secret_store).redactor(of.run)
    assert isinstance(late, RedactEverything), "who has not heard of the end must not show what was hidden"


def test_who_takes_a_run_up_again_asks_anew_what_to_mask(
    store: Store, secret_store: SecretStore, run_secrets: RunSecrets
) -> None:
    """Meanwhile another server may have started it, with what was granted by then."""
    of = submitted(store, "demo_1")
    assert opened(run_secrets, of) == {} and run_secrets.redactor(of.run) is None
    put(secret_store, "key")
    RunSecrets(store, secret_store).open(of)
    run_secrets.forget(of.run)
    redactor = run_secrets.redactor(of.run)
    assert redactor is not None and redactor.redact(CANARY.encode())[0] == b"*" * len(CANARY)


def test_what_is_masked_is_as_safe_as_a_secret(
    store: Store, store_url: str, secret_store: SecretStore, run_secrets: RunSecrets
) -> None:
    put(secret_store, "key")
    for run in ("demo_1", "demo_2"):
        run_secrets.open(leased(run=run))
    other = store.secrets.find("default", "run/demo_2.1")
    assert other is not None and CANARY.encode() not in other.sealed
    tamper(store_url, "run/demo_1.1", sealed=other.sealed)
    redactor = RunSecrets(store, secret_store).redactor(leased(run="demo_1").run)
    assert isinstance(redactor, RedactEverything), "who cannot say what to hide shows nothing"


def test_while_the_key_file_cannot_be_read_nothing_is_masked_for_good(
    store: Store, secret_store: SecretStore, run_secrets: RunSecrets, tmp_path: Path
) -> None:
    put(secret_store, "key")
    of = leased()
    run_secrets.open(of)
    path = tmp_path / "secrets.key"
    away = path.rename(tmp_path / "away.key")
    other = RunSecrets(store, SecretStore(store, KeyFile(path)))
    with pytest.raises(KeyFileError, match="cannot be read"):
        other.redactor(of.run)
    path.symlink_to("/proc/self/mem")
    for act in (lambda: other.redactor(of.run), lambda: other.open(of)):
        with pytest.raises(ServerUnavailable):
            act()
    away.replace(path)
    redactor = other.redactor(of.run)
    assert redactor is not None and redactor.redact(f"a {CANARY}".encode())[0] == b"a " + b"*" * len(CANARY)


def test_what_was_left_after_the_end_is_swept(store: Store, secret_store: SecretStore, run_secrets: RunSecrets) -> None:
    """Another server was about to start it."""
    put(secret_store, "key")
    run_secrets.open(leased(run="gone"))
    for id in ("alive", "waiting", "ended"):
        of = submitted(store, id, slots=0 if id == "waiting" else 4)
        if id == "ended":
            end(store, of)
        run_secrets.open(of)
    assert set(masked(store)) == {"gone.1", "alive.1", "waiting.1", "ended.1"}
    run_secrets.forget_ended()
    assert set(masked(store)) == {"alive.1", "waiting.1"}
    assert [secret.name for secret in store.secrets.list("default")] == ["key"]


def test_a_secret_is_for_the_very_next_run(store: Store, secret_store: SecretStore, run_secrets: RunSecrets) -> None:
    """Although it was just remembered that there is none; of another server's too, where there is one."""
    for number in range(3):
        of = leased(run=f"demo_{number}")
        assert opened(run_secrets, of) == {} and run_secrets.names("default", of.spec) == []
        other = SecretStore(store, KeyFile(Path(secret_store.key_file))) if store.is_shared else secret_store
        put(other, "key")
        assert opened(run_secrets, of) == {"key": CANARY} and run_secrets.names("default", of.spec) == ["key"]
        other.delete("default", "key", "ann")


def test_secrets_set_by_many_at_once_are_all_kept(store: Store, secret_store: SecretStore) -> None:
    def work(number: int) -> None:
        for i in range(5):
            put(secret_store, "key", f"{number}-{i}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    values = {f"{n}-{i}" for n, i in itertools.product(range(4), range(5))}
    assert secret_store.list("default")[0].version == 20 and use(secret_store, "key") in values
