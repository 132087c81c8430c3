"""Cluster for a single run: created for a run configuration with the target "amlcompute" and a VM size.

It is created when the run is submitted, and the server deletes it when the run has ended, unless it is to be retained.
As in Azure it is for single runs: hyperparameter tuning and AutoML do not use it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from windlass.client.submit.request import ONE_RUN_CLUSTER
from windlass.core import names
from windlass.core.errors import InvalidRequest, NotFound, SpecNotSupported, WindlassError

_KIND = "cluster"
_DEDICATED = "dedicated"

Ask = Callable[[str, str, Optional[Dict[str, Any]]], Any]  # method, path below the workspace, body


class RunCluster:
    """The cluster of the run `run_id`, after which it is named unless the run configuration names it. `ask` in its
    methods sends a request to the server.
    """

    def __init__(self, spec: Mapping[str, Any], run_id: str) -> None:
        self._section: Mapping[str, Any] = (spec.get("definition") or {}).get(ONE_RUN_CLUSTER) or {}
        self._nodes = (spec.get("resources") or {}).get("nodes") or 1
        self._config = self._check()
        self.name = names.target_name(str(self._section.get("name") or f"run-{_tail(run_id)}"))

    @contextlib.contextmanager
    def created(self, ask: Ask) -> Iterator[None]:
        """Create the cluster, unless one of that name exists, which is used then. If the run cannot be submitted, a new
        cluster is deleted again.
        """
        is_new = self._create(ask)
        try:
            yield
        except BaseException:
            if is_new:
                self._discard(ask)
            raise

    def _create(self, ask: Ask) -> bool:
        try:
            self._check_kind(ask("GET", f"/targets/{self.name}", None))
            return False
        except NotFound:
            ask("POST", "/targets", {"name": self.name, "kind": _KIND, "config": self._config})
            return True

    def _discard(self, ask: Ask) -> None:
        try:
            ask("DELETE", f"/targets/{self.name}", None)
        except WindlassError as e:
            print(f"Warning: the cluster {self.name} is left: {e.message}", file=sys.stderr)

    def _check(self) -> Dict[str, Any]:
        """The configuration for the API; raises if the section is not valid."""
        size = self._section.get("vmSize")
        most = self._section.get("clusterMaxNodeCount") or self._nodes
        if not size:
            raise InvalidRequest(
                "A run on amlcompute gets a cluster of its own, whose VM size is not given.",
                'Set run_config.amlcompute.vm_size = "STANDARD_D2_V2" (vmSize in a file), or name a target.',
            )
        if isinstance(most, bool) or not isinstance(most, int) or most < self._nodes:
            raise InvalidRequest(
                f"cluster_max_node_count is {most!r:.50}, and the run needs {self._nodes}.",
                "Leave it out, or raise it.",
            )
        return {
            "vm_size": str(size),
            "vm_priority": str(self._section.get("vmPriority") or _DEDICATED).lower(),
            "min_nodes": 0,
            "max_nodes": most,
            "for_run": not self._section.get("retainCluster"),
        }

    def _check_kind(self, target: Mapping[str, Any]) -> None:
        if target["kind"] != _KIND:
            raise InvalidRequest(
                f"{self.name} is a target of kind {target['kind']}, not a cluster.",
                "Choose another amlcompute.name, or submit to it by its own name.",
            )


def no_plan() -> SpecNotSupported:
    return SpecNotSupported(
        "A dry run on amlcompute shows nothing: the cluster of the run is created when it is submitted.",
        "Create a cluster, and name it: windlass compute create cluster NAME --vm-size SIZE",
    )


def new_run_id(experiment: str) -> str:
    return names.make_run_id(experiment, int(time.time()), os.urandom(4).hex())


def _tail(run_id: str) -> str:
    """The end of the id, which is unique, as part of a target's name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", run_id)[-8:].strip("-") or "0"
