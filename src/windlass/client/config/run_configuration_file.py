"""File names for the conda and environment files of a run configuration, without overwriting others in the folder."""

from __future__ import annotations

import os
import re
import sys
from typing import Callable

from windlass.client.config.file_location import text_of

EXTENSION = ".runconfig"
FOLDERS = (".azureml", "aml_config")  # of a project's configuration: Azure's newer one and its older
_OTHERS = (".yml", ".yaml", ".json", ".compute")
_APART = re.compile(r"^environment:[ \t]+['\"]?([^'\"{}\n]+\.ya?ml)\b", re.MULTILINE)


def choose_file_name(config: str, wanted: str, whole: Callable[[str], str], is_same: Callable[[str], bool]) -> str:
    """`wanted`, or another name if that file exists with other content and is not this configuration's alone. `whole`
    returns the path of a name in the configuration, `is_same` whether a file has the content to write.
    """
    folder, name = os.path.split(wanted)
    stem = os.path.basename(config)
    stem = stem[: -len(EXTENSION)] if stem.endswith(EXTENSION) else stem
    candidates = [name, f"{stem}_{name}"]
    while True:
        chosen = candidates.pop(0)
        place = whole(os.path.join(folder, chosen))
        if not os.path.lexists(place) or is_same(place) or _is_own(config, place, whole):
            break
        candidates = candidates or [_next(chosen)]
    if chosen != name:
        print(
            f"Warning: {name} says something else, and stays as it is. What {stem} needs is in {chosen}.",
            file=sys.stderr,
        )
    return os.path.join(folder, chosen)


def _next(name: str) -> str:
    """a.yml, a_2.yml, a_3.yml"""
    stem, end = os.path.splitext(name)
    found = re.match(r"(.*)_(\d+)\Z", stem)
    return f"{found.group(1)}_{int(found.group(2)) + 1}{end}" if found else f"{stem}_2{end}"


def _is_own(config: str, place: str, whole: Callable[[str], str]) -> bool:
    """Whether the configuration, and no other one, names the file."""
    folder = os.path.dirname(config) or os.curdir
    is_for_them = os.path.basename(os.path.abspath(folder)) in FOLDERS
    others = [os.path.join(folder, name) for name in os.listdir(folder) if _is_configuration(name, is_for_them)]
    naming = [file for file in {config, *others} if _names(file, os.path.basename(place), whole)]
    return [os.path.normpath(file) for file in naming] == [os.path.normpath(config)]


def _is_configuration(name: str, is_for_them: bool) -> bool:
    """Whether it is a run configuration, by its extension; in the configuration folder it may have none."""
    return name.endswith(EXTENSION) or (is_for_them and os.path.splitext(name)[1] not in _OTHERS)


def _names(config: str, name: str, whole: Callable[[str], str]) -> bool:
    text = text_of(config)
    apart = _APART.search(text)
    if apart is not None:
        text += text_of(whole(apart.group(1)))
    return re.search(rf"(?<![\w.\-]){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None
