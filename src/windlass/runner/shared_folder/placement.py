"""Files that the host puts into a job's folder for a supervisor that an engine will start: runner and secrets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from typing import Dict, Iterator, Optional

from ..workdir.run_folder import RunFolder, read_json, write_json

NATIVE = "native.json"  # the engine's id of the job, once it has one
_RUNNER = "runner.pyz"
_SECRETS = "secrets.json"


@contextlib.contextmanager
def placing(folder: RunFolder) -> Iterator[None]:
    """Lock of a job's folder: one host at a time places the job."""
    fd = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def put_runner(folder: RunFolder) -> None:
    """Link the current runner into the job's folder: a newer server replaces the machine's runner, while the job may
    wait or run for days and import modules from it.
    """
    if not os.path.isfile(runner_path()):
        return
    with contextlib.suppress(FileExistsError):
        try:
            os.link(runner_path(), folder.at(_RUNNER))
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            import shutil

            shutil.copyfile(runner_path(), folder.at(_RUNNER))


def runner_of(folder: RunFolder) -> str:
    """The program that supervises a job: the linked zip file, or the path that this process was started from."""
    return folder.at(_RUNNER) if os.path.exists(folder.at(_RUNNER)) else runner_path()


def runner_path() -> str:
    return os.path.abspath(sys.argv[0])


def put_secrets(folder: RunFolder, values: Dict[str, str]) -> None:
    """Write the secrets to a file of mode 0600, until the supervisor takes it: the two may share only the folder."""
    if values:
        write_json(folder.at(_SECRETS), values)


def take_secrets(folder: RunFolder) -> Optional[Dict[str, str]]:
    """Read the values of the run's secrets, and delete the file."""
    values = read_json(folder.at(_SECRETS))
    drop_secrets(folder)
    return values


def drop_secrets(folder: RunFolder) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(folder.at(_SECRETS))
