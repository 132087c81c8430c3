"""Which secrets a run gets, and what its logs must not show because of that."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from weakref import WeakValueDictionary

from pydantic import SecretStr

from windlass.core.entities import Run, RunSpec
from windlass.core.errors import Conflict, Denied, NotFound
from windlass.server.security.key_file import DoesNotOpen, Owner
from windlass.server.security.log_redaction import Blind, Forms, Masker
from windlass.server.security.secret_store import NOBODY, RUNS, KeyStore
from windlass.store import Leased, Store
from windlass.store.access.secrets import OF_RUNS, Sealed, Secret

log = logging.getLogger(__name__)

_TRIES = 5


class Grants:
    """What a job was given stays sealed in the store until its run has ended: secrets may be changed meanwhile, and
    another server may have to mask them.
    """

    def __init__(self, store: Store, keystore: KeyStore) -> None:
        self.keystore = keystore
        self._store = store
        self._maskers: dict[str, Masker | None] = {}
        self._forms: WeakValueDictionary[bytes, Forms] = WeakValueDictionary()

    def names(self, workspace: str, spec: RunSpec) -> list[str]:
        """Which secrets such a run would get; one that it asks for in vain is refused."""
        return [secret.name for secret in self._granted(workspace, spec)]

    def open(self, leased: Leased) -> Mapping[str, SecretStr]:
        """Their values, for a job that is started now. Each use is committed before."""
        for left in reversed(range(_TRIES)):
            try:
                return self._open(leased)
            except Conflict:  # one was changed in this moment
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def masker(self, run: Run) -> Masker | None:
        """What to mask in the logs of this attempt; None if it was granted nothing."""
        job = _job(run)
        if job not in self._maskers:
            self._maskers[job] = self._load(run)
        return self._maskers[job]

    def forget(self, run: Run) -> None:
        """We do not follow it any more. Another server may, and give it what we know nothing of."""
        self._maskers.pop(_job(run), None)

    def forget_ended(self) -> None:
        """What servers that died, or did not know of a run's end, have left in the store."""
        self._store.secrets.drop_masks_of_ended()

    def _granted(self, workspace: str, spec: RunSpec) -> list[Secret]:
        there = {secret.name: secret for secret in self.keystore.list(workspace)}
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
            self._maskers.setdefault(_job(run), None)
            return {}
        values = {secret.name: self.keystore.open(secret).decode() for secret in granted}
        # An earlier start of the same job may have got as far as its script, with other values.
        hidden = sorted({*values.values(), *self._hidden(run.workspace, _job(run))})
        purpose = {"run": run.id, "attempt": run.attempt}
        masks = _job(run), self._seal(run.workspace, _job(run), hidden)
        self._store.secrets.use(granted, run.submitted_by, "secret.use", purpose, masks)
        self._maskers[_job(run)] = self._mask(hidden)
        return {name: SecretStr(value) for name, value in values.items()}

    def _seal(self, workspace: str, job: str, hidden: list[str]) -> Sealed:
        return self.keystore.seal(json.dumps(hidden).encode(), Owner(workspace, OF_RUNS + job, 1))

    def _hidden(self, workspace: str, job: str) -> list[str]:
        kept = self._store.secrets.find(workspace, OF_RUNS + job)
        return [] if kept is None else [str(value) for value in json.loads(self.keystore.open(kept))]

    def _load(self, run: Run) -> Masker | None:
        try:
            hidden = self._hidden(run.workspace, _job(run))
        except DoesNotOpen as e:
            log.error("job=%s: its logs are masked whole: %s", _job(run), e.message)
            return Blind()
        if hidden:
            return self._mask(hidden)
        # What was to be masked went with its end, of which whoever asks has not heard yet.
        return Blind() if self._is_over(run) else None

    def _is_over(self, run: Run) -> bool:
        """Whether the attempt has ended."""
        try:
            found = self._store.runs.get(run.workspace, run.id)
            return found.is_final or found.attempt != run.attempt
        except NotFound:
            return True

    def _mask(self, hidden: list[str]) -> Masker:
        key = hashlib.sha256(json.dumps(hidden).encode()).digest()
        forms = self._forms.get(key) or Forms(hidden)
        self._forms[key] = forms
        return Masker(forms)


def _job(run: Run) -> str:
    return f"{run.id}.{run.attempt}"
