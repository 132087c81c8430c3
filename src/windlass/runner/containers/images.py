"""Images for containers: present, pulled, built from a Dockerfile, or built from another image and packages.

A built image is named by the digest of its inputs, so that it is built once and used until they change, also if the
name of its base becomes another image. Concurrent runs share one build and its log. Images that no run has used for 30
days are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

from ..environments import environment, requirements
from ..environments.build_once import BuildHooks, BuildOnce, EnvironmentFailed
from ..supervisor.launch import CannotStart
from ..workdir.machine_folder import Machine, remove
from ..workdir.run_folder import BUILD_LOG, RunFolder, append, read_json
from . import dockerfile, registry_auth
from .create_request import ContainerContents
from .docker_api import FEW_SECONDS, SECONDS, Answer, Engine, EngineRefused, EngineUnreachable, NoEngine, quoted, retry

REPOSITORY = "windlass/env"
_IDLE_SECONDS = 30 * 86400
_YOUNG_SECONDS = 86400
_ANY_PYTHON = ("python", "python3")
_REPLACED = "windlass.replaced"  # label of an image: its replaced packages


def prepare_image(machine: Machine, run: Mapping[str, Any], folder: RunFolder, hooks: BuildHooks) -> ContainerContents:
    """Pull or build the image of a run's container, and its conda environment if it has one."""
    try:
        return retry(ImageBuilder(machine, run, folder, hooks).contents, hooks.pause)
    except NoEngine as e:
        raise CannotStart(str(e)) from None
    except (EngineUnreachable, EngineRefused, OSError) as e:
        raise EnvironmentFailed(f"The image of this run could not be had: {e}") from None


def is_prepared(machine: Machine, run: Mapping[str, Any]) -> bool:
    """Whether the container could be created without pulling or building anything."""
    request = ImageRequest(run)

    def look(step: "Step") -> str:
        found = _inspect(engine, step.reference, FEW_SECONDS)
        if found is None:
            raise LookupError(step.reference)
        return str(found["Id"])

    try:
        engine = Engine(run["container"].get("engine"))
        request.resolve(look)
    except (EngineUnreachable, EngineRefused, LookupError):
        return False
    return not request.is_conda or environment.is_prepared(machine, run)


class Base(NamedTuple):
    name: str
    id: str


class Step(NamedTuple):
    """An image to pull or build on the way to the requested one."""

    reference: str
    is_ours: bool = False  # built here, as opposed to pulled
    base: Optional[Base] = None  # what packages are to be added to


