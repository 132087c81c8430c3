"""The images that containers are made from: there, pulled, built from a Dockerfile, or from another image and packages.

What is built is named by the digest of what it is built from, so that it is built once and used until that changes,
also where the same name becomes another image. However many runs ask at once, one builds, and all see its log. What no
run has used for long is removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

from ..environments import environment, requirements
from ..environments.build_once import EnvironmentFailed, Once, Tools
from ..supervisor.launch import CannotStart
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import BUILD_LOG, RunFolder, append, read_json
from . import dockerfile, registry_auth
from .create_request import Interior
from .docker_api import FEW_SECONDS, SECONDS, Answer, Engine, EngineAway, EngineRefused, NoEngine, insist, quoted

REPOSITORY = "windlass/env"
_KEPT_SECONDS = 30 * 86400
_YOUNG_SECONDS = 86400
_ANY_PYTHON = ("python", "python3")
_REPLACED = "windlass.replaced"  # a label


def furnish(machine: Machine, run: Mapping[str, Any], folder: RunFolder, tools: Tools) -> Interior:
    """The image that a run's container is made from, and what else its script finds there."""
    try:
        return insist(Furnishing(machine, run, folder, tools).interior, tools.pause)
    except NoEngine as e:
        raise CannotStart(str(e)) from None
    except (EngineAway, EngineRefused, OSError) as e:
        raise EnvironmentFailed(f"The image of this run could not be had: {e}") from None


def is_prepared(machine: Machine, run: Mapping[str, Any]) -> bool:
    """Whether its container could be made without pulling or building anything."""
    wishes = Wishes(run)

    def look(step: "Step") -> str:
        found = _inspect(engine, step.reference, FEW_SECONDS)
        if found is None:
            raise LookupError(step.reference)
        return str(found["Id"])

    try:
        engine = Engine(run["container"].get("engine"))
        wishes.resolve(look)
    except (EngineAway, EngineRefused, LookupError):
        return False
    return not wishes.is_conda or environment.is_prepared(machine, run)


class Base(NamedTuple):
    name: str
    id: str


class Step(NamedTuple):
    """An image on the way to the one that is wanted."""

    reference: str
    is_ours: bool = False  # built here, as opposed to pulled
    base: Optional[Base] = None  # what packages are to be added to


class Wishes:
    """What the container of a run is to be made from."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.spec = environment.spec_of(run)
        self.image = run["container"].get("image")
        self.dockerfile: str = run["container"].get("dockerfile") or ""
        self.context = dockerfile.context_of(self.dockerfile, run)
        self.network: str = (run["container"].get("host") or {}).get("NetworkMode", "default")
        is_built = self.spec.get("interpreter") is None
        self.is_conda = is_built and bool(requirements.conda_wishes(self.spec))
        # A version of Python alone needs one too: it is checked where the layer is made, once for each image.
        asks = requirements.image_wishes(self.spec) or requirements.wanted_python(self.spec)
        self.has_layer = is_built and not self.is_conda and bool(asks)

    def resolve(self, get: Callable[[Step], str]) -> str:
        """The image for the container. `get` has each that it takes, one after the other, and answers its id."""
        step = Step(str(self.image))
        if self.dockerfile:
            bases = [get(Step(name)) for name in dockerfile.plain_bases_of(self.dockerfile)]
            step = Step(_name(["dockerfile", self.dockerfile, self.context, bases]), is_ours=True)
        base = Base(step.reference, get(step))
        if self.has_layer:
            wanted = [requirements.wanted_python(self.spec), requirements.image_wishes(self.spec)]
            mode = ["strict"] if self.spec.get("strict") else []
            name = _name(["packages", base.id, *wanted, list(self.spec.get("pip_options") or ()), *mode])
            step = Step(name, is_ours=True, base=base)
            get(step)
        return step.reference


class Furnishing:
    """One run's wish for an image."""

    def __init__(self, machine: Machine, run: Mapping[str, Any], folder: RunFolder, tools: Tools) -> None:
        self.machine = machine
        self.run = run
        self.folder = folder
        self.tools = tools
        self.wishes = Wishes(run)
        self.engine = Engine(run["container"].get("engine"))
        self._is_waiting = False
        self._replaced: Dict[str, str] = {}

    def interior(self) -> Interior:
        try:
            return self._interior()
        except EngineAway as e:
            self._tell_waiting(e)
            raise

    def _tell_waiting(self, why: EngineAway) -> None:
        if not self._is_waiting:
            self.tools.stage.begin("waiting for the Docker engine")
            append(self.folder.at(BUILD_LOG), f"Waiting for the Docker engine. {why}\n".encode("utf-8", "replace"))
        self._is_waiting = True

    def _interior(self) -> Interior:
        image = self.wishes.resolve(self._get)
        interpreter = self.wishes.spec.get("interpreter")
        if interpreter is not None:
            return Interior(image, "{python}" if interpreter in _ANY_PYTHON else interpreter)
        return self._beside(image) if self.wishes.is_conda else Interior(image, replaced=self._replaced)

    def _beside(self, image: str) -> Interior:
        """A conda environment brings its own Python: it is built on the machine, and mounted where it is."""
        building = environment.Building(self.machine, self.run, self.folder, self.tools)
        ready = building.ready()
        if ready is None:
            self.tools.stage.begin("building the environment")
            ready = building.wait()
        return Interior(image, *ready)

    def _get(self, step: Step) -> str:
        """Have that image, whoever makes it."""
        image = Image(self.machine, self.engine, step.reference, self.folder.at(BUILD_LOG), self.tools)
        known = image.whole()
        if known is None:
            self.tools.stage.begin(f"{'building' if step.is_ours else 'pulling'} the image")
            known = image.get(lambda: self._make(image, step))
            forget_old(self.machine, self.engine)
        if step.base is not None:
            self._replaced = json.loads(known["replaced"])
        return str(known["id"])

    def _make(self, image: "Image", step: Step) -> Dict[str, Any]:
        if step.base is not None:
            from .package_layer import make_layer

            make_layer(image, step.base, self.wishes, self.machine, self.run, self.folder)
        elif step.is_ours:
            dockerfile.build(image, self.wishes, self.machine, self.run.get("tools") or {})
        else:
            _pull(image)
        known = image.whole()
        if known is None:
            raise EngineAway("The engine broke off while it made the image.")
        image.say("The image is ready.")
        return {**known, "is_ours": step.is_ours}


