"""Every import of public code works; names that this version lacks raise NotProvided when they are used."""

from __future__ import annotations

import pickle
import subprocess
import sys
import typing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import windlass
from tools.azureml_coverage import BUDGET, COMPAT, State, Use, core_symbols, demand, find, names, share
from windlass.client.exceptions import NotProvided
from windlass.client.unsupported import HINTS

IMPORTS = [use.symbol for use in demand() if use.kind == "import"]
EXCEPTIONS = [name for name in import_module("azureml.exceptions").__all__]


def python(program: str, **variables: str) -> str:
    """What a program prints that has the package on its path and has imported nothing else."""
    environment = {"PATH": "/usr/bin", "PYTHONPATH": str(COMPAT), "PYTHONWARNINGS": "error", **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("symbol", IMPORTS)
def test_public_imports_work(symbol: str) -> None:
    module, _, name = symbol.rpartition(".")
    found: dict[str, object] = {}
    exec(f"from {module} import {name}" if module else f"import {name}", found)
    if name != "*":
        assert getattr(sys.modules[module], name) is found[name] if module else found[name]


def test_a_star_brings_what_the_module_lists() -> None:
    found: dict[str, object] = {}
    exec("from azureml.train.hyperdrive import *", found)
    assert {"HyperDriveConfig", "choice", "BanditPolicy"} <= set(found)


def test_modules_list_their_names_before_they_are_used() -> None:
    shown = python("import azureml.core.run as m; print(dir(m), hasattr(m, 'Run'), hasattr(m, 'Ran'))")
    assert "'Run'" in shown and "'_OfflineRun'" in shown
    assert shown.split()[-2:] == ["True", "False"]


def test_modules_are_attributes_of_their_package() -> None:
    assert python("import azureml.core; print(azureml.core.compute_target.ComputeTargetException.__name__)")
    assert python("import azureml; print(azureml.core.VERSION)") == "1.61.0\n"


@pytest.mark.parametrize("name", ["VERSION", "__version__"])
def test_the_version_is_that_of_azures_api(name: str) -> None:
    assert getattr(import_module("azureml.core"), name) == "1.61.0"
    assert windlass.VERSION != "1.61.0"


def test_importing_the_core_loads_next_to_nothing() -> None:
    shown = python("import sys, azureml.core; print(*sys.modules)")
    assert not {"typing", "re", "json", "windlass.client"} & set(shown.split())


def test_importing_the_usual_names_loads_neither_network_nor_json() -> None:
    program = "import sys; from azureml.core import Workspace, Experiment, Run; print(*sys.modules)"
    assert not {"json", "socket", "ssl", "subprocess", "windlass.client.http.session"} & set(python(program).split())


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_exception_is_the_same_class_by_all_paths(name: str) -> None:
    kind = getattr(import_module("azureml.exceptions"), name)
    assert issubclass(kind, import_module("azureml.exceptions").AzureMLException)
    assert kind is getattr(import_module("azureml.exceptions._azureml_exception"), name)
    assert kind is getattr(windlass, name)
    for module in ("azureml.core.compute_target", "azureml.core.workspace", "azureml.core.webservice"):
        assert kind is getattr(import_module(module), name, kind)
    assert kind("what happened").message.endswith("what happened")


def test_an_exception_takes_azures_keywords() -> None:
    kind = import_module("azureml.exceptions").UserErrorException
    assert kind(exception_message="what happened", target="Workspace").message == "what happened"


def test_a_name_is_the_same_thing_by_all_paths() -> None:
    found: dict[str, object] = {}
    for symbol in IMPORTS:
        module, _, name = symbol.rpartition(".")
        thing = getattr(import_module(module), name) if module and name != "*" else None
        if isinstance(thing, type):
            assert found.setdefault(name, thing) is thing, symbol


def test_classes_go_through_pickle() -> None:
    for name in ("Workspace", "Dataset", "Pipeline"):
        kind = names()[name]
        assert pickle.loads(pickle.dumps(kind)) is kind  # noqa: S301


def test_functions_of_data_preparation_and_members_of_constants_say_what_they_lack() -> None:
    dataprep = import_module("azureml.dataprep")
    uses = [use.symbol.partition("(")[0] for use in demand() if use.symbol.startswith(("read_", "register_secret("))]
    for name in {"read_csv", *uses}:
        with pytest.raises(NotProvided, match=f"{name} is not provided"):
            getattr(dataprep, name)("data.csv")
    constants = [use for use in demand() if use.symbol.startswith("constants.")]
    assert constants and {find(use).state for use in constants} == {State.RAISES}
    with pytest.raises(NotProvided, match="Metric"):
        import_module("azureml.train.automl.constants").Metric.Accuracy  # noqa: B018


def test_a_missing_module_says_so() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"^There is no module azureml.contrib.foo in this version; see "
    ) as e:
        import_module("azureml.contrib.foo")
    assert e.value.name == "azureml.contrib.foo"
    assert find_spec("azureml.contrib.foo") is None
    assert find_spec("azureml.core.run") is not None


