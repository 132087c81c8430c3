"""Builds an environment in a folder: a virtual one for pip packages, a conda one if there are conda packages.

`build` is independent of runs.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Optional

from ..workdir.machine_folder import remove
from ..workdir.run_folder import read_json, write_json
from . import era, interpreters, requirements, toolchain
from .build_context import BuildContext, ToolResult
from .build_once import EnvironmentFailed
from .pip_packages import UV, PipPackages, TargetPython

_ASSUME_YES = {"CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true"}
_TREE = re.compile(r"^[\s\-─└├│╰]*")  # conda draws a tree around its messages
_ACTIVATE = 'for f in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do . "$f"; done >/dev/null 2>&1; env -0 >"$1"'
# Variables of the shell that ran the activation scripts, or that the runner sets itself.
_NOT_ACTIVATED = ("PATH", "PWD", "OLDPWD", "SHLVL", "_", "WINDLASS_BUILD", "WINDLASS_COOKIE")


class Built(NamedTuple):
    version: str  # of its Python
    variables: Dict[str, str]  # for programs that use it, besides PATH
    replaced: Dict[str, str]  # packages that differ from the request: a text for each name (era.py)


def build(prefix: str, spec: Dict[str, Any], context: BuildContext) -> Built:
    """Build the environment in `prefix`, which must not exist. EnvironmentFailed has the error of the tool."""
    packages = requirements.conda_requirements(spec)
    for package in requirements.without_sdk(spec.get("conda") or ())[1]:
        context.log_line(f"{package} is not installed: windlass provides it.")
    replaced = _make_conda(prefix, packages, spec, context) if packages else _make_virtual(prefix, spec, context)
    python = f"{prefix}/bin/python"
    version = interpreters.ask_version(python)
    if version is None:
        raise context.logged_failure(f"The environment has no Python that can be started ({python}).")
    replaced.update(_install_pip(prefix, version, spec, context))
    _remove_sdk(prefix, context)
    return Built(version, variables_of(prefix, context if packages else None), replaced)


def variables_of(prefix: str, context: Optional[BuildContext] = None) -> Dict[str, str]:
    """Variables of the activated environment. Its packages' activation scripts are run only if `context` is given."""
    if not os.path.isdir(f"{prefix}/conda-meta"):
        return {"VIRTUAL_ENV": prefix}
    basic = {"CONDA_PREFIX": prefix, "CONDA_DEFAULT_ENV": prefix}
    return {**basic, **(_activation_variables(prefix, basic, context) if context is not None else {})}


# ---- virtual environments ----


