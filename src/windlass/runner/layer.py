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
from typing import TYPE_CHECKING, Any, Dict, List, Mapping

from . import interpreters, packages, tools
from .engine import START_SECONDS, EngineAway, quoted
from .environments import network
from .fittings import DOOR, name_of
from .folder import RunFolder
from .machine import Machine, remove
from .once import EnvironmentFailed
from .prefix import INDEXES, placed
from .workshop import Workshop, masked

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
_USED = re.compile(rb"^Installing for the Python of the image, ([\d.]+)\.$", re.MULTILINE)
_FIRST_WORDS = 1 << 16  # bytes
_NO_PYTHON, _NO_PIP = 41, 42
_WORDS = {
    _NO_PYTHON: "The image {image} has no Python, so that no packages can be installed in it. Name one that has.",
    _NO_PIP: "The image {image} has no pip, and there is no uv that could do without. Name one that has pip.",
}
_INSTALL = rf"""
folder=$1 log=$2 uv=$3
exec >>"$log" 2>&1 </dev/null
. "$folder/variables"
python=$(command -v python3 || command -v python) || exit {_NO_PYTHON}
"$python" -c 'import sys; print("Installing for the Python of the image, %d.%d.%d." % sys.version_info[:3])'
[ -n "$needs" ] || exit 0
if [ -n "$uv" ] && "$uv" --version >/dev/null 2>&1 && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))'
then
  exec "$uv" pip install --python "$python" --break-system-packages --no-cache $prereleases \
    --overrides "$folder/overrides.txt" -r "$folder/requirements.txt"
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
    _write_wishes(wishes.spec, shop)
    before = os.path.getsize(image.log)
    _remove_left(image)
    # Called as the run's own container will be: whoever ends the run after we were killed removes it by that name.
    name = name_of(run)
    os.makedirs(folder.at(DOOR), 0o700, exist_ok=True)
    image.engine.remove_container(name)
    try:
        body = _body(base.id, wishes.network, shop, folder.job)
        image.engine.call("POST", f"/containers/create?name={name}", body, seconds=START_SECONDS)
        image.engine.call("POST", f"/containers/{name}/start", seconds=START_SECONDS)
        code = _wait(image, name)
        if code != 0:
            image.engine.need()
            words = _WORDS.get(code, "").format(image=base.name) or masked(shop.words_since(before))
            raise EnvironmentFailed(words or f"The installation ended with code {code}.")
        _check_python(base.name, wishes.spec, shop)
        repository, _, tag = image.reference.partition(":")
        commit = f"/commit?container={name}&repo={repository}&tag={tag}&pause=0"
        image.engine.call("POST", commit, {}, seconds=600.0)
    finally:
        image.engine.remove_container(name)
        remove(image.aside)


def _body(base: str, network: str, shop: Workshop, job: str) -> Dict[str, Any]:
    once = shop.once
    uv = tools.uv_at_hand(shop)  # only one that is there: most images have pip
    mounts = [(once.aside, once.aside, True), (once.log, once.log, False), *([(uv, _UV, True)] if uv else [])]
    return {
        "Image": base,
        "Entrypoint": ["/bin/sh"],
        "Cmd": ["-c", _INSTALL, "windlass", once.aside, once.log, _UV if uv else ""],
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


def _check_python(image: str, spec: Dict[str, Any], shop: Workshop) -> None:
    """Refuse an image whose Python is not the one that was asked for."""
    wanted = packages.wanted_python(spec)
    if wanted is None:
        return
    with open(shop.once.log, "rb") as file:
        used = _USED.findall(file.read(_FIRST_WORDS))[0].decode()  # what packages print after it may look like it
    try:
        is_fitting, is_exact = interpreters.is_met(used, wanted), interpreters.fits(used, wanted)
    except ValueError as e:
        raise shop.refusal(str(e)) from None
    if not is_fitting:
        raise shop.refusal(
            f"The image {image} has Python {used}, and {wanted} is asked for. Name an image that has it."
        )
    if not is_exact:
        shop.say(f"Python {wanted} is not in the image; its own, {used}, is used.")


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


def _write_wishes(spec: Dict[str, Any], shop: Workshop) -> None:
    folder = shop.once.aside
    remove(folder)
    os.makedirs(folder, 0o700)
    for wish in packages.without_sdk(spec.get("pip") or ())[1]:
        shop.say(f"{wish} is not installed: windlass provides it.")
    options = [option.strip() for option in spec.get("pip_options") or ()]
    is_pre = "--pre" in options
    variables = {**_network(shop), **_SETTINGS}
    needs = packages.image_wishes(spec)
    flags = ["prereleases='--prerelease allow' pre=--pre" if is_pre else "prereleases= pre="]
    flags += ["needs=packages" if needs else "needs="]
    _write(f"{folder}/variables", [*(f"export {k}={shlex.quote(v)}" for k, v in variables.items()), *flags])
    _write(f"{folder}/overrides.txt", packages.overrides())
    wishes = [placed(wish, folder, shop) for wish in needs]
    _write(f"{folder}/requirements.txt", [*(option for option in options if option != "--pre"), *wishes])


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


def _write(path: str, lines: List[str]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