class ImageRequest:
    """The image that a run requests: base image or Dockerfile, and packages."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.spec = environment.spec_of(run)
        self.image = run["container"].get("image")
        self.dockerfile: str = run["container"].get("dockerfile") or ""
        self.context = dockerfile.context_of(self.dockerfile, run)
        self.network: str = (run["container"].get("host") or {}).get("NetworkMode", "default")
        is_built = self.spec.get("interpreter") is None
        self.is_conda = is_built and bool(requirements.conda_requirements(self.spec))
        # A requested Python alone needs a layer too: the version is checked when the layer is built.
        asks = requirements.image_requirements(self.spec) or requirements.wanted_python(self.spec)
        self.has_layer = is_built and not self.is_conda and bool(asks)

    def resolve(self, get: Callable[[Step], str]) -> str:
        """The name of the final image. `get` pulls or builds each image on the way, in order, and returns its id."""
        step = Step(str(self.image))
        if self.dockerfile:
            bases = [get(Step(name)) for name in dockerfile.plain_bases_of(self.dockerfile)]
            step = Step(_image_name(["dockerfile", self.dockerfile, self.context, bases]), is_ours=True)
        base = Base(step.reference, get(step))
        if self.has_layer:
            wanted = [requirements.wanted_python(self.spec), requirements.image_requirements(self.spec)]
            mode = ["strict"] if self.spec.get("strict") else []
            name = _image_name(["packages", base.id, *wanted, list(self.spec.get("pip_options") or ()), *mode])
            step = Step(name, is_ours=True, base=base)
            get(step)
        return step.reference


class ImageBuilder:
    """Pulls and builds the images that one run needs."""

    def __init__(self, machine: Machine, run: Mapping[str, Any], folder: RunFolder, hooks: BuildHooks) -> None:
        self.machine = machine
        self.run = run
        self.folder = folder
        self.hooks = hooks
        self.request = ImageRequest(run)
        self.engine = Engine(run["container"].get("engine"))
        self._is_waiting = False
        self._replaced: Dict[str, str] = {}

    def contents(self) -> ContainerContents:
        try:
            return self._resolve()
        except EngineUnreachable as e:
            self._report_waiting(e)
            raise

    def _report_waiting(self, why: EngineUnreachable) -> None:
        if not self._is_waiting:
            self.hooks.stage.begin("waiting for the Docker engine")
            append(self.folder.at(BUILD_LOG), f"Waiting for the Docker engine. {why}\n".encode("utf-8", "replace"))
        self._is_waiting = True

    def _resolve(self) -> ContainerContents:
        image = self.request.resolve(self._image_id)
        interpreter = self.request.spec.get("interpreter")
        if interpreter is not None:
            return ContainerContents(image, "{python}" if interpreter in _ANY_PYTHON else interpreter)
        if self.request.is_conda:
            return self._with_conda_environment(image)
        return ContainerContents(image, replaced=self._replaced)

    def _with_conda_environment(self, image: str) -> ContainerContents:
        """Build the conda environment on the machine: it has its own Python, and is mounted at its path."""
        building = environment.EnvironmentBuild(self.machine, self.run, self.folder, self.hooks)
        ready = building.ready()
        if ready is None:
            self.hooks.stage.begin("building the environment")
            ready = building.wait()
        return ContainerContents(image, *ready)

    def _image_id(self, step: Step) -> str:
        """Pull or build an image, or wait for the process that does; returns its id."""
        image = Image(self.machine, self.engine, step.reference, self.folder.at(BUILD_LOG), self.hooks)
        known = image.completed()
        if known is None:
            self.hooks.stage.begin(f"{'building' if step.is_ours else 'pulling'} the image")
            known = image.get_or_build(lambda: self._build_or_pull(image, step))
            evict_old_images(self.machine, self.engine)
        if step.base is not None:
            self._replaced = json.loads(known["replaced"])
        return str(known["id"])

    def _build_or_pull(self, image: "Image", step: Step) -> Dict[str, Any]:
        if step.base is not None:
            from .package_layer import make_layer

            make_layer(image, step.base, self.request, self.machine, self.run, self.folder)
        elif step.is_ours:
            dockerfile.build(image, self.request, self.machine, self.run.get("tools") or {})
        else:
            _pull(image)
        known = image.completed()
        if known is None:
            raise EngineUnreachable("The engine broke off while it made the image.")
        image.log_line("The image is ready.")
        return {**known, "is_ours": step.is_ours}


class Image(BuildOnce):
    """An image that is pulled or built once. Whether it exists is the engine's answer, not a file's."""

    def __init__(self, machine: Machine, engine: Engine, reference: str, own_log: str, hooks: BuildHooks) -> None:
        os.makedirs(_folder(machine), 0o700, exist_ok=True)
        super().__init__(f"{_folder(machine)}/{_digest(reference)}", own_log, hooks)
        self.engine = engine
        self.reference = reference

    def completed(self) -> Optional[Dict[str, Any]]:
        found = _inspect(self.engine, self.reference)
        if found is None:
            return None
        self._touch()
        labels = (found.get("Config") or {}).get("Labels") or {}
        return {"reference": self.reference, "id": str(found["Id"]), "replaced": labels.get(_REPLACED, "{}")}

    def commit(self, container: str, replaced: Dict[str, str]) -> None:
        """Commit a container as the image. A label has its replacements, for all machine folders of this engine."""
        repository, _, tag = self.reference.partition(":")
        commit = f"/commit?container={container}&repo={repository}&tag={tag}&pause=0"
        self.engine.call("POST", commit, {"Labels": {_REPLACED: json.dumps(replaced)}}, seconds=600.0)

    def _touch(self) -> None:
        """Mark it as used now."""
        try:
            if time.time() - os.stat(f"{self.path}.json").st_mtime > _YOUNG_SECONDS:
                os.utime(f"{self.path}.json")
        except FileNotFoundError:
            pass  # not built here

    def stream(self, answer: Answer) -> Iterator[Dict[str, Any]]:
        """The engine's JSON lines, without a timeout; ends with an exception if the run is to stop."""
        rest = b""
        try:
            for piece in answer.pieces(float("inf"), self.check_stop):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
            if rest.strip():
                yield json.loads(rest)
        except ValueError:
            # The engine stopped in the middle of a line.
            raise EngineUnreachable(f"The engine's answer is not understood: {ascii(rest[:100])}") from None
        finally:
            answer.close()

    def check_stop(self) -> None:
        """Called while the engine works: copy the log, and raise if the run is to stop."""
        self.copy_log_within_limit()
        self.hooks.pause(0)


