"""A target before it is ours: who answers at its address, whether its credentials are good, what it inventory.

Nothing is kept here, and no credential is sent to a machine before its host key is the one that was meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import SecretStr, ValidationError

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import (
    Conflict,
    InvalidRequest,
    LoginRefused,
    NotFound,
    SpecNotSupported,
    TargetQuarantined,
    TargetRejected,
)
from windlass.drivers.base import Attachable, Driver, Health, Identity, Secrets
from windlass.drivers.openssh import keys
from windlass.server.refusals import sentence

PASSWORD, PRIVATE_KEY = "password", "private-key"
WORKSPACE_KEY = "workspace/ssh-key"


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """What was given for one target, by the names that its driver asks for; of others, what is kept."""

    target: str
    given: Mapping[str, SecretStr]
    kept: Secrets

    def get(self, name: str) -> SecretStr:
        folder = f"target/{self.target}/"
        if not name.startswith(folder):
            return self.kept.get(name)
        found = self.given.get(name.removeprefix(folder))
        if found is None:
            raise NotFound(f"The {name.removeprefix(folder)} of {self.target} was not given.")
        return found


class Trials(Protocol):
    """Whoever builds drivers for targets that are not among ours."""

    def trial(
        self, workspace: str, target: Target, given: Mapping[str, SecretStr]
    ) -> AbstractContextManager[Driver[Any]]: ...


def checked_config(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration, whole and valid, of a kind that people may attach."""
    driver = drivers.load(kind)
    if driver.is_internal or not issubclass(driver, Attachable):
        raise SpecNotSupported(
            f"Targets of kind {kind} are not attached.", "`windlass compute attach ssh NAME` attaches a machine."
        )
    return valid_config(kind, config)


def valid_config(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its defaults; what it may not be is said."""
    try:
        # As JSON, strictly: `true` is no port.
        return (
            drivers.load(kind).config_model.model_validate_json(json.dumps(config), strict=True).model_dump(mode="json")
        )
    except ValidationError as e:
        raise InvalidRequest(f"config.{sentence(e)}") from None


@dataclass(frozen=True, slots=True)
class Trial:
    trials: Trials
    workspace: str

    def identify(self, target: Target) -> Identity:
        """Who is there. No credential is sent."""
        with self.trials.trial(self.workspace, target, {}) as driver:
            return _probed(driver)

    def pinned(self, target: Target) -> Target:
        """The target with a host key: the one that it names, or the one of the machine that answers."""
        if target.config.get("host_key") is not None:
            return target  # whoever logs in there compares it before anything is sent
        return _with(target, host_key=self.identify(target).pin, host_key_confirmed=False)

    def install(self, target: Target, given: Mapping[str, SecretStr], public_key: str) -> None:
        """Put the workspace's key there, by credentials that are good for that and are not kept."""
        login = "password" if PASSWORD in given else "key"
        with self._meant(target), self.trials.trial(self.workspace, _with(target, login=login), given) as driver:
            _attachable(driver).enroll(public_key)

    def check(self, target: Target, given: Mapping[str, SecretStr]) -> Health:
        """What it offers, if runs could start there with these credentials; otherwise it is said why not."""
        with self._meant(target), self.trials.trial(self.workspace, target, given) as driver:
            health = driver.check()
        if not health.ok:
            missing = health.inventory.get("missing") or ()
            hint = "; ".join(str(lack["fix"]) for lack in missing)
            raise TargetRejected(health.message, hint, {"missing": list(missing)})
        return health

    def check_later(self, target: Target, public_key: str) -> Health:
        """As check(), for a machine that may get the workspace's key only after it was attached."""
        try:
            return self.check(target, {})
        except LoginRefused:
            who = f"{target.config['username']}@{target.config['address']}"
            lack = {
                "what": f"{who} does not take the workspace's key yet.",
                "fix": f"There: echo '{public_key}' >> ~/.ssh/authorized_keys",
            }
            return Health(False, lack["what"], {"missing": [lack]})

    @contextmanager
    def _meant(self, target: Target) -> Iterator[None]:
        """Where another machine answers than the one that is meant, it is said which."""
        try:
            yield
        except TargetQuarantined:
            address, seen = target.config["address"], self.identify(target)
            raise Conflict(
                f"{address} has the host key {seen.shown_as}, not the one that is expected: "
                f"{keys.fingerprint(target.config['host_key'])}. Nothing was sent there.",
                f"If the machine was set up anew: windlass compute trust {target.name}",
            ) from None


def _with(target: Target, **changes: Any) -> Target:
    return replace(target, config={**target.config, **changes})


def _probed(driver: Driver[Any]) -> Identity:
    found = _attachable(driver).probe()
    assert found is not None  # machines by SSH have a host key
    return found


def _attachable(driver: Driver[Any]) -> Attachable:
    assert isinstance(driver, Attachable)  # checked_config() refuses the others
    return driver