@pytest.mark.parametrize("module", ["azureml.core", "azureml.core.run"])
def test_a_missing_name_says_so(module: str) -> None:
    with pytest.raises(ImportError, match=f"cannot import name 'Ran' from '{module}'"):
        exec(f"from {module} import Ran")
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Ran' in this version"):
        import_module(module).Ran  # noqa: B018


ABSENT = sorted(name for name, thing in names().items() if isinstance(getattr(thing, "__not_provided__", None), str))


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_provided_raises_when_it_is_used(name: str) -> None:
    kind = names()[name]
    for use in (kind, lambda: kind.something, type("Mine", (kind,), {})):
        with pytest.raises(NotProvided) as e:
            use()
        assert e.value.message.count(".") == 1 + e.value.message.startswith(f"{name}.")
        assert e.value.message.endswith(" is not provided in this version.")
        assert e.value.message.startswith(name)
        assert e.value.hint.endswith(".") and "\n" not in e.value.hint


def test_what_is_not_provided_can_be_named_in_annotations_and_compared_with() -> None:
    dataset = names()["Dataset"]
    assert not isinstance("text", dataset)
    assert typing.get_args(typing.Optional[dataset]) == (dataset, type(None))  # noqa: UP045
    assert not hasattr(dataset, "_repr_html_")
    assert "Dataset" in repr(dataset)


def test_a_subclass_has_what_is_its_own() -> None:
    mine = type("Mine", (names()["PythonScriptStep"],), {"retries": 3})
    assert mine.retries == 3  # type: ignore[attr-defined]


def test_what_is_provided_has_no_hint() -> None:
    assert not set(HINTS) & set(windlass.__all__)


def marked_members() -> dict[str, Any]:
    """The functions of provided classes that are marked as not provided."""
    found = {}
    for owner in {thing for thing in names().values() if isinstance(thing, type)}:
        for name, value in vars(owner).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if hasattr(function, "__not_provided__"):
                found[f"{owner.__name__}.{name}"] = function
    return found


@pytest.mark.parametrize("name", sorted(marked_members()))
def test_a_member_that_is_not_provided_raises_and_says_what_to_use(name: str) -> None:
    function = marked_members()[name]
    with pytest.raises(NotProvided) as e:
        function(None)
    assert e.value.message.endswith(" not provided in this version.") and e.value.message.count(". ") == 0
    assert e.value.hint.endswith((".", ")", "NAME")) and "\n" not in e.value.hint
    assert "not provided in this version" in function.__doc__


def test_most_of_what_people_use_of_the_core_does_something() -> None:
    core = [use for use in demand() if (use.kind, use.symbol) in core_symbols()]
    assert share(core) >= BUDGET


def test_symbols_of_the_core_are_symbols_that_people_use() -> None:
    assert core_symbols() <= {(use.kind, use.symbol) for use in demand()}


@pytest.mark.parametrize(
    ("kind", "symbol", "state"),
    [
        ("import", "azureml.core.Workspace", State.WORKS),
        ("import", "azureml.core.Dataset", State.RAISES),
        ("import", "azureml.dataprep", State.RAISES),
        ("member", "Environment.python.conda_dependencies", State.WORKS),
        ("member", "Environment.docker.no_such_thing", State.UNKNOWN),
        ("member", "Workspace.datasets", State.RAISES),
        ("member", "Dataset.Tabular.from_delimited_files", State.RAISES),
        ("member", "RunConfiguration.data", State.REFUSED),
        ("param", "Run.log(value)", State.WORKS),
        ("param", "Run.log(valeu)", State.UNKNOWN),
        ("param", "Run.log_row(any_column)", State.WORKS),
        ("param", "Experiment.submit(show_output)", State.WORKS),
        ("param", "Experiment.submit(pipeline_parameters)", State.UNKNOWN),
        ("param", "Model.register(datasets)", State.RAISES),
        ("param", "ScriptRunConfig(resume_from)", State.RAISES),
    ],
)
def test_the_coverage_counts_what_does_something(kind: str, symbol: str, state: State) -> None:
    assert find(Use(kind, symbol, 1, 1)).state is state


def test_the_package_travels_with_a_run() -> None:
    import io
    import zipfile

    from windlass.drivers.machine import runner_package

    inside = set(zipfile.ZipFile(io.BytesIO(runner_package.sdk().data)).namelist())
    here = {path.relative_to(COMPAT).as_posix() for path in Path(COMPAT, "azureml").rglob("*.py")}
    assert here <= inside and "windlass/widgets.py" in inside
