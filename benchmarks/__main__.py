"""The command line: `python -m benchmarks [--only NAME] [--quick] [--json] [--list]`."""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module

from benchmarks import machine, report
from benchmarks.rounds import Effort
from benchmarks.row import Row

GROUPS = (
    "submit",
    "environments",
    "throughput",
    "clusters",
    "metrics",
    "follow",
    "history",
    "startup",
    "sync",
    "ssh",
    "relay",
    "size",
    "docker",
    "studio",
    "browser",
)

Measure = Callable[[Effort], Iterator[Row]]


def main() -> int:
    options = _options()
    chosen = [(name, measure) for name, measure in _measures() if _is_chosen(name, options.only)]
    if not chosen:
        print(f"Nothing is called {', '.join(options.only)}; see --list.", file=sys.stderr)
        return 2
    if options.list:
        for name, measure in chosen:
            print(f"{name:20} {(measure.__doc__ or '').splitlines()[0]}")
        return 0
    return _run(chosen, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure against the bare thing.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a group or one of its parts")
    parser.add_argument("--quick", action="store_true", help="few repeats and small numbers, to see that it works")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--list", action="store_true", help="name what can be measured")
    return parser.parse_args()


def _measures() -> Iterator[tuple[str, Measure]]:
    for group in GROUPS:
        for measure in import_module(f"benchmarks.{group}").MEASURES:
            yield f"{group}.{measure.__name__}", measure


def _is_chosen(name: str, only: list[str]) -> bool:
    return not only or any(name == word or name.startswith(f"{word}.") for word in only)


def _run(chosen: list[tuple[str, Measure]], options: argparse.Namespace) -> int:
    _compile()
    where = machine.describe()
    out = sys.stderr if options.json else sys.stdout
    print(report.terminal_heading(), file=out)
    groups: dict[str, list[Row]] = {}
    broken = []
    for name, measure in chosen:
        os.sync()  # flush what the group before wrote
        try:
            for row in measure(Effort(options.quick)):
                groups.setdefault(name.partition(".")[0], []).append(row)
                print(report.terminal_line(row), file=out, flush=True)
        except Exception:  # a group that fails must not hide the others
            broken.append(name)
            traceback.print_exc()
    _finish(groups, where, broken, options)
    return 1 if broken else 0


def _compile() -> None:
    """Compile the package, as an installation does: here bytecode may be switched off, or not written yet."""
    for folder in (report.RESULTS.parent.parent / "src", sysconfig.get_path("purelib")):
        compileall.compile_dir(folder, quiet=2, workers=0)


def _finish(
    groups: dict[str, list[Row]], where: dict[str, str], broken: list[str], options: argparse.Namespace
) -> None:
    if options.json:
        print(report.as_json(groups, where))
    if broken:
        print(f"Broke: {', '.join(broken)}.", file=sys.stderr)
    elif not options.only and not options.quick:
        report.RESULTS.write_text(report.markdown(groups, where), encoding="utf-8")
        print(f"Written to benchmarks/{report.RESULTS.name}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
