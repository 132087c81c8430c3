"""How much of what public code uses of Azure's SDK is provided: `make azureml-coverage`.

Public code was counted once (tests/azureml/data/azureml-demand.csv): how often it imports a name, uses a class or a
member of it, and passes a parameter. A use counts as provided if the symbol leads to code that does it. What can be
imported and raises NotProvided does not count, nor what is refused when a run is submitted or a target is created.
"""

from __future__ import annotations

import csv
import functools
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType, NoneType
from typing import Any

from windlass import drivers
from windlass.client.config.section import Section

ROOT = Path(__file__).resolve().parent.parent
COMPAT = ROOT / "src" / "windlass" / "compat"
DATA = ROOT / "tests" / "azureml" / "data"
BUDGET = 0.92  # share of the uses that need no data, deployment, pipeline or sweep

_PROCESSES = (
    *("distributed_training", "distributed_backend", "node_count", "process_count_per_node", "worker_count"),
    "parameter_server_count",
)
# Accepted in a configuration, and refused when a run of it is submitted (client/submit/).
REFUSED = {
    *("DockerBuildContext", "Environment.from_docker_build_context"),
    *("MpiConfiguration", "PyTorchConfiguration", "TensorflowConfiguration", "RunConfiguration.mpi"),
    *("RunConfiguration.data", "RunConfiguration.data_references", "RunConfiguration.output_data"),
    *("ScriptRunConfig(distributed_job_config)", "RunConfiguration.amlcompute", "Environment.r", "SparkPackage"),
    *("Gloo", "Mpi", "Nccl", "ParameterServer"),
    *(f"{estimator}({name})" for estimator in ("Estimator", "PyTorch", "TensorFlow") for name in _PROCESSES),
}
# Functions that pass their keywords on, with the function that gets them.
PASSED_ON = {name: "windlass.client.submit.submission:Submission" for name in ("Experiment.submit", "Run.submit_child")}
# What makes the configuration that a target is created or attached by; it names the kinds of targets.
MAKERS = ("provisioning_configuration", "attach_configuration")
ANY_KEYWORD = ("Run.log_row",)
NOTHING = object()


class State(StrEnum):
    WORKS = "works"
    RAISES = "raises NotProvided"
    REFUSED = "refused later"
    UNKNOWN = "not there"


@dataclass(frozen=True, slots=True)
class Use:
    """A symbol, with the number of its uses in public code."""

    kind: str  # import, class, member, param
    symbol: str
    files: int
    uses: int


@dataclass(frozen=True, slots=True)
class Found:
    state: State
    instead: str = ""


def demand() -> list[Use]:
    with (DATA / "azureml-demand.csv").open(encoding="utf-8") as file:
        return [Use(row["kind"], row["symbol"], int(row["files"]), int(row["uses"])) for row in csv.DictReader(file)]


def core_symbols() -> set[tuple[str, str]]:
    """(kind, symbol) of the uses that need no data, deployment, pipeline or sweep."""
    lines = (DATA / "core-symbols.txt").read_text("utf-8").splitlines()
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return {(kind, symbol) for kind, symbol in pairs}


def share(uses: Iterable[Use]) -> float:
    total = provided = 0
    for use in uses:
        total += use.uses
        provided += use.uses if find(use).state is State.WORKS else 0
    return provided / total


@functools.cache
def find(use: Use) -> Found:
    """The state of a use of a symbol."""
    if use.kind == "import":
        return _imported(use.symbol)
    path, _, parameter = use.symbol.rstrip(")").partition("(")
    found = _parameter(path, parameter) if parameter else _member(path)
    return Found(State.REFUSED) if found.state is State.WORKS and _is_refused(use.symbol, path) else found


def _is_refused(symbol: str, path: str) -> bool:
    owner, _, member = path.partition(".")
    if path == "RunConfiguration.node_count":
        return not any(drivers.load(kind).features.multi_node for kind in drivers.known_kinds())
    if member and _is_without_driver(names()[owner], member):
        return True
    return bool({symbol, path, owner} & REFUSED)


def _is_without_driver(owner: Any, member: str) -> bool:
    """Whether a member belongs to targets of a kind without a driver. Members that only describe such a target, such as
    provisioning_configuration(), work.
    """
    if not isinstance(owner, type) or not owner.__module__.startswith("windlass.client.compute."):
        return False
    if member == "create":
        return not any(_has_driver(kind, ("provisioning_configuration",)) for kind in _family(owner))
    is_of_objects = isinstance(inspect.getattr_static(owner, member, None), (NoneType, FunctionType, property))
    return is_of_objects and not _is_reachable(owner)


def _is_reachable(kind: type) -> bool:
    """Whether there can be objects of a class: a target of a kind with a driver, or a part of one."""
    beside = [found for found in vars(sys.modules[kind.__module__]).values() if _makes_targets(found)]
    makers = [kind] if _makes_targets(kind) else [found for found in beside if found.__module__ == kind.__module__]
    return not makers or any(_has_driver(maker, MAKERS) for maker in makers)


def _makes_targets(thing: object) -> bool:
    return isinstance(thing, type) and any(maker in vars(thing) for maker in MAKERS)


