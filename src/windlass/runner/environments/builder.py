"""Builds an environment in a folder: a virtual one for pip packages, a conda one where there are conda packages.

`build` is all that others need: it knows nothing of runs, and the folder may be for an image too.
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
from .build_context import Done, Workshop
from .build_once import EnvironmentFailed
from .pip_packages import UV, Interpreter, PipPackages

_CONDA_SAYS_YES = {"CONDA_ALWAYS_YES": "true", "MAMBA_ALWAYS_YES": "true"}
_TREE = re.compile(r"^[\s\-─└├│╰]*")  # conda draws one around its words
_ACTIVATE = 'for f in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do . "$f"; done >/dev/null 2>&1; env -0 >"$1"'
# Of a shell that was only there to look, or handled by us.
_NOT_ACTIVATED = ("PATH", "PWD", "OLDPWD", "SHLVL", "_", "WINDLASS_BUILD", "WINDLASS_COOKIE")


class Built(NamedTuple):
    version: str  # of its Python
    variables: Dict[str, str]  # of programs that use it, beside PATH
    replaced: Dict[str, str]  # what it has in place of what was asked for: a text for each name


def build(prefix: str, spec: Dict[str, Any], shop: Workshop) -> Built:
    """Make the folder `prefix`, which is not there. EnvironmentFailed says what is wrong with the wishes."""
    wishes = requirements.conda_wishes(spec)
    for wish in requirements.without_sdk(spec.get("conda") or ())[1]:
        shop.say(f"{wish} is not installed: windlass provides it.")
    replaced = _make_conda(prefix, wishes, spec, shop) if wishes else _make_virtual(prefix, spec, shop)
    python = f"{prefix}/bin/python"
    version = interpreters.ask_version(python)
    if version is None:
        raise shop.refusal(f"The environment has no Python that can be started ({python}).")
    replaced.update(_install_pip(prefix, version, spec, shop))
    _sweep_sdk(prefix, shop)
    return Built(version, variables_of(prefix, shop if wishes else None), replaced)


def variables_of(prefix: str, shop: Optional[Workshop] = None) -> Dict[str, str]:
    """What an activated environment sets. The scripts of its packages are asked only where it was just made."""
    if not os.path.isdir(f"{prefix}/conda-meta"):
        return {"VIRTUAL_ENV": prefix}
    basic = {"CONDA_PREFIX": prefix, "CONDA_DEFAULT_ENV": prefix}
    return {**basic, **(_activated(prefix, basic, shop) if shop is not None else {})}


# ---- virtual environments ----


def _make_virtual(prefix: str, spec: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    wanted = requirements.wanted_python(spec)
    python = _find_python(wanted, bool(spec.get("strict")), shop)
    replaced: Dict[str, str] = {}
    if wanted and not interpreters.fits(python.version, wanted):
        replaced = shop.tell_replaced(era.replaced_python(wanted, python.version, "on this machine"))
    shop.say(f"Building an environment on Python {python.version} ({python.path}).")
    _run_uv(shop, ["venv", "--no-project", "--quiet", "--python", python.path, prefix])
    if requirements.tool_wishes(spec):
        _install_bundle(prefix, python.path, shop)
    return replaced


def _find_python(wanted: Optional[str], is_strict: bool, shop: Workshop) -> interpreters.Interpreter:
    try:
        found = interpreters.choose(wanted, is_strict)
        if wanted and interpreters.is_plain(wanted):
            sought = wanted if is_strict else interpreters.sought(wanted)
            if (found is None or not interpreters.fits(found.version, sought)) and _bring_python(sought, shop):
                found = interpreters.choose(wanted, is_strict)
    except ValueError as e:
        raise shop.refusal(str(e)) from None
    if found is None:
        versions = ", ".join(dict.fromkeys(each.version for each in interpreters.there()))
        problem = f"No Python on this machine is {wanted}; there are {versions}."
        if is_strict and interpreters.choose(wanted) is not None:
            raise shop.refusal(f"{problem}\n{era.STRICT}")
        raise shop.refusal(f"{problem} Ask for one of these, or install one there.")
    return found


def _bring_python(version: str, shop: Workshop) -> bool:
    """Whether uv can download it. It goes to uv's own folder, where it is found from then on."""
    shop.say(f"Python {version} is not on this machine; uv may bring it.")
    argv = [toolchain.uv(shop), "python", "install", "--quiet", version]
    return shop.ask(argv, {**toolchain.haste(), "UV_PYTHON_INSTALL_BIN": "0"}) == 0


def _install_bundle(prefix: str, python: str, shop: Workshop) -> None:
    """What Python brings for its virtual environments, which needs no package index."""
    wheels = interpreters.bundled(python)
    if wheels:
        argv = ["pip", "install", "--quiet", "--no-index", "--no-deps", "--python", f"{prefix}/bin/python", *wheels]
        _run_uv(shop, argv)


# ---- conda environments ----


