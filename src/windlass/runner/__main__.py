"""Entry point of the runner. `host --root ROOT` serves requests on stdin and stdout, with `--engine-owned` for jobs
that an engine starts; `supervise --root ROOT JOB` is the command that the engine starts; `conda ORDER` builds a conda
environment with rattler; `launch SETTINGS -- COMMAND` starts the processes of a distributed run, and `rank` is
one of them under mpirun.

Three ways to start it:

    python runner.pyz host ...            the zip: this folder as `runner/`, and beside it a `__main__.py` that says
                                          `from runner.__main__ import main` and `main()`
    python src/windlass/runner host ...   the folder itself
    python -m windlass.runner host ...    the installed package

Nothing but the standard library is needed, so `python -I -S` is the quickest and safest interpreter for it.
"""

from __future__ import annotations

import sys
from typing import List, Optional

if not __package__:
    # Started as a folder: make it a package, so that relative imports work.
    import os

    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    __package__ = "runner"
    __import__("runner")

from .system.private import NotPrivate

USAGE = (
    "usage: runner host [--engine-owned] --root ROOT | runner supervise --root ROOT JOB [--instance NAME] |"
    " runner conda ORDER | runner launch SETTINGS -- COMMAND... | runner rank SETTINGS -- COMMAND..."
)


def main(argv: Optional[List[str]] = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        if len(words) == 3 and words[:2] == ["host", "--root"]:
            from .host.machine_host import serve

            return serve(words[2])
        if len(words) == 4 and words[:3] == ["host", "--engine-owned", "--root"]:
            from .host.engine_owned import serve as serve_engine

            return serve_engine(words[3])
        if len(words) in (4, 6) and words[:2] == ["supervise", "--root"] and words[4:5] in ([], ["--instance"]):
            from .supervisor.standalone import main as supervise

            return supervise(words[2], words[3], *words[5:])
    except NotPrivate as e:
        print(f"{e}; make that folder writable by its owner only: chmod go-w", file=sys.stderr)
        return 1
    if len(words) > 3 and words[0] == "launch" and words[2] == "--":
        from .distributed.launcher import main as launch

        return launch(words[1:])
    if len(words) > 3 and words[0] == "rank" and words[2] == "--":
        from .distributed.mpi import main as start_rank

        return start_rank(words[1:])
    if len(words) == 2 and words[0] == "conda":
        from .environments.rattler import main as build

        build(words[1])
    print(USAGE, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
