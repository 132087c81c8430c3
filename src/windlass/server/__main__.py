"""`python -m windlass.server`; see main.py."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    gc.disable()  # until everything is loaded: to look through what only grows takes a sixth of that time
    from windlass.server.main import main as run_server

    return run_server()


if __name__ == "__main__":
    sys.exit(main())
