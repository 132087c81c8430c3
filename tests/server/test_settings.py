"""Where a setting comes from, and which ones no server starts with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windlass.core.errors import InvalidRequest
from windlass.core.vm_sizes import VmSize
from windlass.server.settings import Settings


def test_an_argument_beats_the_environment_beats_the_file_beats_the_default(tmp_path: Path) -> None:
    def load(environ: dict[str, str], **arguments: Any) -> float:
        return Settings.load({"WINDLASS_HOME": str(tmp_path), **environ}, **arguments).lease_seconds

    assert load({}) == 30
    (tmp_path / "settings.json").write_text(json.dumps({"lease_seconds": 40}))
    assert load({}) == 40
    assert load({"WINDLASS_LEASE_SECONDS": "50"}) == 50
    assert load({"WINDLASS_LEASE_SECONDS": "50"}, lease_seconds=60) == 60


def test_the_home_holds_everything_unless_told_otherwise(tmp_path: Path) -> None:
    settings = Settings.load({}, home=tmp_path)
    assert settings.files == tmp_path / "files" and settings.database.startswith(f"sqlite:///{tmp_path}/")
    assert settings.host == "127.0.0.1" and settings.port == 0
    assert settings.log_cap_bytes == 1 << 30 and settings.json_limit_bytes == 16 << 20


def test_lists_come_from_the_environment_with_commas(tmp_path: Path) -> None:
    settings = Settings.load({"WINDLASS_ALLOWED_HOSTS": "a:1, b:2"}, home=tmp_path)
    assert settings.allowed_hosts == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"host": "0.0.0.0"}, "tls_certificate"),
        ({"host": "::"}, "tls_certificate"),
        ({"host": "192.168.1.2"}, "tls_certificate"),
        ({"host": "example.org"}, "tls_certificate"),
        ({"tls_certificate": "c.pem"}, "together"),
        ({"port": 65536}, "port"),
        ({"port": -1}, "port"),
        ({"port": "abc"}, "port"),
        ({"colour": "red"}, "colour"),
        ({"public_url": "ftp://x"}, "public_url"),
        ({"public_url": "https://x/path"}, "public_url"),
        ({"log_cap_bytes": 0}, "log_cap_bytes"),
        ({"keep_logs_days": -1}, "keep_logs_days"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_name(tmp_path: Path, values: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidRequest, match=word):
        Settings.load({}, home=tmp_path, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"host": "localhost"},
        {"host": "::1"},
        {"host": "127.1.2.3"},
        {"host": "0.0.0.0", "behind_proxy": True},
        {"host": "0.0.0.0", "tls_certificate": "c.pem", "tls_key": "k.pem"},
    ],
)
def test_loopback_tls_or_a_proxy_is_fine(tmp_path: Path, values: dict[str, Any]) -> None:
    assert Settings.load({}, home=tmp_path, **values).host == values["host"]


@pytest.mark.parametrize("text", ["{", "[]", "\udcff", "null", '{"port": []}'])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidRequest, match="settings.json|port"):
        Settings.load({}, home=tmp_path)


def test_own_vm_sizes_come_from_the_file_or_as_json_from_the_environment(tmp_path: Path) -> None:
    big = {"big": {"cores": 32, "memory_gb": 128, "gpus": 1, "price": 1.5}}
    (tmp_path / "settings.json").write_text(json.dumps({"vm_sizes": big}))
    from_file = Settings.load({}, home=tmp_path).own_vm_sizes()
    from_variable = Settings.load({"WINDLASS_VM_SIZES": json.dumps(big)}, home=tmp_path).own_vm_sizes()
    assert from_file == from_variable == {"big": VmSize("big", 32, 128.0, 1, price=1.5)}
    with pytest.raises(InvalidRequest, match="WINDLASS_VM_SIZES is not JSON"):
        Settings.load({"WINDLASS_VM_SIZES": "big"}, home=tmp_path)
    with pytest.raises(InvalidRequest, match=r"vm_sizes\.big\.cores"):
        Settings.load({}, home=tmp_path, vm_sizes={"big": {"cores": 0, "memory_gb": 1}})