def _has_driver(kind: type, makers: tuple[str, ...]) -> bool:
    """Whether the server has a driver for what a class creates or attaches."""
    for maker in makers:
        made = getattr(kind, maker, None)
        if made is not None and not isinstance(made, type):  # a function that returns a configuration
            made = names().get(str(inspect.signature(made).return_annotation))
        if set(getattr(made, "_kinds", ())) & set(drivers.known_kinds()):
            return True
    return False


def _imported(symbol: str) -> Found:
    module, _, name = symbol.rpartition(".")
    return _judged(getattr(import_module(module), name, NOTHING) if module and name != "*" else True)


def _judged(thing: object) -> Found:
    if thing is NOTHING:
        return Found(State.UNKNOWN)
    if isinstance(thing, ModuleType):
        found = [_judged(getattr(thing, name)) for name in getattr(thing, "__all__", ())]
        return min(found, key=lambda each: each.state is not State.WORKS, default=Found(State.UNKNOWN))
    marked = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    instead = getattr(marked, "__not_provided__", "")
    return Found(State.RAISES, instead) if instead else Found(State.WORKS)


def _member(path: str) -> Found:
    """A class or function, or a member of a class: `Workspace.name`, `Environment.python.conda_dependencies`."""
    name, *members = path.split(".")
    owner = names().get(name, NOTHING)
    found = _judged(owner)
    for member in members:
        if found.state is State.WORKS:
            owner = _attribute(owner, member)
            found = _judged(owner)
    return found


def _attribute(owner: Any, name: str) -> Any:
    """A member of a class, a section of a configuration or a module; True where only an object of the class has it."""
    if isinstance(owner, ModuleType):
        return next((getattr(module, name) for module in _namesakes(owner) if name in dir(module)), NOTHING)
    if not isinstance(owner, type):
        return getattr(owner, name, NOTHING)
    for kind in _family(owner):
        found = inspect.getattr_static(kind, name, NOTHING)
        if found is not NOTHING:
            return found
    if issubclass(owner, Section):
        return getattr(owner._with_defaults(), name, NOTHING)
    return any(name in _instance_attributes(kind) for kind in _family(owner)) or NOTHING


def _namesakes(module: ModuleType) -> list[ModuleType]:
    """The modules of the same name, as code says `constants` of any of them."""
    last = module.__name__.rpartition(".")[2]
    found = [sys.modules[name] for name in sorted(sys.modules) if name.startswith("azureml.")]
    return [module, *(each for each in found if each.__name__.rpartition(".")[2] == last)]


def _family(kind: type) -> list[type]:
    """A class and those below it: code has a ComputeTarget and calls what an AmlCompute has."""
    classes = [found for found in names().values() if isinstance(found, type) and found is not kind]
    return [kind, *(found for found in classes if issubclass(found, kind) and _is_reachable(found))]


@functools.cache
def _instance_attributes(kind: type) -> frozenset[str]:
    """What the code of a class, or of a class above it, declares or sets on its objects."""
    found: set[str] = set()
    for parent in kind.__mro__:
        if parent.__module__.startswith("windlass"):
            found |= set(getattr(parent, "__annotations__", ()))
            found |= set(re.findall(r"\bself\.(\w+)\b[^=\n]*=[^=]", inspect.getsource(parent)))
    return frozenset(found)


def _parameter(path: str, name: str) -> Found:
    found = _member(path)
    if found.state is not State.WORKS:
        return found
    for function in _functions(path):
        refused = getattr(function, "__not_provided_parameters__", {})
        if name in refused:
            return Found(State.RAISES, refused[name])
        if name in inspect.signature(function).parameters or name in _keywords(path):
            return Found(State.WORKS)
    return Found(State.WORKS if path in ANY_KEYWORD else State.UNKNOWN)


def _functions(path: str) -> Iterator[Callable[..., Any]]:
    """The function, and those of the same name in classes below. It may be a class, which makes an object."""
    owner, _, member = path.partition(".")
    thing = names()[owner]
    kinds = _family(thing) if isinstance(thing, type) else []
    for found in [inspect.getattr_static(kind, member or "__init__", None) for kind in kinds] or [thing]:
        function = getattr(found, "__func__", found)
        if isinstance(function, (FunctionType, type)):
            yield function


def _keywords(path: str) -> set[str]:
    """What a function takes by keyword beside its parameters: it passes them on."""
    if path not in PASSED_ON:
        return set()
    module, _, name = PASSED_ON[path].partition(":")
    return {"show_output", *inspect.signature(getattr(import_module(module), name)).parameters}


@functools.cache
def names() -> dict[str, Any]:
    """Every name of the package `azureml`, and what it stands for."""
    if str(COMPAT) not in sys.path:
        sys.path.insert(0, str(COMPAT))
    package = import_module("azureml")
    modules = [import_module(info.name) for info in pkgutil.walk_packages(package.__path__, "azureml.")]
    listed = [(name, module) for module in modules for name in dir(module) if not name.startswith("__")]
    return {name: getattr(module, name) for name, module in reversed(listed)}


def main() -> int:
    uses = demand()
    chosen = core_symbols()
    core = [use for use in uses if (use.kind, use.symbol) in chosen]
    print(f"Uses of the core that are provided: {share(core):.1%} of {sum(use.uses for use in core):,}")
    print(f"Uses of all symbols that are provided: {share(uses):.1%} of {sum(use.uses for use in uses):,}")
    return 0 if share(core) >= BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
