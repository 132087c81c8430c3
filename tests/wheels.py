"""Small wheels, so that nothing has to come from anywhere."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    body: str = "",
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with one module, `name`, which says its version or has another body. The same wheel is the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    held = {
        **(files or {}),
        f"{name}.py": body or f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    if scripts:
        told = "".join(f"{script} = {function}\n" for script, function in scripts.items())
        held[f"{info}/entry_points.txt"] = f"[console_scripts]\n{told}"
    lines = []
    with zipfile.ZipFile(path, "w") as archive:
        for at, text in held.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{at},sha256={digest},{len(text)}")
            archive.writestr(zipfile.ZipInfo(at), text)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "\n".join([*lines, f"{info}/RECORD,,"]) + "\n")
    return path
