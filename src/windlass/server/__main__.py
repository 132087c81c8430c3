"""`python -m windlass.server`; see main.py."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    gc.disable()  # until everything is loaded: collections take a sixth of that time and find nothing
    from windlass.server.main import main as run_server

    return run_server()


if __name__ == "__main__":
    sys.exit(main())
