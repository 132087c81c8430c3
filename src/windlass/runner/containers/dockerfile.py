"""Builds an image from the text of a Dockerfile. The build context is the run's snapshot, if an instruction copies."""

from __future__ import annotations

import io
import json
import os
import re
from typing import IO, TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from ..environments import network
from ..environments.build_context import masked
from ..environments.build_once import EnvironmentFailed
from ..workdir.machine_folder import Machine
from . import registry_auth
from .docker_api import EngineRefused, EngineUnreachable, quoted, retry

if TYPE_CHECKING:
    import tarfile

    from .images import Image, ImageRequest

_COPIES = re.compile(r"(?:COPY|ADD)\s+(?!.*--from=)", re.IGNORECASE)
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE)
_PLAIN_FROM = re.compile(r"FROM\s+([^-$\s][^$\s]*)(?:\s+AS\s+(\S+))?\s*\Z", re.IGNORECASE)
_STEP = re.compile(r"Step (\d+)/\d+ : (.*)")
_CONTAINER = re.compile(r" ---> Running in ([0-9a-f]{12,64})\s*\Z|Removing intermediate container ")
_ARG = re.compile(r"ARG\s+(\w+)", re.IGNORECASE)
_PIECE = 1 << 20


class Instruction(NamedTuple):
    line: int
    text: str


def instructions(text: str) -> List[Instruction]:
    """The instructions of a Dockerfile and the lines that they begin on, as the builder counts its steps."""
    found: List[Instruction] = []
    is_open = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if is_open:
            found[-1] = Instruction(found[-1].line, f"{found[-1].text} {bare.rstrip(chr(92)).strip()}")
        else:
            found.append(Instruction(number, bare.rstrip("\\").strip()))
        is_open = bare.endswith("\\")
    return found


def context_of(text: str, run: Mapping[str, Any]) -> Optional[List[List[Any]]]:
    """The build context: all files of the snapshot, or None if no instruction copies."""
    if not any(_COPIES.match(each.text) for each in instructions(text)):
        return None
    from ..workdir.source_tree import for_script

    files = for_script(run.get("files") or [])
    return sorted([path, digest, size, bool(executable)] for path, digest, size, executable in files)


def bases_of(text: str) -> List[str]:
    """The images in its FROM instructions."""
    found = (_FROM.match(each.text) for each in instructions(text))
    return [each.group(1) for each in found if each is not None]


def plain_bases_of(text: str) -> List[str]:
    """The base images that are known before the build: no stage of it, no variable, and for no other platform."""
    found: List[str] = []
    stages = {"scratch"}
    for each in instructions(text):
        plain = _PLAIN_FROM.match(each.text)
        if plain and plain.group(1).lower() not in stages and plain.group(1) not in found:
            found.append(plain.group(1))
        if plain and plain.group(2):
            stages.add(plain.group(2).lower())
    return found


def build_arguments(text: str, known: Mapping[str, str]) -> Dict[str, str]:
    """Build arguments: proxies always (no image keeps them), package indexes only if an ARG names them."""
    asked = {found.group(1) for found in (_ARG.match(each.text) for each in instructions(text)) if found is not None}
    wanted = (*network.PROXIES, *(name for name in network.INDEXES if name in asked))
    return {name: known[name] for name in wanted if name in known}


def build(image: Image, request: ImageRequest, machine: Machine, given: Mapping[str, Any]) -> None:
    """Build the image and tag it. `given` is `tools` of run.json."""
    import tempfile

    text = request.dockerfile
    # No file of the snapshot has this name: it contains a digest of all of them.
    name = f".{os.path.basename(image.path)}.dockerfile"
    where = f"/build?t={image.reference}&dockerfile={name}&rm=1&forcerm=1&networkmode={request.network}"
    arguments = build_arguments(text, network.variables(machine, given))
    where += f"&buildargs={quoted(json.dumps(arguments))}" if arguments else ""
    login = registry_auth.for_build(bases_of(text))
    headers = {"Content-Type": "application/x-tar", **login.headers}
    for problem in login.problems:
        image.log_line(problem)
    with tempfile.TemporaryFile(dir=machine.root) as packed:
        size = _pack(image, packed, name, text, request.context or [], machine.files)
        try:
            answer = image.engine.open("POST", where, _pieces(image, packed), size, headers)
            _log_output(image, _removing_lost_container(image, image.stream(answer)), text)
        except EngineRefused as e:
            raise _failure(image, text, str(e), None) from None


def _removing_lost_container(image: Image, output: Iterator[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Pass the output on. If the engine breaks off, remove the container of the current step: it may even run on."""
    container = ""
    try:
        for line in output:
            found = _CONTAINER.match(str(line.get("stream")))
            container = found.group(1) or "" if found else container
            yield line
    except EngineUnreachable:
        pass  # the caller finds out when it inspects the image
    if container:
        retry(lambda: image.engine.remove_container(container), image.hooks.pause)


def _log_output(image: Image, output: Iterator[Mapping[str, Any]], text: str) -> None:
    step: Optional[int] = None
    for line in output:
        words = str(line.get("stream") or line.get("status") or "").rstrip("\n")
        found = _STEP.match(words)
        step = int(found.group(1)) if found else step
        if words.strip() and not line.get("progressDetail"):
            image.log_line(masked(words))
        if line.get("error"):
            image.engine.ping()
            raise _failure(image, text, str(line["error"]), step)


def _failure(image: Image, text: str, words: str, step: Optional[int]) -> EnvironmentFailed:
    """The error, with the line of the Dockerfile for the builder's step number."""
    listed = instructions(text)
    where = ""
    if step is not None and step <= len(listed):
        where = f" (line {listed[step - 1].line} of the Dockerfile: {listed[step - 1].text[:200]})"
    return image.logged_failure(masked(f"The image could not be built{where}: {words}"))


def _pack(image: Image, packed: IO[bytes], name: str, text: str, context: List[List[Any]], files: str) -> int:
    """Write the build context as a tar. The same files give the same bytes, so that the builder's cache is used."""
    import tarfile

    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        data = text.encode("utf-8")
        archive.addfile(_entry(name, len(data), False), io.BytesIO(data))
        for path, digest, size, executable in context:
            image.check_stop()
            with open(f"{files}/{digest}", "rb") as file:
                archive.addfile(_entry(path, size, executable), file)
        # A tar ends with two empty blocks; tarfile pads beyond them, and the engine does not read the padding. An
        # engine with unread input does not notice that we close the connection, and builds on.
        size = packed.tell() + 2 * tarfile.BLOCKSIZE
    packed.truncate(size)
    packed.seek(0)
    return size


def _entry(path: str, size: int, executable: bool) -> tarfile.TarInfo:
    import tarfile

    entry = tarfile.TarInfo(path)
    entry.size = size
    entry.mode = 0o755 if executable else 0o644
    return entry


def _pieces(image: Image, packed: IO[bytes]) -> Iterator[bytes]:
    for piece in iter(lambda: packed.read(_PIECE), b""):
        image.check_stop()
        yield piece
