"""Targets that are not kept yet: what answers there, whether the credentials open it, what it reports about itself.

Nothing is stored here, and no credential is sent to a target before its identity is the one that is expected.
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
from windlass.drivers.base import Attachable, Credentials, Driver, Health, Identity, Managed, NoCredentials, Secrets
from windlass.server.http.errors import sentence


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """The secrets that were given for one target, by the names that its driver asks for; of others, those kept."""

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


class TemporaryDrivers(Protocol):
    """Builds drivers of targets that are not kept; their connections are closed with the context."""

    def trial(
        self, workspace: str, target: Target, given: Mapping[str, SecretStr]
    ) -> AbstractContextManager[Driver[Any]]: ...


def kind_for_users(kind: str) -> type[Driver[Any]]:
    """The driver of a kind whose targets people attach or create."""
    driver = drivers.load(kind)
    if driver.is_internal or not issubclass(driver, (Attachable, Managed)):
        raise SpecNotSupported(
            f"Targets of kind {kind} are not attached.", "`windlass compute attach --help` lists the kinds that are."
        )
    return driver


def attachable_kind(kind: str) -> type[Attachable]:
    driver = kind_for_users(kind)
    if not issubclass(driver, Attachable):
        raise SpecNotSupported(f"Targets of kind {kind} are created and deleted: they have no identity to be pinned.")
    return driver


def valid_config(kind: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its defaults."""
    try:
        # As JSON, strictly: `true` is no port.
        model = drivers.load(kind).config_model.model_validate_json(json.dumps(config), strict=True)
    except ValidationError as e:
        raise _invalid("config", e) from None
    return model.model_dump(mode="json")


def valid_credentials(kind: type[Driver[Any]], given: Mapping[str, SecretStr]) -> Credentials:
    model: type[Credentials] = getattr(kind, "credentials_model", NoCredentials)
    try:
        return model.model_validate(dict(given), strict=True)
    except ValidationError as e:
        raise _invalid("credentials", e) from None


def _invalid(part: str, error: ValidationError) -> InvalidRequest:
    """The error for invalid settings or credentials. `details["invalid"]` has the message of each field, for forms."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    invalid = {
        ".".join([part, *(str(step)[:60] for step in each["loc"])]): str(each["msg"]).removeprefix("Value error, ")
        for each in problems
    }
    return InvalidRequest(f"{part}.{sentence(error)}", details={"invalid": invalid})


def outline(target: Target) -> Driver[Any]:
    """The driver of a target, to be asked about its configuration only. ValidationError if that is not valid."""
    driver = drivers.unconnected(target.kind, target.name, target.config)
    driver.pin = target.pin
    return driver


@dataclass(frozen=True, slots=True)
class TargetProbe:
    drivers: TemporaryDrivers
    workspace: str

    def identity(self, target: Target) -> Identity | None:
        """What answers there. No credential is sent."""
        with self._driver(target, {}) as driver:
            return driver.probe()

    def accept(self, target: Target, given: Credentials) -> tuple[Target, Mapping[str, SecretStr]]:
        """The target as it is to be kept, and the secrets to keep with it, by name."""
        with self._driver(target, {}) as driver:
            config, secrets = driver.accept(given)
            accepted = replace(target, config=config.model_dump(mode="json"), depends_on=driver.depends_on())
        return accepted, secrets

    def enroll(self, target: Target, given: Mapping[str, SecretStr], public: str) -> None:
        """Have the target accept the workspace's credential, by secrets that are not kept."""
        with self._expected(target), self._driver(target, given) as driver:
            driver.enroll(public)

    def check(self, target: Target, given: Mapping[str, SecretStr]) -> Health:
        """What it reports about itself, if runs could start there with these secrets; otherwise the error says why."""
        with self._expected(target), self.drivers.trial(self.workspace, target, given) as driver:
            health = driver.check()
        if not health.ok:
            problems = list(health.inventory.get("problems") or ())
            hint = "; ".join(str(problem["fix"]) for problem in problems)
            raise TargetRejected(health.message, hint, {"problems": problems})
        return health

    def check_unless_refused(self, target: Target, public: str) -> Health:
        """As check(), for a target that may accept the workspace's credential only after it was attached."""
        try:
            return self.check(target, {})
        except LoginRefused:
            with self._driver(target, {}) as driver:
                problem = {"level": "missing", "about": "credential", **driver.enrollment_problem(public)}
            return Health(False, problem["message"], {"problems": [problem]})

    @contextmanager
    def _expected(self, target: Target) -> Iterator[None]:
        """If something else answers than what was pinned, say what does."""
        try:
            yield
        except TargetQuarantined:
            with self._driver(target, {}) as driver:
                seen, endpoint = driver.probe(), driver.endpoint()
            if seen is None or target.pin is None:
                raise
            raise Conflict(
                f"{endpoint} has the {seen.what} {seen.shown_as}, not the one that is expected: "
                f"{driver.show_pin(target.pin)}. Nothing was sent there.",
                f"If the machine was set up anew: windlass compute trust {target.name}",
            ) from None

    @contextmanager
    def _driver(self, target: Target, given: Mapping[str, SecretStr]) -> Iterator[Attachable]:
        with self.drivers.trial(self.workspace, target, given) as driver:
            assert isinstance(driver, Attachable)  # attachable_kind() refuses the others
            yield driver
