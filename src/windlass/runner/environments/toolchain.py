"""The programs that build environments: where they are on this machine, and how they come here if they are not.

`tools` of run.json says what the sender knows better: {"uv": a path, or {"digest", "size", "platform"} of a program
that it can send; "rattler": the path of a Python that has rattler, or the same of its wheel, with its "name"; "conda":
the path of a conda, or false for none}.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from ..supervisor.launch import find_command
from ..workdir.machine_folder import Machine, check_digest, remove
from . import interpreters, network, requirements
from .build_context import Workshop
from .build_once import EnvironmentFailed, Once, whole

# Which rattler is brought where there is none, the oldest Python that it runs on, and the one that we would choose.
RATTLER = "0.28"
_RATTLER_WISH = f"py-rattler>={RATTLER},<1"
_LEAST_PYTHON = "3.10"
_GOOD_PYTHON = "3.12"
# Where an index cannot be reached, uv alone would try for 50 seconds, and pip longer, for every run anew. How long one
# that answers may take is left to them: it may have to fetch the package itself.
_HASTE = {"UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1", "PIP_RETRIES": "1"}
_UV_PLACES = ("~/.local/bin/uv", "~/.cargo/bin/uv")
_CONDA_NAMES = ("mamba", "micromamba", "conda")
_CONDA_HOMES = (
    "~/miniforge3", "~/mambaforge", "~/miniconda3", "~/anaconda3", "~/micromamba", "/opt/conda", "/opt/miniforge3",
    "/opt/miniconda3", "/opt/anaconda3", "/anaconda", "/usr/local/miniconda3", "/usr/local/anaconda3",
)  # fmt: skip


def files_to_send(machine: Machine, run: Mapping[str, Any]) -> List[List[Any]]:
    """Programs that the sender has, this machine lacks, and that run on it; in the form of a snapshot's files."""
    given = run.get("tools") or {}
    needs = {"uv": _uv_here() is None, "rattler": _needs_rattler(machine, run.get("environment") or {}, given)}
    sent = [name for name, is_needed in needs.items() if is_needed and _is_for_us(given.get(name))]
    programs = [[name, given[name]["digest"], given[name]["size"], True] for name in sent]
    return [*programs, *network.files_to_send(given)]


def _needs_rattler(machine: Machine, spec: Dict[str, Any], given: Mapping[str, Any]) -> bool:
    return bool(requirements.conda_wishes(spec)) and conda(given) is None and whole(_place_of_rattler(machine)) is None


def _is_for_us(given: Any) -> bool:
    return isinstance(given, dict) and given.get("platform") == platform()


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


def conda(given: Mapping[str, Any]) -> Optional[str]:
    """A conda, mamba or micromamba that somebody has installed here."""
    named = given.get("conda")
    if named is not None:
        return str(named) if named else None
    on_path = [find_command(name, os.environ.get("PATH")) for name in _CONDA_NAMES]
    at_home = [f"{os.path.expanduser(home)}/bin/{name}" for home in _CONDA_HOMES for name in _CONDA_NAMES]
    return _first_executable([*on_path, *at_home])


def rattler(shop: Workshop) -> List[str]:
    """The beginning of an argv: our own part that speaks to rattler, on a Python that has it."""
    given = shop.given.get("rattler")
    named = None if isinstance(given, dict) else _first_executable([given])
    python = named or _own_rattler(shop)
    return [python, "-I", _our_file(), "conda"]


def _own_uv(shop: Workshop) -> str:
    def make(inner: Workshop) -> None:
        inner.run([sys.executable, "-m", "venv", inner.once.path])
        inner.run([f"{inner.once.path}/bin/python", "-m", "pip", "install", "--quiet", "uv"], haste())

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
        inner.run([builder, "venv", "--no-project", "--quiet", "--python", *python, inner.once.path], haste())
        install = [builder, "pip", "install", "--quiet", "--python", f"{inner.once.path}/bin/python"]
        if not _install_sent(install, inner):
            inner.run([*install, _RATTLER_WISH], haste())

    try:
        return f"{_made_once(shop, os.path.basename(_place_of_rattler(shop.machine)), make)}/bin/python"
    except EnvironmentFailed as e:
        raise shop.refusal(
            "Conda packages need a conda, mamba or micromamba on this machine, or py-rattler, which could not be put "
            f"there: {e}\nInstall Miniforge there, or name the packages under pip."
            f"{_other_way(shop.given.get('rattler'), is_new_enough)}"
        ) from e


def _place_of_rattler(machine: Machine) -> str:
    return f"{machine.tools}/rattler-{RATTLER}"


def _install_sent(install: List[str], shop: Workshop) -> bool:
    """False if none was sent, or it is for another Python or C library: which, its name says, and uv knows."""
    given: Any = shop.given.get("rattler")
    if not _is_for_us(given):
        return False
    wheels = f"{shop.once.aside}/wheels"
    os.mkdir(wheels, 0o700)
    try:
        os.link(f"{shop.machine.files}/{check_digest(given['digest'])}", f"{wheels}/{os.path.basename(given['name'])}")
    except FileNotFoundError:
        return False
    # A cache on the same disk, so that nothing is copied, and which goes with the making.
    cache = {"UV_CACHE_DIR": f"{shop.once.aside}/cache"}
    if shop.attempt([*install, "--no-index", "--find-links", wheels, _RATTLER_WISH], cache).code == 0:
        return True
    shop.say("The one that was sent cannot be used here; the package index is asked for another.")
    return False


def _other_way(given: Any, is_new_enough: bool) -> str:
    """What else would help."""
    if not is_new_enough:
        return f" Python {_LEAST_PYTHON} or newer on this machine helps, too."
    if not isinstance(given, dict):
        return (
            " On the server, pip install 'windlass[environments]' helps, too: machines of its kind get it from there."
        )
    return "" if _is_for_us(given) else f" The server's own is for {given.get('platform')}; this is {platform()}."


def haste() -> Dict[str, str]:
    """Who has set something else here has a reason."""
    return {name: value for name, value in _HASTE.items() if name not in os.environ}


def _made_once(shop: Workshop, name: str, make: Callable[[Workshop], None]) -> str:
    """A tool of the machine's own; what its making says is seen in the log of who wants it."""
    once = Once(f"{shop.machine.tools}/{name}", shop.once.log, shop.once.tools, outer=shop.once)
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
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    above = os.path.dirname(folder)
    return above if os.path.isfile(above) else folder


def _first_executable(paths: Iterable[Optional[str]]) -> Optional[str]:
    return next((path for path in paths if path and os.path.isfile(path) and os.access(path, os.X_OK)), None)
