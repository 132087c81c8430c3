"""Any order of setting, granting, revoking, deleting and rotating, with crashes in between: the model is a dict."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import SecretStr

from tests.sampling import examples
from windlass import failpoints
from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Denied, NotFound
from windlass.core.states import RunState
from windlass.server.security.key_file import KeyFile
from windlass.server.security.run_secrets import RunSecrets
from windlass.server.security.secret_store import NAMED_RUNS, NOBODY, RUNS, SecretStore
from windlass.store import Leased, open_store

names = st.sampled_from(["a", "b", "c"])
grants = st.sampled_from([RUNS, NAMED_RUNS, NOBODY])
values = st.text(min_size=8, max_size=20).map(lambda text: f"canary{text}")


@dataclass
class Known:
    value: str
    grant: str
    version: int


class KeyStoreLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = open_store(f"sqlite:///{self.folder}/db.sqlite", self.folder / "files")
        self.store.workspaces.create("default")
        self.known: dict[str, Known] = {}
        self.ever: set[str] = set()
        self.acts = 0
        self.runs = 0
        self.restart()

    def teardown(self) -> None:
        self.store.close()
        kept = b"".join(path.read_bytes() for path in self.folder.glob("db.sqlite*"))
        assert not any(value.encode() in kept for value in self.ever)
        shutil.rmtree(self.folder)

    @rule()
    def restart(self) -> None:
        self.secret_store = SecretStore(self.store, KeyFile(self.folder / "secrets.key"))
        self.run_secrets = RunSecrets(self.store, self.secret_store)
        before = self.store.audit.verify().count
        self.secret_store.start()
        self.acts += self.store.audit.verify().count - before
        assert len(self.store.secrets.keys()) <= 1, "a rotation was left half done"

    @rule(name=names, value=values, grant=grants | st.none())
    def put(self, name: str, value: str, grant: str | None) -> None:
        kept = self.secret_store.put("default", name, SecretStr(value), grant, "ann")
        old = self.known.get(name, Known("", RUNS, 0))
        self.known[name] = Known(value, grant or old.grant, old.version + 1)
        assert (kept.version, kept.granted_to) == (old.version + 1, grant or old.grant)
        self.ever.add(value)
        self.acts += 1

    @rule(name=names, grant=grants)
    def grant(self, name: str, grant: str) -> None:
        if name not in self.known:
            with pytest.raises(NotFound):
                self.secret_store.grant("default", name, grant, "ann")
            return
        self.secret_store.grant("default", name, grant, "ann")
        self.known[name].grant = grant
        self.acts += 1

    @rule(name=names)
    def delete(self, name: str) -> None:
        if self.known.pop(name, None) is None:
            with pytest.raises(NotFound):
                self.secret_store.delete("default", name, "ann")
            return
        self.secret_store.delete("default", name, "ann")
        self.acts += 1

    @rule()
    def rotate(self) -> None:
        rows = len(self.store.secrets.sealed_with_other_keys(""))
        assert self.secret_store.rotate("default", "ann").resealed == rows
        self.acts += 1 + rows

    @precondition(lambda self: self.known)
    @rule()
    def rotate_and_die(self) -> None:
        points = self.folder / "points"
        points.mkdir()
        (points / "F27").touch()
        (points / "F27.go").write_text("killed here")
        before, failpoints.FOLDER = failpoints.FOLDER, str(points)
        try:
            with contextlib.suppress(failpoints.Injected):
                self.secret_store.rotate("default", "ann")
        finally:
            failpoints.FOLDER = before
            shutil.rmtree(points)
        self.acts += 2

    @rule(wanted=st.sets(names))
    def start_run(self, wanted: set[str]) -> None:
        self.runs += 1
        now = datetime.now(UTC)
        run = Run(f"r{self.runs}", "default", "demo", 1, "x", RunState.STARTING, now, now, submitted_by="bob")
        leased = Leased(run, RunSpec(script="a", secrets=tuple(sorted(wanted))), 1, "n")
        if any(name not in self.known or self.known[name].grant == NOBODY for name in wanted):
            with pytest.raises((NotFound, Denied)):
                self.run_secrets.open(leased)
            return
        got = {name: value.get_secret_value() for name, value in self.run_secrets.open(leased).items()}
        due = {n: k.value for n, k in self.known.items() if k.grant == RUNS or n in wanted}
        assert got == due
        self.acts += len(due)
        redactor = RunSecrets(self.store, self.secret_store).redactor(run)
        for value in due.values():
            assert redactor is not None and set(redactor.redact(value.encode())[0]) == {ord("*")}

    @invariant()
    def the_list_is_right(self) -> None:
        found = {s.name: (s.version, s.granted_to) for s in self.secret_store.list("default")}
        assert found == {name: (known.version, known.grant) for name, known in self.known.items()}

    @invariant()
    def every_act_was_told(self) -> None:
        chain = self.store.audit.verify()
        assert chain.is_whole and chain.count == self.acts

    @invariant()
    def every_secret_opens(self) -> None:
        for name, known in self.known.items():
            assert self.secret_store.open(self.store.secrets.get("default", name)).decode() == known.value


TestKeyStoreLife = KeyStoreLife.TestCase
TestKeyStoreLife.settings = settings(max_examples=examples(100), stateful_step_count=20, deadline=None)
