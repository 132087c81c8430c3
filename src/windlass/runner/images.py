"""The images that containers are made from: there, pulled, built from a Dockerfile, or from another image and packages.

What is built is named by the digest of what it is built from, so that it is built once and used until that changes;
however many runs ask at once, one builds, and all see its log. What no run has used for long is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from . import packages, registries
from .engine import Answer, Engine, EngineAway, EngineRefused, NoEngine, insist
from .environment import Building, EnvironmentFailed, spec_of
from .fittings import Interior
from .folder import BUILD_LOG, RunFolder, read_json
from .launch import CannotStart
from .machine import Machine, remove
from .once import Once, Tools

REPOSITORY = "windlass/env"
_KEPT_SECONDS = 30 * 86400
_YOUNG_SECONDS = 86400
_SILENCE = 3600.0  # seconds without a word from an engine that pulls or builds
_ANY_PYTHON = ("python", "python3")


def furnish(machine: Machine, run: Mapping[str, Any], folder: RunFolder, tools: Tools) -> Interior:
    """The image that a run's container is made from, and what else its script finds there."""
    furnishing = Furnishing(machine, run, folder, tools)
    try:
        return insist(furnishing.interior, tools.pause)
    except NoEngine as e:
        raise CannotStart(str(e)) from None
    except (EngineAway, EngineRefused) as e:
        raise EnvironmentFailed(f"The image of this run could not be had: {e}") from None


class Furnishing:
    """One run's wish for an image."""

    def __init__(self, machine: Machine, run: Mapping[str, Any], folder: RunFolder, tools: Tools) -> None:
        self.machine = machine
        self.run = run
        self.folder = folder
        self.tools = tools
        self.spec = spec_of(run)
        self.wish: Mapping[str, Any] = run["container"]
        self.engine = Engine(self.wish.get("engine"))

    def interior(self) -> Interior:
        image = self._base()
        interpreter = self.spec.get("interpreter")
        if interpreter is not None:
            return Interior(image, "{python}" if interpreter in _ANY_PYTHON else interpreter)
        if packages.conda_wishes(self.spec):
            return self._beside(image)
        if packages.without_sdk(self.spec.get("pip") or ())[0]:
            from .layer import make_layer

            image = self.built(["packages", image, *_wishes(self.spec)], lambda new: make_layer(self, image, new))
        return Interior(image)

    def _base(self) -> str:
        text = self.wish.get("dockerfile")
        if text:
            from .dockerfile import build, context_of

            context = context_of(text, self.run)
            return self.built(["dockerfile", text, context], lambda new: build(self, text, context, new))
        image = str(self.wish["image"])
        wanted = self.image(image)
        if wanted.whole() is None:
            self._tell(f"pulling the image {image}")
            wanted.get(lambda: _pull(wanted))
        return image

    def _beside(self, image: str) -> Interior:
        """A conda environment brings its own Python: it is built on the machine, and mounted where it is."""
        building = Building(self.machine, self.run, self.folder, self.tools)
        ready = building.ready()
        if ready is None:
            self._tell("building the environment")
            ready = building.wait()
        return Interior(image, ready.python, ready.prefix, ready.variables)

    def built(self, wishes: Any, build: Callable[["Image"], None]) -> str:
        """The name of an image of ours, made of these wishes."""
        new = self.image(f"{REPOSITORY}:{_digest(wishes)}")
        if new.whole() is None:
            self._tell("building the image")

            def make() -> Dict[str, Any]:
                build(new)
                new.say("The image is ready.")
                return {"reference": new.reference}

            new.get(make)
            forget_old(self.machine, self.engine)
        return new.reference

    def image(self, reference: str) -> "Image":
        return Image(self.machine, self.engine, reference, self.folder.at(BUILD_LOG), self.tools)

    def _tell(self, message: str) -> None:
        self.folder.tell("preparing", message=message)


class Image(Once):
    """An image that is pulled or built once. Whether it is there, the engine says."""

    def __init__(self, machine: Machine, engine: Engine, reference: str, own_log: str, tools: Tools) -> None:
        os.makedirs(_folder(machine), 0o700, exist_ok=True)
        super().__init__(f"{_folder(machine)}/{_digest(reference)}", own_log, tools)
        self.engine = engine
        self.reference = reference

    def whole(self) -> Optional[Dict[str, Any]]:
        try:
            found = self.engine.call("GET", f"/images/{self.reference}/json")
        except EngineRefused as e:
            if e.status == 404:
                return None
            raise
        self._use()
        return {"id": found["Id"]}

    def _use(self) -> None:
        """It is young again."""
        try:
            if time.time() - os.stat(f"{self.path}.json").st_mtime > _YOUNG_SECONDS:
                os.utime(f"{self.path}.json")
        except FileNotFoundError:
            pass  # it was there before us

    def attend(self, answer: Answer) -> Iterator[Dict[str, Any]]:
        """What the engine says, line by line. A run that is to stop ends it."""
        rest = b""
        try:
            for piece in answer.pieces(_SILENCE, self.meanwhile):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
            if rest.strip():
                yield json.loads(rest)
        except ValueError:
            raise EnvironmentFailed(f"The engine's words are not understood: {ascii(rest[:100])}") from None
        finally:
            answer.close()

    def meanwhile(self) -> None:
        self.follow()
        self.tools.pause(0)


def _pull(image: Image) -> Dict[str, Any]:
    name, _, tag = image.reference.rpartition(":")
    is_tagged = bool(name) and "/" not in tag
    where = f"/images/create?fromImage={image.reference}" + ("" if is_tagged else "&tag=latest")
    image.say(f"Pulling the image {image.reference}.")
    try:
        answer = image.engine.open("POST", where, headers=registries.header_for(image.reference))
        for line in image.attend(answer):
            if line.get("error"):
                raise EngineRefused(500, str(line["error"]))
            if line.get("status") and not line.get("progressDetail"):
                image.say(": ".join(filter(None, (line.get("id"), line["status"]))))
    except EngineRefused as e:
        message = (
            f"The image {image.reference} is not on this machine and could not be pulled: {e}\n"
            "Check its name; if it is private, type `docker login` there; or load it there with `docker load`."
        )
        image.say(message)
        raise EnvironmentFailed(message) from None
    return {}


def forget_old(machine: Machine, engine: Engine) -> None:
    """Images of ours that no run has used for long."""
    for entry in os.scandir(_folder(machine)):
        if not entry.name.endswith(".json"):
            continue
        try:
            reference = (read_json(entry.path) or {}).get("reference")
            if not reference or time.time() - entry.stat().st_mtime < _KEPT_SECONDS:
                continue
            engine.call("DELETE", f"/images/{reference}")
        except (OSError, EngineAway, EngineRefused):
            continue  # gone, or in use
        for suffix in (".json", ".log", ".failed"):
            remove(entry.path[: -len(".json")] + suffix)


def _folder(machine: Machine) -> str:
    return f"{machine.root}/images"


def _wishes(spec: Mapping[str, Any]) -> Any:
    return [spec.get("python_version"), list(spec.get("pip") or ()), list(spec.get("pip_options") or ())]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