class Image(Once):
    """An image that is pulled or built once. Whether it is there, the engine says."""

    def __init__(self, machine: Machine, engine: Engine, reference: str, own_log: str, tools: Tools) -> None:
        os.makedirs(_folder(machine), 0o700, exist_ok=True)
        super().__init__(f"{_folder(machine)}/{_digest(reference)}", own_log, tools)
        self.engine = engine
        self.reference = reference

    def whole(self) -> Optional[Dict[str, Any]]:
        found = _inspect(self.engine, self.reference)
        if found is None:
            return None
        self._use()
        labels = (found.get("Config") or {}).get("Labels") or {}
        return {"reference": self.reference, "id": str(found["Id"]), "replaced": labels.get(_REPLACED, "{}")}

    def commit(self, container: str, replaced: Dict[str, str]) -> None:
        """Make the image of a container. It says itself what was replaced, to every machine's folder that finds it."""
        repository, _, tag = self.reference.partition(":")
        commit = f"/commit?container={container}&repo={repository}&tag={tag}&pause=0"
        self.engine.call("POST", commit, {"Labels": {_REPLACED: json.dumps(replaced)}}, seconds=600.0)

    def _use(self) -> None:
        """It is young again."""
        try:
            if time.time() - os.stat(f"{self.path}.json").st_mtime > _YOUNG_SECONDS:
                os.utime(f"{self.path}.json")
        except FileNotFoundError:
            pass  # it was there before us

    def attend(self, answer: Answer) -> Iterator[Dict[str, Any]]:
        """What the engine says, line by line, however long it is silent: a run that is to stop ends it."""
        rest = b""
        try:
            for piece in answer.pieces(float("inf"), self.meanwhile):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
            if rest.strip():
                yield json.loads(rest)
        except ValueError:
            # Which happens when it goes in the middle of a line.
            raise EngineAway(f"The engine's words are not understood: {ascii(rest[:100])}") from None
        finally:
            answer.close()

    def meanwhile(self) -> None:
        self.listen()
        self.tools.pause(0)


def _inspect(engine: Engine, reference: str, seconds: float = SECONDS) -> Optional[Dict[str, Any]]:
    """What the engine knows of an image, if it is there."""
    try:
        found = engine.call("GET", f"/images/{quoted(reference)}/json", seconds=seconds)
    except EngineRefused as e:
        if e.status == 404:
            return None
        raise
    if not isinstance(found, dict) or "Id" not in found:
        raise EngineAway(f"The engine does not say which image {reference} is.")
    return found


def _pull(image: Image) -> None:
    name, _, tag = image.reference.rpartition(":")
    is_tagged = bool(name) and "/" not in tag
    where = f"/images/create?fromImage={quoted(image.reference)}" + ("" if is_tagged else "&tag=latest")
    image.say(f"Pulling the image {image.reference}.")
    login = registry_auth.for_image(image.reference)
    try:
        answer = image.engine.open("POST", where, headers=login.headers)
        for line in image.attend(answer):
            if line.get("error"):
                raise EngineRefused(500, str(line["error"]))
            if line.get("status") and not line.get("progressDetail"):
                image.say(": ".join(filter(None, (line.get("id"), line["status"]))))
    except EngineRefused as e:
        lines = [f"The image {image.reference} is not on this machine and could not be pulled: {e}", *login.troubles]
        lines += ["Check its name; if it is private, type `docker login` there; or load it there with `docker load`."]
        raise image.refusal("\n".join(lines)) from None


def forget_old(machine: Machine, engine: Engine) -> None:
    """Images of ours that no run has used for long."""
    for entry in os.scandir(_folder(machine)):
        if not entry.name.endswith(".json"):
            continue
        try:
            known = read_json(entry.path) or {}
            if not known.get("is_ours") or time.time() - entry.stat().st_mtime < _KEPT_SECONDS:
                continue
            _remove(engine, known["reference"])
        except (OSError, EngineAway, EngineRefused):
            continue  # in use, or another one was quicker
        for suffix in (".json", ".log", ".failed"):
            remove(entry.path[: -len(".json")] + suffix)


def _remove(engine: Engine, reference: str) -> None:
    try:
        engine.call("DELETE", f"/images/{reference}")
    except EngineRefused as e:
        if e.status != 404:  # somebody has removed it by hand
            raise


def _folder(machine: Machine) -> str:
    return f"{machine.root}/images"


def _name(wishes: Any) -> str:
    return f"{REPOSITORY}:{_digest(wishes)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
