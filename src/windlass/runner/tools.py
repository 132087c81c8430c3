"""The programs that build environments: where they are on this machine, and how they come here if they are not.

`tools` of run.json says what the sender knows better: {"uv": a path, or {"digest", "size", "platform"} of a program
that it can send; "rattler": the path of a Python that has rattler; "conda": the path of a conda, or false for none}.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from . import interpreters
from .launch import find_command
from .machine import check_digest, remove
from .once import EnvironmentFailed, Once
from .workshop import Workshop

# Which rattler is brought where there is none, the oldest Python that it runs on, and the one that we would choose.
RATTLER = "0.28"
_LEAST_PYTHON = "3.10"
_GOOD_PYTHON = "3.12"
_UV_PLACES = ("~/.local/bin/uv", "~/.cargo/bin/uv")
_CONDA_NAMES = ("mamba", "micromamba", "conda")
_CONDA_HOMES = (
    "~/miniforge3", "~/mambaforge", "~/miniconda3", "~/anaconda3", "~/micromamba", "/opt/conda", "/opt/miniforge3",
    "/opt/miniconda3", "/opt/anaconda3", "/anaconda", "/usr/local/miniconda3", "/usr/local/anaconda3",
)  # fmt: skip


def files_to_send(run: Mapping[str, Any]) -> List[List[Any]]:
    """Programs that the sender has, this machine lacks, and that run on it; in the form of a snapshot's files."""
    given = (run.get("tools") or {}).get("uv")
    if not isinstance(given, dict) or given.get("platform") != platform() or _uv_here() is not None:
        return []
    return [["uv", given["digest"], given["size"], True]]


def platform() -> str:
    system = os.uname()
    return f"{system.sysname} {system.machine}"


def uv(shop: Workshop) -> str:
    return uv_at_hand(shop) or _own_uv(shop)


def uv_at_hand(shop: Workshop) -> Optional[str]:
    """One that is named, here, or sent; None if it would have to be brought from elsewhere."""
    given = shop.given.get("uv")
    if isinstance(given, dict):
        return _uv_here() or _unpacked(shop, "uv", check_digest(given["digest"]))
    return _first_executable([given]) or _uv_here()


def _uv_here() -> Optional[str]:
    return _first_executable([find_command("uv", os.environ.get("PATH")), *map(os.path.expanduser, _UV_PLACES)])


def conda(shop: Workshop) -> Optional[str]:
    """A conda, mamba or micromamba that somebody has installed here."""
    given = shop.given.get("conda")
    if given is not None:
        return str(given) if given else None
    on_path = [find_command(name, os.environ.get("PATH")) for name in _CONDA_NAMES]
    at_home = [f"{os.path.expanduser(home)}/bin/{name}" for home in _CONDA_HOMES for name in _CONDA_NAMES]
    return _first_executable([*on_path, *at_home])


def rattler(shop: Workshop) -> List[str]:
    """The beginning of an argv: our own part that speaks to rattler, on a Python that has it."""
    python = _first_executable([shop.given.get("rattler")]) or _own_rattler(shop)
    return [python, "-I", _our_file(), "conda"]


def _own_uv(shop: Workshop) -> str:
    def make(inner: Workshop) -> None:
        inner.run([sys.executable, "-m", "venv", inner.once.path])
        inner.run([f"{inner.once.path}/bin/python", "-m", "pip", "install", "--quiet", "uv"])

    try:
        return f"{_made_once(shop, 'uv', make)}/bin/uv"
    except EnvironmentFailed as e:
        raise shop.refusal(
            f"Building an environment needs uv; it is not on this machine and could not be put there: {e}\n"
            "Type there: python3 -m pip install --user uv"
        ) from e


def _own_rattler(shop: Workshop) -> str:
    builder = uv(shop)
    there = interpreters.nearest(_GOOD_PYTHON)
    is_new_enough = interpreters.is_at_least(there.version, _LEAST_PYTHON)

    def make(inner: Workshop) -> None:
        # A machine whose Pythons are too old for rattler may get one from uv; no script runs on it.
        python = [there.path] if is_new_enough else [_GOOD_PYTHON, "--managed-python"]
        inner.run([builder, "venv", "--no-project", "--quiet", "--python", *python, inner.once.path])
        where = ["--python", f"{inner.once.path}/bin/python"]
        inner.run([builder, "pip", "install", "--quiet", *where, f"py-rattler>={RATTLER},<1"])

    try:
        return f"{_made_once(shop, f'rattler-{RATTLER}', make)}/bin/python"
    except EnvironmentFailed as e:
        raise shop.refusal(
            "Conda packages need a conda, mamba or micromamba on this machine, or py-rattler, which could not be put "
            f"there: {e}\nInstall Miniforge there, or name the packages under pip."
        ) from e


def _made_once(shop: Workshop, name: str, make: Callable[[Workshop], None]) -> str:
    """A tool of the machine's own; what its making says is seen in the log of who wants it."""
    once = Once(f"{shop.machine.tools}/{name}", shop.once.log, shop.once.tools)
    if once.whole() is None:

        def work() -> Dict[str, Any]:
            once.say(f"Getting {name} for this machine, once.")
            make(Workshop(shop.machine, shop.given, once))
            return {}

        once.get(work)
    return once.path


def _unpacked(shop: Workshop, name: str, digest: str) -> Optional[str]:
    """A program that was sent as a file, made executable; None if it was not sent, or does not run here after all."""
    path = f"{shop.machine.tools}/{name}-{digest[:16]}"
    if not os.path.exists(path):
        aside = f"{path}.{os.getpid()}.tmp"
        try:
            shutil.copyfile(f"{shop.machine.files}/{digest}", aside)
        except FileNotFoundError:
            return None
        os.chmod(aside, 0o700)
        os.rename(aside, path)
    if _does_run(path, shop):
        return path
    remove(path)  # a power cut may have left nothing in it: the next one gets it anew
    return None


def _does_run(path: str, shop: Workshop) -> bool:
    try:
        return shop.attempt([path, "--version"]).code == 0
    except EnvironmentFailed as e:  # it is for another system, or may not be executed where it is
        shop.say(str(e))
        return False


def _our_file() -> str:
    """What we came as: one zip file, or a folder of sources."""
    folder = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(folder)
    return above if os.path.isfile(above) else folder


def _first_executable(paths: Iterable[Optional[str]]) -> Optional[str]:
    return next((path for path in paths if path and os.path.isfile(path) and os.access(path, os.X_OK)), None)
