"""`python -m windlass.server`; see process.py."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    gc.disable()  # until everything is loaded: to look through what only grows takes a sixth of that time
    from windlass.server import process

    return process.main()


if __name__ == "__main__":
    sys.exit(main())
