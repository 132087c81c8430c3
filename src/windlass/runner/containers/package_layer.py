"""Packages on top of an image: installed in a container of it, which then becomes an image.

A Dockerfile could do it too, but would keep in the image what is needed only meanwhile: the installer, the list of
packages, and the passwords that people put into addresses of package indexes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from ..environments import era, interpreters, network, requirements, toolchain
from ..environments.build_context import Done, Workshop
from ..environments.build_once import EnvironmentFailed
from ..environments.pip_packages import INDEXES, Interpreter, PipPackages, written
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import RunFolder
from .create_request import DOOR, name_of
from .docker_api import START_SECONDS, EngineAway, quoted

if TYPE_CHECKING:
    from .images import Base, Image, Wishes

_SETTINGS = {
    "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", **INDEXES,
}  # fmt: skip
# setup.py may be anybody's, and is run by root: it has what installers need, and not more.
_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER"]
_PIDS_LIMIT = 4096
_UV = "/opt/windlass/uv"
_USED = re.compile(r"^Installing for the Python of the image, ([\d.]+)\.$", re.MULTILINE)
_NO_PYTHON, _NO_PIP = 41, 42
_WORDS = {
    _NO_PYTHON: "The image {image} has no Python, so that no packages can be installed in it. Name one that has.",
    _NO_PIP: "The image {image} has no pip, and there is no uv that could do without. Name one that has pip.",
}
_INSTALL = rf"""
folder=$1 log=$2 uv=$3; shift 3
exec >>"$log" 2>&1 </dev/null
. "$folder/variables"
python=$(command -v python3 || command -v python) || exit {_NO_PYTHON}
if [ $# = 0 ]; then
  exec "$python" -c 'import sys; print("Installing for the Python of the image, %d.%d.%d." % sys.version_info[:3])'
fi
if [ -n "$uv" ] && "$uv" --version >/dev/null 2>&1 && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))'
then
  exec "$uv" pip install --python "$python" --break-system-packages --no-cache "$@"
fi
"$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null 2>&1 || exit {_NO_PIP}
exec "$python" -m pip install --no-cache-dir --no-input $pre -r "$folder/requirements.txt"
"""


def make_layer(
    image: Image, base: Base, wishes: Wishes, machine: Machine, run: Mapping[str, Any], folder: RunFolder
) -> None:
    """Make the image: the one before it, and the packages of the run's environment."""
    shop = Workshop(machine, run.get("tools"), image)
    shop.say(f"Building an image on {base.name}.")
    for wish in requirements.without_sdk(wishes.spec.get("pip") or ())[1]:
        shop.say(f"{wish} is not installed: windlass provides it.")
    _begin_folder(wishes.spec, shop)
    _remove_left(image)
    os.makedirs(folder.at(DOOR), 0o700, exist_ok=True)
    layer = _Layer(image, base, wishes.network, shop, run)
    try:
        image.commit(layer.name, _install(layer, wishes.spec, shop))
    finally:
        image.engine.remove_container(layer.name)
        remove(image.aside)


