"""`make demo`: train a small scikit-learn model on this computer and look at its record. Harmless to repeat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".cache" / "demo"
EXAMPLE = ROOT / "examples" / "sklearn-digits"
COMMAND = Path(sys.executable).with_name("windlass")

NEXT = """
That was a run. Its record is kept in .cache/demo, apart from your own.

Look at it in the studio, in a browser that this address signs in, once and within two minutes:
  {url}

Try next:
  export WINDLASS_HOME="$PWD/.cache/demo" PATH="$PWD/.venv/bin:$PATH"
  windlass studio           # the studio in the browser, signed in
  windlass runs             # `make demo` again makes another one; then: windlass compare @last @last~1
  windlass logs @last
  windlass download @last
  windlass server stop      # ends the private server that keeps the record

The script is examples/sklearn-digits/train.py; the docs begin at docs/quickstart.md.
"""


def main() -> int:
    os.environ["WINDLASS_HOME"] = str(HOME)
    show_and_run(["python", "examples/sklearn-digits/submit.py"], [sys.executable, str(EXAMPLE / "submit.py")])
    show_and_run(["windlass", "show", "@last"], [str(COMMAND), "show", "@last"])
    done = subprocess.run([str(COMMAND), "open", "@last", "--json"], capture_output=True, text=True, check=True)
    print(NEXT.format(url=json.loads(done.stdout)["url"]))
    return 0


def show_and_run(shown_as: list[str], arguments: list[str]) -> None:
    """Show the command as one would type it, then run it."""
    print(f"\n$ {' '.join(shown_as)}", flush=True)
    done = subprocess.run(arguments, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    sys.exit(main())