def _make_virtual(prefix: str, spec: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    wanted = requirements.wanted_python(spec)
    python = _find_python(wanted, bool(spec.get("strict")), context)
    replaced: Dict[str, str] = {}
    if wanted and not interpreters.fits(python.version, wanted):
        replaced = context.log_replaced(era.replaced_python(wanted, python.version, "on this machine"))
    context.log_line(f"Building an environment on Python {python.version} ({python.path}).")
    _run_uv(context, ["venv", "--no-project", "--quiet", "--python", python.path, prefix])
    if requirements.tool_requirements(spec):
        _install_bundled_wheels(prefix, python.path, context)
    return replaced


def _find_python(wanted: Optional[str], is_strict: bool, context: BuildContext) -> interpreters.Interpreter:
    try:
        found = interpreters.choose(wanted, is_strict)
        if wanted and interpreters.is_plain(wanted):
            release = wanted if is_strict else interpreters.minor_release(wanted)
            if (found is None or not interpreters.fits(found.version, release)) and _download_python(release, context):
                found = interpreters.choose(wanted, is_strict)
    except ValueError as e:
        raise context.logged_failure(str(e)) from None
    if found is None:
        versions = ", ".join(dict.fromkeys(each.version for each in interpreters.all_interpreters()))
        problem = f"No Python on this machine is {wanted}; there are {versions}."
        if is_strict and interpreters.choose(wanted) is not None:
            raise context.logged_failure(f"{problem}\n{era.STRICT}")
        raise context.logged_failure(f"{problem} Ask for one of these, or install one there.")
    return found


def _download_python(version: str, context: BuildContext) -> bool:
    """Let uv download that Python into uv's own folder, where it is found from then on. False if it cannot."""
    context.log_line(f"Python {version} is not on this machine; uv may bring it.")
    argv = [toolchain.uv(context), "python", "install", "--quiet", version]
    return context.run_unlogged(argv, {**toolchain.fast_timeouts(), "UV_PYTHON_INSTALL_BIN": "0"}) == 0


def _install_bundled_wheels(prefix: str, python: str, context: BuildContext) -> None:
    """Install the wheels that Python bundles for virtual environments (pip, setuptools); needs no package index."""
    wheels = interpreters.bundled(python)
    if wheels:
        argv = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--python", f"{prefix}/bin/python", *wheels]
        _run_uv(context, argv)


# ---- conda environments ----


def _make_conda(prefix: str, packages: List[str], spec: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    program = toolchain.conda(context.given)
    request = {"channels": list(spec.get("channels") or ()), "dependencies": packages}
    wanted, is_strict = requirements.wanted_python(spec), bool(spec.get("strict"))
    if program is not None:
        context.log_line(f"Building a conda environment with {program}: {', '.join(packages)}")
        return _create_with_conda(program, prefix, request, wanted, is_strict, context)
    context.log_line(f"Building a conda environment: {', '.join(packages)}")
    return _create_with_rattler(prefix, {**request, "python": wanted, "strict": is_strict}, context)


def _create_with_rattler(prefix: str, request: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    """In a child process, since rattler is no part of our Python. The request is passed in a file, not in argv."""
    path, answer = f"{context.once.scratch}/order", f"{context.once.scratch}/answer"
    write_json(path, {**request, "prefix": prefix, "answer": answer})
    result = context.run_tool([*toolchain.rattler(context), path])
    reply = read_json(answer) or {}
    if result.code != 0:
        raise EnvironmentFailed(str(reply.get("error") or result.error or f"rattler ended with code {result.code}"))
    return dict(reply.get("replaced") or {})


def _create_with_conda(
    program: str, prefix: str, request: Dict[str, Any], wanted: Optional[str], is_strict: bool, context: BuildContext
) -> Dict[str, str]:
    """If the channels lack a Python of past years, try the next newer ones."""
    python, *others = request["dependencies"]
    may_replace = wanted is not None and era.may_be_replaced(wanted)
    for package in era.conda_pythons(wanted, python) if wanted and may_replace and not is_strict else [python]:
        result = _run_conda_create(program, prefix, {**request, "dependencies": [package, *others]}, context)
        if result.code == 0:
            if package == python:
                return {}
            return context.log_replaced(era.replaced_python(str(wanted), package.partition("=")[2], "in the channels"))
        if not _lacks_python(result.error):
            break
    error = result.error or f"{os.path.basename(program)} ended with code {result.code}"
    is_refused = is_strict and may_replace and _lacks_python(error)
    raise EnvironmentFailed(f"{error}\n{era.STRICT}" if is_refused else error)


def _run_conda_create(program: str, prefix: str, request: Dict[str, Any], context: BuildContext) -> ToolResult:
    remove(prefix)
    path = f"{context.once.scratch}/environment.yml"
    write_json(path, {key: value for key, value in request.items() if value})  # which is YAML too
    verb = ["create"] if os.path.basename(program) == "micromamba" else ["env", "create"]
    return context.run_tool([program, *verb, "-p", prefix, "-f", path], _ASSUME_YES)


def _lacks_python(error: str) -> bool:
    """Whether the error of conda, mamba or micromamba says that there is no such Python."""
    lines = [_TREE.sub("", line) for line in error.splitlines()]
    is_listed = re.search(r"not available from current channels|PackagesNotFound|ResolvePackageNotFound", error)
    for line in lines:
        if re.match(r"(nothing provides (requested )?)?python\b.*(does not exist|nothing provides)", line):
            return True
        if re.match(r"nothing provides (requested )?python\b", line) or (is_listed and re.match(r"python\b", line)):
            return True
    return False


def _activation_variables(prefix: str, basic: Dict[str, str], context: BuildContext) -> Dict[str, str]:
    """Variables set by the packages' activation scripts. Run once, at build time: they would cost every run a shell."""
    if not glob.glob(f"{glob.escape(prefix)}/etc/conda/activate.d/*.sh"):
        return {}
    path = f"{context.once.scratch}/variables"
    before = {**basic, "PATH": f"{prefix}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    shell = shutil.which("bash") or "/bin/sh"
    try:
        context.run_tool([shell, "-c", _ACTIVATE, shell, path], before)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            after = dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)
    except FileNotFoundError:
        context.log_line("The activation scripts of its packages could not be run.")
        return {}
    known = {**os.environ, **before, "NO_COLOR": "1"}
    return {k: v for k, v in after.items() if known.get(k) != v and k not in _NOT_ACTIVATED}


# ---- pip packages ----


def _install_pip(prefix: str, version: str, spec: Dict[str, Any], context: BuildContext) -> Dict[str, str]:
    for package in requirements.without_sdk(spec.get("pip") or ())[1]:
        context.log_line(f"{package} is not installed: windlass provides it.")
    packages = [package for package in requirements.pip_requirements(spec) if not _is_installed(prefix, package)]
    if not packages:
        return {}
    python = TargetPython(f"{prefix}/bin/python", version)

    def install(arguments: List[str]) -> ToolResult:
        whole = ["pip", "install", "--python", python.path, "--break-system-packages", *arguments]
        return context.run_tool([toolchain.uv(context), *whole], UV)

    return context.log_replaced(PipPackages(spec, packages, python, context, install).install())


def _is_installed(prefix: str, package: str) -> bool:
    """Whether any version was requested and one is installed: uv would query the index all the same."""
    folder = f"{glob.escape(prefix)}/lib/python3*/site-packages"
    return requirements.name_of(package) == package and bool(glob.glob(f"{folder}/{package}-*.dist-info"))


def _remove_sdk(prefix: str, context: BuildContext) -> None:
    """Uninstall distributions of the original SDK that came as dependencies: the script gets ours."""
    found = []
    for path in glob.glob(f"{glob.escape(prefix)}/lib/python3*/site-packages/*-info"):
        name = os.path.basename(path).split("-")[0]
        if requirements.is_sdk(name):
            found.append(name.replace("_", "-"))
    if found:
        context.log_line(f"Removing {', '.join(found)}: windlass provides it.")
        argv = ["pip", "uninstall", "--quiet", "--python", f"{prefix}/bin/python", "--break-system-packages", *found]
        _run_uv(context, argv)


def _run_uv(context: BuildContext, arguments: List[str]) -> None:
    context.run_checked([toolchain.uv(context), *arguments], UV)