def _make_conda(prefix: str, wishes: List[str], spec: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    program = toolchain.conda(shop.given)
    order = {"channels": list(spec.get("channels") or ()), "dependencies": wishes}
    wanted, is_strict = requirements.wanted_python(spec), bool(spec.get("strict"))
    if program is not None:
        shop.say(f"Building a conda environment with {program}: {', '.join(wishes)}")
        return _ask_conda(program, prefix, order, wanted, is_strict, shop)
    shop.say(f"Building a conda environment: {', '.join(wishes)}")
    return _ask_rattler(prefix, {**order, "python": wanted, "strict": is_strict}, shop)


def _ask_rattler(prefix: str, order: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    """By a child of ours, since rattler is no part of Python. Nothing of the order stands in its argv."""
    path, answer = f"{shop.once.aside}/order", f"{shop.once.aside}/answer"
    write_json(path, {**order, "prefix": prefix, "answer": answer})
    done = shop.attempt([*toolchain.rattler(shop), path])
    told = read_json(answer) or {}
    if done.code != 0:
        raise EnvironmentFailed(str(told.get("error") or done.words or f"rattler ended with code {done.code}"))
    return dict(told.get("replaced") or {})


def _ask_conda(
    program: str, prefix: str, order: Dict[str, Any], wanted: Optional[str], is_strict: bool, shop: Workshop
) -> Dict[str, str]:
    """Where it does not have a Python of past years, the next newer one is asked for."""
    python, *others = order["dependencies"]
    may_give_way = wanted is not None and era.gives_way(wanted)
    for wish in era.conda_pythons(wanted, python) if wanted and may_give_way and not is_strict else [python]:
        done = _create(program, prefix, {**order, "dependencies": [wish, *others]}, shop)
        if done.code == 0:
            if wish == python:
                return {}
            return shop.tell_replaced(era.replaced_python(str(wanted), wish.partition("=")[2], "in the channels"))
        if not _lacks_python(done.words):
            break
    words = done.words or f"{os.path.basename(program)} ended with code {done.code}"
    is_held = is_strict and may_give_way and _lacks_python(words)
    raise EnvironmentFailed(f"{words}\n{era.STRICT}" if is_held else words)


def _create(program: str, prefix: str, order: Dict[str, Any], shop: Workshop) -> Done:
    remove(prefix)
    path = f"{shop.once.aside}/environment.yml"
    write_json(path, {key: value for key, value in order.items() if value})  # which is YAML too
    verb = ["create"] if os.path.basename(program) == "micromamba" else ["env", "create"]
    return shop.attempt([program, *verb, "-p", prefix, "-f", path], _CONDA_SAYS_YES)


def _lacks_python(words: str) -> bool:
    """Whether it says that there is no such Python, as the several condas do."""
    lines = [_TREE.sub("", line) for line in words.splitlines()]
    is_listed = re.search(r"not available from current channels|PackagesNotFound|ResolvePackageNotFound", words)
    for line in lines:
        if re.match(r"(nothing provides (requested )?)?python\b.*(does not exist|nothing provides)", line):
            return True
        if re.match(r"nothing provides (requested )?python\b", line) or (is_listed and re.match(r"python\b", line)):
            return True
    return False


def _activated(prefix: str, basic: Dict[str, str], shop: Workshop) -> Dict[str, str]:
    """What the packages' own scripts set, asked once: they would cost every run a shell."""
    if not glob.glob(f"{glob.escape(prefix)}/etc/conda/activate.d/*.sh"):
        return {}
    path = f"{shop.once.aside}/variables"
    before = {**basic, "PATH": f"{prefix}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    shell = shutil.which("bash") or "/bin/sh"
    try:
        shop.attempt([shell, "-c", _ACTIVATE, shell, path], before)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            after = dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)
    except FileNotFoundError:
        shop.say("The activation scripts of its packages could not be run.")
        return {}
    known = {**os.environ, **before, "NO_COLOR": "1"}
    return {k: v for k, v in after.items() if known.get(k) != v and k not in _NOT_ACTIVATED}


# ---- pip packages ----


def _install_pip(prefix: str, version: str, spec: Dict[str, Any], shop: Workshop) -> Dict[str, str]:
    for wish in requirements.without_sdk(spec.get("pip") or ())[1]:
        shop.say(f"{wish} is not installed: windlass provides it.")
    wishes = [wish for wish in requirements.pip_wishes(spec) if not _is_there(prefix, wish)]
    if not wishes:
        return {}
    python = Interpreter(f"{prefix}/bin/python", version)

    def install(arguments: List[str]) -> Done:
        whole = ["pip", "install", "--python", python.path, "--break-system-packages", *arguments]
        return shop.attempt([toolchain.uv(shop), *whole], UV)

    return shop.tell_replaced(PipPackages(spec, wishes, python, shop, install).install())


def _is_there(prefix: str, wish: str) -> bool:
    """Whether it is wished for in any version, and has one: uv would ask the index nevertheless."""
    folder = f"{glob.escape(prefix)}/lib/python3*/site-packages"
    return requirements.name_of(wish) == wish and bool(glob.glob(f"{folder}/{wish}-*.dist-info"))


def _sweep_sdk(prefix: str, shop: Workshop) -> None:
    """Whatever brought a part of the original SDK here: the script gets ours."""
    found = []
    for path in glob.glob(f"{glob.escape(prefix)}/lib/python3*/site-packages/*-info"):
        name = os.path.basename(path).split("-")[0]
        if requirements.is_sdk(name):
            found.append(name.replace("_", "-"))
    if found:
        shop.say(f"Removing {', '.join(found)}: windlass provides it.")
        argv = ["pip", "uninstall", "--quiet", "--python", f"{prefix}/bin/python", "--break-system-packages", *found]
        _run_uv(shop, argv)


def _run_uv(shop: Workshop, arguments: List[str]) -> None:
    shop.run([toolchain.uv(shop), *arguments], UV)
