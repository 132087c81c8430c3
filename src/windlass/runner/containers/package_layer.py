"""Image layer with packages: installs them in a container of the base image, and commits that as an image.

A Dockerfile would leave build-time files in the image: the installer, the list of packages, and passwords in the URLs
of package indexes.
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
from ..environments.build_context import BuildContext, ToolResult
from ..environments.build_once import EnvironmentFailed
from ..environments.pip_packages import INDEXES, PipPackages, TargetPython, write_lines
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import RunFolder
from .create_request import ENTRY_DIR, container_name
from .docker_api import START_SECONDS, EngineUnreachable, quoted

if TYPE_CHECKING:
    from .images import Base, Image, ImageRequest

_SETTINGS = {
    "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", **INDEXES,
}  # fmt: skip
# setup.py is untrusted code and runs as root: it gets the capabilities that installers need, and no more.
_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER"]
_PIDS_LIMIT = 4096
_UV = "/opt/windlass/uv"
_USED = re.compile(r"^Installing for the Python of the image, ([\d.]+)\.$", re.MULTILINE)
_NO_PYTHON, _NO_PIP = 41, 42
_MESSAGES = {
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
    image: Image, base: Base, request: ImageRequest, machine: Machine, run: Mapping[str, Any], folder: RunFolder
) -> None:
    """Build the image: the base image, plus the packages of the run's environment."""
    context = BuildContext(machine, run.get("tools"), image)
    context.log_line(f"Building an image on {base.name}.")
    for package in requirements.without_sdk(request.spec.get("pip") or ())[1]:
        context.log_line(f"{package} is not installed: windlass provides it.")
    _write_build_folder(request.spec, context)
    _remove_leftover_container(image)
    os.makedirs(folder.at(ENTRY_DIR), 0o700, exist_ok=True)
    layer = _Layer(image, base, request.network, context, run)
    try:
        image.commit(layer.name, _install(layer, request.spec, context))
    finally:
        image.engine.remove_container(layer.name)
        remove(image.scratch)


def _install(layer: _Layer, spec: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    """Install the packages; returns the replacements."""
    version = layer.ask_python()
    replaced = context.log_replaced(_check_python(layer.base.name, version, spec, context))
    packages = requirements.image_requirements(spec)
    if packages:
        python = TargetPython(sys.executable, version, is_here=False)
        may_replace = layer.uv is not None and era.minor_of(version) >= era.OLDEST  # else pip installs
        made = PipPackages(spec, packages, python, context, layer.run).install(may_replace)
        replaced.update(context.log_replaced(made))
    return replaced


class _Layer:
    """The build container: a new one for each attempt, since a failed one may have left files."""

    def __init__(self, image: Image, base: Base, network: str, context: BuildContext, run: Mapping[str, Any]) -> None:
        self.base = base
        # The name of the run's own container: if we are killed, the cleanup of the run removes it by that name.
        self.name = container_name(run)
        self.uv = toolchain.existing_uv(context)  # uv is not installed for this: most images have pip
        self._image = image
        self._network = network
        self._context = context
        self._job = str(run["job"])

    def ask_python(self) -> str:
        """The version of the image's Python."""
        result = self.run([])
        if result.code != 0:
            raise EnvironmentFailed(result.error or f"The Python of the image ended with code {result.code}.")
        return str(_USED.findall(result.output)[0])

    def run(self, arguments: List[str]) -> ToolResult:
        """Install packages; without arguments, only print the version of Python."""
        engine, log = self._image.engine, self._image.log
        before = os.path.getsize(log) if os.path.exists(log) else 0
        engine.remove_container(self.name)
        body = _body(self.base.id, self._network, self._context, self._job, self.uv, arguments)
        engine.call("POST", f"/containers/create?name={self.name}", body, seconds=START_SECONDS)
        engine.call("POST", f"/containers/{self.name}/start", seconds=START_SECONDS)
        code = _wait(self._image, self.name)
        if code != 0:
            engine.ping()
        if code in _MESSAGES:
            raise EnvironmentFailed(_MESSAGES[code].format(image=self.base.name))
        return ToolResult(code, self._context.output_since(before))


def _body(
    base: str, network: str, context: BuildContext, job: str, uv: Optional[str], arguments: List[str]
) -> Dict[str, Any]:
    once = context.once
    mounts = [(once.scratch, once.scratch, True), (once.log, once.log, False), *([(uv, _UV, True)] if uv else [])]
    return {
        "Image": base,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", _INSTALL, "windlass", once.scratch, once.log, _UV if uv else "", *arguments],
        "User": "0:0",
        "WorkingDir": "/",
        "Labels": {"windlass.job": job, "windlass.root": context.machine.root},
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


def _check_python(image: str, used: str, spec: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    """EnvironmentFailed if the image's Python does not fit the request; returns the replacement if it differs."""
    wanted = requirements.wanted_python(spec)
    if wanted is None:
        return {}
    try:
        is_fitting = interpreters.is_acceptable(used, wanted, bool(spec.get("strict")))
        is_exact = interpreters.fits(used, wanted)
    except ValueError as e:
        raise context.logged_failure(str(e)) from None
    if not is_fitting:
        problem = f"The image {image} has Python {used}, and {wanted} is asked for."
        if interpreters.is_acceptable(used, wanted):
            raise context.logged_failure(f"{problem}\n{era.STRICT}")
        raise context.logged_failure(f"{problem} Name an image that has it.")
    return {} if is_exact else era.replaced_python(wanted, used, "in the image")


def _remove_leftover_container(image: Image) -> None:
    """Remove the container of a killed build, which goes on writing to the same log."""
    filters = quoted(json.dumps({"volume": [image.log]}))
    for left in image.engine.call("GET", f"/containers/json?all=1&filters={filters}") or ():
        image.engine.remove_container(left["Id"])


def _wait(image: Image, name: str) -> int:
    try:
        return int(json.loads(b"".join(_pieces(image, name)))["StatusCode"])
    except ValueError:
        raise EngineUnreachable("The engine broke off while packages were installed.") from None


def _pieces(image: Image, name: str) -> List[bytes]:
    answer = image.engine.open("POST", f"/containers/{name}/wait")
    try:
        return list(answer.pieces(float("inf"), image.check_stop))
    finally:
        answer.close()


def _write_build_folder(spec: Dict[str, Any], context: BuildContext) -> None:
    folder = context.once.scratch
    remove(folder)
    os.makedirs(folder, 0o700)
    is_pre = any(option.strip() == "--pre" for option in spec.get("pip_options") or ())
    variables = {**_network_variables(context), **_SETTINGS}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    write_lines(f"{folder}/variables", [*lines, "pre=--pre" if is_pre else "pre="])


def _network_variables(context: BuildContext) -> Dict[str, str]:
    """The machine's network variables, with the certificates copied to a folder that the container mounts."""
    known = context.network
    trusted = known.get(network.CERTIFICATES[0])
    if trusted is None:
        return known
    path = f"{context.once.scratch}/certificates.pem"
    try:
        shutil.copyfile(trusted, path)
    except OSError as e:
        context.log_line(f"The certificates of {trusted} cannot be used: {e.strerror}.")
        return {name: value for name, value in known.items() if name not in network.CERTIFICATES}
    return {**known, **dict.fromkeys(network.CERTIFICATES, path)}
