"""Where a container finds its secrets: in memory, in a folder that no other account can read or has made."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.skipif(os.getuid() != 0 or not MEMORY.is_dir(), reason="only root plays two accounts")

SCRIPT = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from windlass.runner.containers import create_request
os.setuid(int(sys.argv[2]))
os.umask(0o077)
run = {"job": "a.1", "nonce": "n", "secrets": ["db"]}
create_request.place_secrets(run, b"")
create_request.place_secrets(run, b"value")
path = create_request.secrets_path(run)
print(json.dumps([path, open(path).read()]), flush=True)
sys.stdin.read()
create_request.remove_secrets(run)
assert create_request.secrets_path(run) is None
"""


@pytest.fixture
def account() -> Iterator[int]:
    uid = random.randrange(1 << 20, 1 << 30)
    yield uid
    for path in MEMORY.glob(f"windlass-{uid}*"):
        path.unlink() if path.is_symlink() else shutil.rmtree(path)


@pytest.mark.parametrize("squatter", ["", "another's", "anybody's", "a link"])
def test_a_folder_that_another_account_made_is_not_used(account: int, squatter: str, tmp_path: Path) -> None:
    usual = MEMORY / f"windlass-{account}"
    if squatter == "a link":
        usual.symlink_to(tmp_path)
    elif squatter:
        usual.mkdir(mode=0o700)
        usual.chmod(0o700 if squatter == "another's" else 0o777)
    source = str(Path(__file__).parents[3] / "src")
    argv = [sys.executable, "-c", SCRIPT, source, str(account)]
    places = set()
    for _ in range(2):
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout and process.stdin
            said, content = json.loads(process.stdout.readline())
            path = Path(said)
            seen = [path.lstat(), path.parent.lstat()]
            assert content == "value"
            assert [(each.st_uid, stat.S_IMODE(each.st_mode)) for each in seen] == [(account, 0o600), (account, 0o700)]
            assert (path.parent == usual) is (not squatter)
            process.stdin.close()
        assert process.returncode == 0 and not path.exists()
        places.add(path)
    assert len(places) == 1, "the same one serves the next run"
