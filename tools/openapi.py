"""Write the OpenAPI document of the server to standard output: the studio's types are generated from it."""

from __future__ import annotations

import json
from typing import Any

import windlass.server.app  # noqa: F401 - imports the modules that declare routes
from windlass.server.http.openapi import describe


def document() -> dict[str, Any]:
    return describe()


def main() -> None:
    print(json.dumps(document(), indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
