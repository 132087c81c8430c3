"""docs/azureml.md: what public code uses of Azure's SDK, and which of it works."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Iterator

from tools.azureml_coverage import DATA, Found, State, Use, core_symbols, demand, find, share
from tools.docs.markdown import code, document, table
from windlass._version import AZUREML_VERSION

INTRODUCTION = """\
Scripts and notebooks that were written for Azure's Python SDK, version 1, say `from azureml.core import Workspace`. The
package `azureml` of Windlass has the names and signatures of version {version} over Windlass' own classes, so that
they run as they are. [From Azure ML](how-to/from-azureml.md) shows how to make it importable; in a run it is there
already.

1,140 public files were counted to see what people use. Of their {core_count} uses of the core (workspaces,
experiments, runs, environments, compute targets, models, without data, deployment, pipelines and sweeps)
**{core_share}** lead to code that does it; of all {all_count} uses {all_share}.

- What **raises** can be imported and named, so that no import fails. Using it raises `NotProvided`, which says what to
  use instead.
- What is **refused later** can be written into a configuration. Submitting the run, or creating the target, fails and
  says why.
- What is **not there** is an attribute that objects here do not have.

Some names work with less than Azure gives them:

- `InteractiveLoginAuthentication` and its like accept what they are given and keep no secret of it;
  `get_authentication_header()` opens the Windlass server, and no service of Azure's.
- `set_diagnostics_collection()` prints what Azure's prints; nothing is collected.
- `user_logs/std_log.txt` is the log of a run. `download_file()`, `download_files()` and `get_details()["logFiles"]`
  find it as `azureml-logs/70_driver_log.txt`, too, unless the run has a file of that name. Lists have it once.
- `azureml._restclient.snapshots_client.SNAPSHOT_MAX_SIZE_BYTES` and `SNAPSHOT_MAX_FILES` are the limits of a snapshot:
  assign them to change them. `AML_SNAPSHOT_NO_FILE_LIMIT=True` in the environment lifts the second."""

# Families of symbols, by the modules that Azure has them in. The first that fits is taken.
FAMILIES = {
    "Data": (
        "azureml.data", "azureml.core.dataset", "azureml.core.datastore", "azureml.fsspec", "azureml.opendatasets",
    ),
    "Data preparation": ("azureml.dataprep", "azureml.datadrift"),
    "Web services": ("azureml.core.webservice", "azureml.core.image", "azureml.core.profile", "azureml.monitoring"),
    "Pipelines": ("azureml.pipeline",),
    "Sweeps": ("azureml.train.hyperdrive",),
    "Automated machine learning": ("azureml.train.automl", "azureml.automl", "azureml.contrib.automl"),
    "Workspaces": ("azureml.core.workspace", "azureml.core.keyvault", "azureml.core.authentication"),
    "Experiments and runs": (
        "azureml.core.experiment", "azureml.core.run", "azureml.core.script_run", "azureml.widgets",
    ),
    "Scripts to run": ("azureml.core.script_run_config", "azureml.core.runconfig", "azureml.train"),
    "Environments": (
        "azureml.core.environment", "azureml.core.conda_dependencies", "azureml.core.container_registry",
        "azureml.core.databricks",
    ),
    "Compute targets": ("azureml.core.compute", "azureml.core.compute_target", "azureml.core.linked_service"),
    "Models": ("azureml.core.model", "azureml.core.resource_configuration"),
    "Exceptions": ("azureml.exceptions",),
    "The rest of the core": ("azureml.core", "azureml.telemetry", "azureml._restclient", "azureml._base_sdk_common"),
    "Other packages": ("azureml",),
}  # fmt: skip


def page() -> str:
    uses, chosen = demand(), core_symbols()
    core = [use for use in uses if (use.kind, use.symbol) in chosen]
    introduction = INTRODUCTION.format(
        version=AZUREML_VERSION,
        core_share=f"{share(core):.1%}",
        all_share=f"{share(uses):.1%}",
        core_count=_count(core),
        all_count=_count(uses),
    )
    return document("The package azureml", introduction, *_families(uses))


def _count(uses: Iterable[Use]) -> str:
    return f"{sum(use.uses for use in uses):,}"


def _families(uses: list[Use]) -> Iterator[str]:
    """Classes and members, and the parameters that raise; the family that works most, first."""
    families: dict[str, list[Use]] = {family: [] for family in FAMILIES}
    for use in uses:
        if use.kind in ("class", "member") or _is_refused_parameter(use):
            families[family_of(_owner(use))].append(use)
    working = {f: sum(use.uses for use in own if find(use).state is State.WORKS) for f, own in families.items()}
    for family in sorted(families, key=lambda family: -working[family]):
        if families[family]:
            yield f"## {family}\n\n{_table(families[family])}"


def _is_refused_parameter(use: Use) -> bool:
    """Whether a function works, and a parameter of it does not."""
    function = Use("member", use.symbol.partition("(")[0], 0, 0)
    return use.kind == "param" and find(use).state is State.RAISES and find(function).state is State.WORKS


def _table(uses: list[Use]) -> str:
    """A row for each name; names without members that have the same hint share one."""
    rows: dict[tuple[str, str], list[str]] = {}
    for owner in dict.fromkeys(_owner(use) for use in uses):
        own = [use for use in uses if _owner(use) == owner]
        works = ", ".join(_short(use) for use in own if find(use).state is State.WORKS and use.symbol != owner)
        refused = "<br>".join(_refusals(owner, own))
        rows.setdefault((works or ("" if refused else "yes"), refused), []).append(code(owner))
    return table(["name", "works", "does not"], [(", ".join(names), *cells) for cells, names in rows.items()])


def _refusals(owner: str, uses: list[Use]) -> list[str]:
    """Members with the same hint together; for a name that is not provided at all, the hint alone."""
    if find(uses[0]).state is not State.WORKS:
        return [_reason(find(uses[0]))]
    groups: dict[str, list[str]] = {}
    for use in uses:
        if find(use).state is not State.WORKS:
            groups.setdefault(_reason(find(use)), []).append(_short(use))
    return [f"{', '.join(members)}: {reason}" for reason, members in groups.items()]


def _reason(found: Found) -> str:
    return f"raises. {found.instead}" if found.state is State.RAISES else str(found.state)


def _short(use: Use) -> str:
    return code(use.symbol.removeprefix(_owner(use)).lstrip("."))


def _owner(use: Use) -> str:
    return use.symbol.partition("(")[0].partition(".")[0]


@functools.cache
def family_of(name: str) -> str:
    module = _home().get(name, "azureml")
    fitting = [
        (len(prefix), family)
        for family, prefixes in FAMILIES.items()
        for prefix in prefixes
        if module == prefix or module.startswith(f"{prefix}.")
    ]
    return max(fitting)[1]


@functools.cache
def _home() -> dict[str, str]:
    """The module of a name: the one in which Azure defines it, else the one from which most code imports it."""
    found: dict[str, str] = {}
    with (DATA / "azureml-api.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["class"] or row["member"], row["module"])
    for use in demand():
        if use.kind == "import":
            module, _, name = use.symbol.rpartition(".")
            found.setdefault(name, module)
    return found
