"""Names of a run's log. What a script prints is `user_logs/std_log.txt`, as in Azure since 2021.

Older code asks for it by the names of Azure's classic layout. They are not listed, so that nothing is listed twice; but
where a run has no file of such a name, they are aliases of the log.
"""

from __future__ import annotations

import re
from typing import Any, Dict

MAIN_LOG = "user_logs/std_log.txt"
CLASSIC_LOG = "azureml-logs/70_driver_log.txt"
_CLASSIC_FOLDER = CLASSIC_LOG.partition("/")[0]
# The log's names on clusters, on Spark and in the first versions, and those of the first of several processes.
_CLASSIC = re.compile(r"azureml-logs/[78]0_driver_log(_0|_rank_0|_worker_0)?\.txt")


def is_classic(name: str) -> bool:
    return _CLASSIC.fullmatch(name) is not None


def asks_for_classic(prefix: str) -> bool:
    """Whether `prefix` names files of the classic layout."""
    return prefix.startswith(_CLASSIC_FOLDER)


class LogFiles(Dict[str, str]):
    """`logFiles` of get_details(): {name: address}. Classic names are found in it, and not listed."""

    def __missing__(self, name: str) -> str:
        if name in self:
            return self[MAIN_LOG]
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        has = super().__contains__
        return has(name) or (isinstance(name, str) and is_classic(name) and has(MAIN_LOG))

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default