def _install(layer: _Layer, spec: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    """Returns what was replaced."""
    version = layer.ask_python()
    replaced = shop.tell_replaced(_check_python(layer.base.name, version, spec, shop))
    needs = requirements.image_wishes(spec)
    if needs:
        python = Interpreter(sys.executable, version, is_here=False)
        may_replace = layer.uv is not None and era.minor_of(version) >= era.OLDEST  # or pip does it
        made = PipPackages(spec, needs, python, shop, layer.run).install(may_replace)
        replaced.update(shop.tell_replaced(made))
    return replaced


class _Layer:
    """A container of the image: another one for each attempt, since one that failed may have left something."""

    def __init__(self, image: Image, base: Base, network: str, shop: Workshop, run: Mapping[str, Any]) -> None:
        self.base = base
        # Called as the run's own container will be: whoever ends the run after we were killed removes it by that name.
        self.name = name_of(run)
        self.uv = toolchain.uv_at_hand(shop)  # only one that is there: most images have pip
        self._image = image
        self._network = network
        self._shop = shop
        self._job = str(run["job"])

    def ask_python(self) -> str:
        """The version of the image's Python."""
        done = self.run([])
        if done.code != 0:
            raise EnvironmentFailed(done.words or f"The Python of the image ended with code {done.code}.")
        return str(_USED.findall(done.said)[0])

    def run(self, arguments: List[str]) -> Done:
        """Install packages; without arguments, only say what Python there is."""
        engine, log = self._image.engine, self._image.log
        before = os.path.getsize(log) if os.path.exists(log) else 0
        engine.remove_container(self.name)
        body = _body(self.base.id, self._network, self._shop, self._job, self.uv, arguments)
        engine.call("POST", f"/containers/create?name={self.name}", body, seconds=START_SECONDS)
        engine.call("POST", f"/containers/{self.name}/start", seconds=START_SECONDS)
        code = _wait(self._image, self.name)
        if code != 0:
            engine.need()
        if code in _WORDS:
            raise EnvironmentFailed(_WORDS[code].format(image=self.base.name))
        return Done(code, self._shop.said_since(before))


def _body(base: str, network: str, shop: Workshop, job: str, uv: Optional[str], arguments: List[str]) -> Dict[str, Any]:
    once = shop.once
    mounts = [(once.aside, once.aside, True), (once.log, once.log, False), *([(uv, _UV, True)] if uv else [])]
    return {
        "Image": base,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", _INSTALL, "windlass", once.aside, once.log, _UV if uv else "", *arguments],
        "User": "0:0",
        "WorkingDir": "/",
        "Labels": {"windlass.job": job, "windlass.root": shop.machine.root},
        "HostConfig": {
            "Mounts": [{"Type": "bind", "Source": s, "Target": t, "ReadOnly": r} for s, t, r in mounts],
            "NetworkMode": network,
            "SecurityOpt": ["no-new-privileges"],
            "CapDrop": ["ALL"],
            "CapAdd": _CAPABILITIES,
            "PidsLimit": _PIDS_LIMIT,
            "LogConfig": {"Type": "none"},
            "RestartPolicy": {"Name": "no"},
        },
    }


def _check_python(image: str, used: str, spec: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    """Refuse an image whose Python is not the one that was asked for; returns what is told of one that gives way."""
    wanted = requirements.wanted_python(spec)
    if wanted is None:
        return {}
    try:
        is_fitting = interpreters.is_met(used, wanted, bool(spec.get("strict")))
        is_exact = interpreters.fits(used, wanted)
    except ValueError as e:
        raise shop.refusal(str(e)) from None
    if not is_fitting:
        problem = f"The image {image} has Python {used}, and {wanted} is asked for."
        if interpreters.is_met(used, wanted):
            raise shop.refusal(f"{problem}\n{era.STRICT}")
        raise shop.refusal(f"{problem} Name an image that has it.")
    return {} if is_exact else era.replaced_python(wanted, used, "in the image")


def _remove_left(image: Image) -> None:
    """The container of a builder that was killed, which goes on writing to the same log."""
    filters = quoted(json.dumps({"volume": [image.log]}))
    for left in image.engine.call("GET", f"/containers/json?all=1&filters={filters}") or ():
        image.engine.remove_container(left["Id"])


def _wait(image: Image, name: str) -> int:
    try:
        return int(json.loads(b"".join(_pieces(image, name)))["StatusCode"])
    except ValueError:
        raise EngineAway("The engine broke off while packages were installed.") from None


def _pieces(image: Image, name: str) -> List[bytes]:
    answer = image.engine.open("POST", f"/containers/{name}/wait")
    try:
        return list(answer.pieces(float("inf"), image.meanwhile))
    finally:
        answer.close()


def _begin_folder(spec: Dict[str, Any], shop: Workshop) -> None:
    folder = shop.once.aside
    remove(folder)
    os.makedirs(folder, 0o700)
    is_pre = any(option.strip() == "--pre" for option in spec.get("pip_options") or ())
    variables = {**_network(shop), **_SETTINGS}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    written(f"{folder}/variables", [*lines, "pre=--pre" if is_pre else "pre="])


def _network(shop: Workshop) -> Dict[str, str]:
    """What is known of the network on this machine. The certificates are copied to where the container sees them."""
    known = shop.network
    trusted = known.get(network.CERTIFICATES[0])
    if trusted is None:
        return known
    path = f"{shop.once.aside}/certificates.pem"
    try:
        shutil.copyfile(trusted, path)
    except OSError as e:
        shop.say(f"The certificates of {trusted} cannot be used: {e.strerror}.")
        return {name: value for name, value in known.items() if name not in network.CERTIFICATES}
    return {**known, **dict.fromkeys(network.CERTIFICATES, path)}
