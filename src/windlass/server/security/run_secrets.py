"""The secrets of a run: which it gets, their values for its start, and the redactor of its logs."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from weakref import WeakValueDictionary

from pydantic import SecretStr

from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Conflict, Denied, NotFound
from windlass.server.security.key_file import CannotUnseal, Owner
from windlass.server.security.log_redaction import RedactEverything, Redactor, SecretVariants
from windlass.server.security.secret_store import NOBODY, RUNS, SecretStore
from windlass.store import Leased, Store
from windlass.store.access.secrets import OF_RUNS, Sealed, Secret

log = logging.getLogger(__name__)

_TRIES = 5


class RunSecrets:
    """Values that a job was given stay sealed in the store until its run has ended: secrets may be changed meanwhile,
    and another server may have to redact them.
    """

    def __init__(self, store: Store, secret_store: SecretStore) -> None:
        self.secret_store = secret_store
        self._store = store
        self._redactors: dict[str, Redactor | None] = {}
        self._variants: WeakValueDictionary[bytes, SecretVariants] = WeakValueDictionary()

    def names(self, workspace: str, spec: RunSpec) -> list[str]:
        """The names of the secrets that such a run would get. Raises NotFound or Denied for one that it cannot have."""
        return [secret.name for secret in self._granted(workspace, spec)]

    def open(self, leased: Leased) -> Mapping[str, SecretStr]:
        """Their values, for a job that is started now. Their use is committed to the audit log first."""
        for left in reversed(range(_TRIES)):
            try:
                return self._open(leased)
            except Conflict:  # one was changed meanwhile
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def redactor(self, run: Run) -> Redactor | None:
        """The redactor for the logs of this attempt; None if it got no secrets."""
        job = _job(run)
        if job not in self._redactors:
            self._redactors[job] = self._load(run)
        return self._redactors[job]

    def forget(self, run: Run) -> None:
        """Drop the cached redactor of a run that this server gives up: another server may give it other values."""
        self._redactors.pop(_job(run), None)

    def forget_ended(self) -> None:
        """Delete the sealed values of runs that have ended, which servers that died left in the store."""
        self._store.secrets.drop_masks_of_ended()

    def _granted(self, workspace: str, spec: RunSpec) -> list[Secret]:
        there = {secret.name: secret for secret in self.secret_store.list(workspace)}
        for name in spec.secrets:
            if name not in there:
                raise NotFound(
                    f"There is no secret {name} in workspace {workspace}.", f"Set it: windlass secret set {name}"
                )
            if there[name].granted_to == NOBODY:
                raise Denied(
                    f"The secret {name} is granted to nobody, so no run can have it.",
                    f"Its owner may change that: windlass secret grant {name} named-runs",
                )
        return [s for s in there.values() if s.granted_to == RUNS or s.name in spec.secrets]

    def _open(self, leased: Leased) -> Mapping[str, SecretStr]:
        run = leased.run
        granted = self._granted(run.workspace, leased.spec)
        if not granted:
            self._redactors.setdefault(_job(run), None)
            return {}
        values = {secret.name: self.secret_store.open(secret).decode() for secret in granted}
        # An earlier start of the same job may have got as far as its script, with other values.
        hidden = sorted({*values.values(), *self._hidden(run.workspace, _job(run))})
        purpose = {"run": run.id, "attempt": run.attempt}
        masks = _job(run), self._seal(run.workspace, _job(run), hidden)
        self._store.secrets.use(granted, run.submitted_by, "secret.use", purpose, masks)
        self._redactors[_job(run)] = self._redactor(hidden)
        return {name: SecretStr(value) for name, value in values.items()}

    def _seal(self, workspace: str, job: str, hidden: list[str]) -> Sealed:
        return self.secret_store.seal(json.dumps(hidden).encode(), Owner(workspace, OF_RUNS + job, 1))

    def _hidden(self, workspace: str, job: str) -> list[str]:
        kept = self._store.secrets.find(workspace, OF_RUNS + job)
        return [] if kept is None else [str(value) for value in json.loads(self.secret_store.open(kept))]

    def _load(self, run: Run) -> Redactor | None:
        try:
            hidden = self._hidden(run.workspace, _job(run))
        except CannotUnseal as e:
            log.error("job=%s its logs are redacted whole: %s", _job(run), e.message)
            return RedactEverything()
        if hidden:
            return self._redactor(hidden)
        # The values are deleted when a run ends. We are asked after that: redact everything.
        return RedactEverything() if self._is_over(run) else None

    def _is_over(self, run: Run) -> bool:
        """Whether the attempt has ended."""
        try:
            found = self._store.runs.get(run.workspace, run.id)
            return found.is_final or found.attempt != run.attempt
        except NotFound:
            return True

    def _redactor(self, hidden: list[str]) -> Redactor:
        key = hashlib.sha256(json.dumps(hidden).encode()).digest()
        variants = self._variants.get(key) or SecretVariants(hidden)
        self._variants[key] = variants
        return Redactor(variants)


def _job(run: Run) -> str:
    return f"{run.id}.{run.attempt}"