def _inspect(engine: Engine, reference: str, seconds: float = SECONDS) -> Optional[Dict[str, Any]]:
    """The engine's description of an image; None if it is not there."""
    try:
        found = engine.call("GET", f"/images/{quoted(reference)}/json", seconds=seconds)
    except EngineRefused as e:
        if e.status == 404:
            return None
        raise
    if not isinstance(found, dict) or "Id" not in found:
        raise EngineUnreachable(f"The engine does not say which image {reference} is.")
    return found


def _pull(image: Image) -> None:
    name, _, tag = image.reference.rpartition(":")
    is_tagged = bool(name) and "/" not in tag
    where = f"/images/create?fromImage={quoted(image.reference)}" + ("" if is_tagged else "&tag=latest")
    image.log_line(f"Pulling the image {image.reference}.")
    login = registry_auth.for_image(image.reference)
    try:
        answer = image.engine.open("POST", where, headers=login.headers)
        for line in image.stream(answer):
            if line.get("error"):
                raise EngineRefused(500, str(line["error"]))
            if line.get("status") and not line.get("progressDetail"):
                image.log_line(": ".join(filter(None, (line.get("id"), line["status"]))))
    except EngineRefused as e:
        lines = [f"The image {image.reference} is not on this machine and could not be pulled: {e}", *login.problems]
        lines += ["Check its name; if it is private, type `docker login` there; or load it there with `docker load`."]
        raise image.logged_failure("\n".join(lines)) from None


def evict_old_images(machine: Machine, engine: Engine) -> None:
    """Remove images built here that no run has used for 30 days."""
    for entry in os.scandir(_folder(machine)):
        if not entry.name.endswith(".json"):
            continue
        try:
            known = read_json(entry.path) or {}
            if not known.get("is_ours") or time.time() - entry.stat().st_mtime < _IDLE_SECONDS:
                continue
            _remove(engine, known["reference"])
        except (OSError, EngineUnreachable, EngineRefused):
            continue  # in use, or removed by another process
        for suffix in (".json", ".log", ".failed"):
            remove(entry.path[: -len(".json")] + suffix)


def _remove(engine: Engine, reference: str) -> None:
    try:
        engine.call("DELETE", f"/images/{reference}")
    except EngineRefused as e:
        if e.status != 404:  # it was removed by hand
            raise


def _folder(machine: Machine) -> str:
    return f"{machine.root}/images"


def _image_name(inputs: Any) -> str:
    return f"{REPOSITORY}:{_digest(inputs)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
