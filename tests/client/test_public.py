"""The names of `import windlass`, and its import time."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import windlass
from windlass.client.unsupported import HINTS


def test_type_checkers_see_the_names_that_there_are() -> None:
    """The names are found when they are used, from a table; the imports beside it are for type checkers."""
    tree = ast.parse(Path(windlass.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "importlib"]
    seen = {alias.asname: node.module for node in imports for alias in node.names if alias.asname}
    assert seen == {name: f"windlass.{module}" for name, module in windlass._MODULES.items()}
    assert list(windlass._MODULES) == sorted(windlass._MODULES) == windlass.__all__


@pytest.mark.parametrize("name", windlass.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(windlass, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Wurkspace'"):
        windlass.Wurkspace  # noqa: B018


@pytest.mark.parametrize("name", ["LinkedService", "Dataset", "Webservice", "Pipeline"])
def test_a_name_of_azures_sdk_that_is_not_there_yet_says_what_to_do(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name} is not provided in this version\. [\w`]"):
        exec(f"from windlass import {name}")
    with pytest.raises(AttributeError, match=f"{name} is not provided in this version"):
        getattr(windlass, name)
    assert not hasattr(windlass, name)


def test_widgets_are_where_azure_has_them() -> None:
    from windlass import widgets

    assert widgets.RunDetails is windlass.RunDetails


def test_what_is_provided_is_not_called_absent() -> None:
    assert not set(HINTS) & set(windlass.__all__)


def loaded_by(program: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}; print(*sys.modules)"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded = loaded_by("import windlass")
    assert not loaded & {"typing", "json", "re", "socket", "subprocess", "dataclasses", "http", "windlass.client"}


# What a script that submits imports. A module more is paid for by each of them: import it where it is used.
SUBMITS = "import windlass; windlass.Workspace, windlass.Experiment, windlass.ScriptRunConfig, windlass.Environment"
OF_THE_CLIENT = """
    config config.file_location config.run_configuration config.run_configuration_file config.run_sections
    config.section config.yaml environments environments.conda_dependencies environments.conda_file
    environments.conda_lines environments.environment environments.requirements environments.sections exceptions
    experiment metrics metrics.metric_logging metrics.metric_values names runs runs.files runs.labels runs.lifecycle
    runs.record runs.run submit submit.script_run_config unsupported workspace workspace.config_file
    workspace.workspace
"""
OF_CORE = {"windlass.core", "windlass.core.errors", "windlass.core.names"}
HEAVY = {
    *("asyncio", "dataclasses", "difflib", "email", "hashlib", "html", "http.client", "inspect", "logging", "shlex"),
    *("ssl", "subprocess", "tempfile", "zipfile"),
}


def test_a_script_that_submits_loads_these_modules_and_no_others() -> None:
    loaded = loaded_by(f"{SUBMITS}, windlass.Run")
    expected = {f"windlass.client.{name}" for name in OF_THE_CLIENT.split()} | OF_CORE
    ours = {name for name in loaded if name.startswith("windlass.")}
    assert ours <= expected | {"windlass._version", "windlass.client"}
    assert not loaded & HEAVY


def test_a_script_that_logs_loads_no_network() -> None:
    loaded = loaded_by("from windlass import Run; Run.get_context(); import windlass.client.runs.submitted_run")
    assert "windlass.client.runs.run" in loaded
    assert not loaded & {"socket", "ssl", "http.client", "subprocess", "dataclasses", "logging", "urllib.parse"}


def test_the_way_to_the_server_loads_no_tls_and_no_mail_parser() -> None:
    assert not loaded_by("import windlass.client.http.embedded_server") & {"ssl", "http.client", "email", "subprocess"}
