"""The keys and what they seal: bound to one row, useless without the file, refused where the file is not right."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import ServerUnavailable
from windlass.server.security.key_file import KeyFile, KeyFileError, Owner

OWNER = Owner("default", "key", 1)
VALUE = b"the canary sings"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    made = KeyFile(tmp_path / "keys" / "secrets.key")
    made.make(set())
    return made


def test_the_file_is_made_at_first_use_and_for_its_user_alone(keys: KeyFile) -> None:
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.path.parent.stat().st_mode) == 0o700
    before = keys.path.read_bytes()
    keys.make(set())
    assert keys.path.read_bytes() == before
    assert sorted(os.listdir(keys.path.parent)) == [".secrets.key.lock", "secrets.key"]


def test_what_is_sealed_opens_and_looks_different_each_time(keys: KeyFile) -> None:
    sealed = {keys.seal(VALUE, OWNER) for _ in range(5)}
    assert len(sealed) == 5 and {key_id for _, key_id in sealed} == {keys.current}
    for content, key_id in sealed:
        assert VALUE not in content
        assert KeyFile(keys.path).open(content, key_id, OWNER) == VALUE


@pytest.mark.parametrize(
    "other",
    [Owner("other", "key", 1), Owner("default", "key2", 1), Owner("default", "key", 2), Owner("defaultkey", "", 1)],
)
def test_a_row_moved_elsewhere_does_not_open(keys: KeyFile, other: Owner) -> None:
    content, key_id = keys.seal(VALUE, OWNER)
    with pytest.raises(KeyFileError, match="does not open"):
        keys.open(content, key_id, other)


@given(st.data())
def test_no_byte_can_be_changed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    keys = KeyFile(tmp_path_factory.getbasetemp() / "tampered.key")
    keys.make(set())
    content, key_id = keys.seal(VALUE, OWNER)
    at = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.integers(1, 255))
    changed = bytearray(content)
    changed[at] ^= change
    for bad in (bytes(changed), content[:at], content + b"x", content[at:] + content[:at] if at else b""):
        with pytest.raises(KeyFileError):
            keys.open(bad, key_id, OWNER)


def test_halves_of_two_secrets_do_not_make_one(keys: KeyFile) -> None:
    """The key of one secret with the bytes of another, of the same row."""
    (first, key_id), (second, _) = keys.seal(b"first", OWNER), keys.seal(b"other", OWNER)
    middle = len(first) - len(b"first") - 28
    with pytest.raises(KeyFileError):
        keys.open(first[:middle] + second[middle:], key_id, OWNER)


def test_an_older_key_still_opens_what_it_sealed(keys: KeyFile) -> None:
    content, old = keys.seal(VALUE, OWNER)
    new = keys.add()
    assert new != old and keys.current == new
    assert keys.seal(VALUE, OWNER)[1] == new
    assert keys.open(content, old, OWNER) == VALUE
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_a_key_that_another_server_added_is_noticed(keys: KeyFile) -> None:
    other = KeyFile(keys.path)
    assert other.current == keys.current
    new = other.add()
    assert keys.current == new
    content, key_id = other.seal(VALUE, OWNER)
    assert keys.open(content, key_id, OWNER) == VALUE


def test_servers_that_begin_or_rotate_at_once_lose_no_key(tmp_path: Path) -> None:
    path, made = tmp_path / "shared.key", []

    def work() -> None:
        keys = KeyFile(path)
        keys.make(set())
        made.append(keys.seal(VALUE, OWNER))
        keys.add()
        made.append(keys.seal(VALUE, OWNER))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(path.read_text().splitlines()) == 1 + 1 + 8
    assert [KeyFile(path).open(*sealed, OWNER) for sealed in made] == [VALUE] * 16


# I5: what is wrong with a key file is said before anything begins


def test_i5_a_file_that_is_missing_is_missed_only_if_something_is_sealed(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "secrets.key")
    keys.check(set())
    for begin in (keys.check, keys.make):
        with pytest.raises(KeyFileError, match="is not there"):
            begin({"0123456789abcdef"})
    assert not keys.path.exists(), "another key would only hide the loss"


def test_i5_a_file_with_other_keys_is_refused(keys: KeyFile, tmp_path: Path) -> None:
    needed = {keys.current}
    keys.check(needed)
    other = KeyFile(tmp_path / "other.key")
    other.make(set())
    other.path.replace(keys.path)
    with pytest.raises(KeyFileError, match="does not have that key"):
        keys.check(needed)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o666, 0o601])
def test_i5_a_file_that_others_can_read_is_refused(keys: KeyFile, mode: int) -> None:
    sealed = keys.seal(VALUE, OWNER)
    keys.path.chmod(mode)
    for act in (
        lambda: keys.check(set()),
        lambda: keys.open(*sealed, OWNER),
        lambda: keys.seal(VALUE, OWNER),
        keys.add,
    ):
        with pytest.raises(KeyFileError, match="can be read by others") as refused:
            act()
        assert "chmod 600" in refused.value.hint
    keys.path.chmod(0o600)
    assert keys.open(*sealed, OWNER) == VALUE


@pytest.mark.parametrize(
    "content", [b"", b"# only a comment\n", b"00" * 31, b"zz" * 32, b"\xff\xfe", b"00" * 32 + b"\n12\n"]
)
def test_i5_a_file_that_is_damaged_is_refused(keys: KeyFile, content: bytes) -> None:
    keys.path.write_bytes(content)
    with pytest.raises(KeyFileError, match="is damaged"):
        keys.check(set())


def test_i5_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="cannot be read"):
        KeyFile(tmp_path).check(set())


def break_for_now(path: Path) -> Path:
    """From now on it can be opened, and to read it is an input/output error. Returns where it is meanwhile."""
    away = path.rename(path.with_suffix(".away"))
    path.symlink_to("/proc/self/mem")
    return away


def test_what_passes_does_not_stop_who_knows_the_keys(keys: KeyFile) -> None:
    sealed = keys.seal(VALUE, OWNER)
    break_for_now(keys.path)
    assert keys.open(*sealed, OWNER) == VALUE
    assert keys.open(*keys.seal(VALUE, OWNER), OWNER) == VALUE and keys.current == sealed[1]


def test_who_does_not_know_the_key_waits_until_it_has_passed(keys: KeyFile) -> None:
    other = KeyFile(keys.path)
    other.add()
    sealed = other.seal(VALUE, OWNER)
    away = break_for_now(keys.path)
    for without in (keys, KeyFile(keys.path)):
        with pytest.raises(ServerUnavailable, match="Input/output error") as passing:
            without.open(*sealed, OWNER)
        assert passing.value.transient
    away.replace(keys.path)
    assert keys.open(*sealed, OWNER) == KeyFile(keys.path).open(*sealed, OWNER) == VALUE


def test_a_key_is_not_added_to_a_file_that_cannot_be_read(keys: KeyFile) -> None:
    """It may have keys of other servers by now, which would be lost."""
    other = KeyFile(keys.path)
    other.add()
    sealed = other.seal(VALUE, OWNER)
    away = break_for_now(keys.path)
    with pytest.raises(ServerUnavailable):
        keys.add()
    away.replace(keys.path)
    assert KeyFile(keys.path).open(*sealed, OWNER) == VALUE


def test_no_key_is_in_an_error(keys: KeyFile) -> None:
    written = keys.path.read_text().splitlines()[-1]
    keys.path.write_text(f"{written}\nnonsense\n")
    with pytest.raises(KeyFileError) as refused:
        keys.check(set())
    assert written[:8] not in str(refused.value)


def test_nothing_of_the_cipher_is_loaded_before_it_is_needed() -> None:
    program = "import sys, windlass.server.main, windlass.server.api.secrets; print('cryptography' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    assert shown.stdout.strip() == "False"
