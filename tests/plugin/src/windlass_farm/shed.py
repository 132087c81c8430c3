"""A shed: a folder of this computer that exists already, has a seal that is pinned, and opens with a token."""

from __future__ import annotations

import hmac
from pathlib import Path

from pydantic import Field, SecretStr

from windlass.core.errors import LoginRefused, TargetQuarantined, TargetUnreachable
from windlass.drivers.base import Attachable, Credentials, Identity, TargetConfig, shown_as_option
from windlass_farm.workshop import WorkshopDriver


class ShedConfig(TargetConfig):
    folder: Path = Field(description="Where the shed stands.", json_schema_extra=shown_as_option("-f", "--folder"))
    keeper: str = Field(default="", description="Whom to ask about it.")
    lamps: int = Field(default=1, ge=0, le=8, description="How many lamps are lit.")


class ShedCredentials(Credentials):
    token: SecretStr | None = Field(default=None, description="What opens it.")


class ShedDriver(WorkshopDriver[ShedConfig], Attachable):
    """A shed in a folder of this computer."""

    kind = "shed"
    config_model = ShedConfig
    credentials_model = ShedCredentials
    mutable_settings = frozenset({"keeper", "lamps"})
    identity_settings = frozenset({"folder"})

    def folder(self) -> Path:
        return self.config.folder

    def probe(self) -> Identity:
        seal = self._read("seal")
        return Identity(seal, self.show_pin(seal), "seal", f"cat {self.config.folder}/seal")

    def location(self) -> str:
        return f"shed {self.config.folder}"

    @classmethod
    def show_pin(cls, pin: str) -> str:
        return f"SEAL:{pin}"

    def check_access(self) -> None:
        if self.pin is not None and self._read("seal") != self.pin:
            raise TargetQuarantined(f"The seal of {self.name} is another one than before.", "", {"pin": self.pin})
        wanted = self._read("token")
        given = self.secrets.get(f"target/{self.name}/token").get_secret_value()
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise LoginRefused(f"{self.name} does not open with this token.", "Attach it anew with another: --update")

    def _read(self, name: str) -> str:
        try:
            return (self.config.folder / name).read_text("utf-8").strip()
        except OSError as e:
            raise TargetUnreachable(f"{self.name} cannot be reached: {self.config.folder}/{name}: {e.strerror}.") from e


DRIVER = ShedDriver
