"""Opens a sealed secret with the server's key file: `python -m windlass.server.unseal --key-file FILE`.

The envelope comes in on standard input, as POST …/secrets/{name}/sealed answers it; the value goes out on standard
output, in base64. Nothing of either is in an argument, a variable or a file.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from pathlib import Path

from windlass.core.errors import WindlassError
from windlass.server.security.key_file import KeyFile, Owner


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="windlass.server.unseal", description="Open a sealed secret.")
    parser.add_argument("--key-file", type=Path, required=True)
    keys = KeyFile(parser.parse_args(arguments).key_file)
    try:
        envelope = json.load(sys.stdin.buffer)
        owner = Owner(str(envelope["workspace"]), str(envelope["name"]), int(envelope["version"]))
        value = keys.open(base64.b64decode(envelope["sealed"], validate=True), str(envelope["key_id"]), owner)
    except (ValueError, KeyError, TypeError):
        print("error: That is not a sealed secret.", file=sys.stderr)
        return 2
    except WindlassError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    sys.stdout.write(base64.b64encode(value).decode("ascii"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
