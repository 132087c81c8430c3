"""Compute files of Azure's CLI v2: a cluster, a compute instance, a virtual machine or Kubernetes.

The `.compute` files of Azure ML Workbench are read by client/config/workbench_compute_file.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, Iterable, List, Optional

from windlass.client.config import yaml, yaml_map
from windlass.client.config.yaml_map import YamlMap

AML_COMPUTE, INSTANCE, MACHINE, KUBERNETES = "amlcompute", "computeinstance", "virtualmachine", "kubernetes"
TYPES = (AML_COMPUTE, INSTANCE, MACHINE, KUBERNETES, "synapsespark")
_COMMON = ("name", "type", "description", "tags", "location", "resource_id", "identity")
_MANAGED = ("size", "ssh_public_access_enabled", "ssh_settings", "network_settings", "enable_node_public_ip")
_KEYS = {
    AML_COMPUTE: (*_MANAGED, "tier", "min_instances", "max_instances", "idle_time_before_scale_down"),
    INSTANCE: (
        *_MANAGED, "idle_time_before_shutdown", "idle_time_before_shutdown_minutes", "schedules", "setup_scripts",
        "create_on_behalf_of", "custom_applications",
    ),
    MACHINE: ("ssh_settings", "address"),
    KUBERNETES: ("namespace", "properties"),
    "synapsespark": (),
}  # fmt: skip
# Written by `az ml compute show`, without meaning in a file that creates one.
_OUTPUT_ONLY = ("id", "provisioning_state", "provisioning_errors", "created_on", "state", "last_operation", "services")
_SSH = ("admin_username", "admin_password", "ssh_key_value", "ssh_port", "ssh_private_key_file")
_NETWORK = ("vnet_name", "subnet", "public_ip_address", "private_ip_address")


@dataclass(frozen=True)
class SshSettings:
    admin_username: Optional[str] = None
    admin_password: Optional[str] = field(default=None, repr=False)
    ssh_key_value: Optional[str] = None
    ssh_port: Optional[int] = None
    ssh_private_key_file: Optional[str] = None


@dataclass(frozen=True)
class ComputeFile:
    """The values of a file; None for missing keys. Times are in the unit of the key: seconds before a cluster scales
    down, minutes before an instance is shut down.
    """

    name: str
    type: str
    description: Optional[str] = None
    tags: Dict[str, str] = field(default_factory=dict)
    location: Optional[str] = None
    resource_id: Optional[str] = None
    address: Optional[str] = None  # ours: the machine itself, in place of its resource id
    identity: Optional[Dict[str, Any]] = None
    size: Optional[str] = None
    tier: Optional[str] = None
    min_instances: Optional[int] = None
    max_instances: Optional[int] = None
    idle_time_before_scale_down: Optional[int] = None
    idle_time_before_shutdown: Optional[str] = None  # ISO 8601, such as PT30M
    idle_time_before_shutdown_minutes: Optional[int] = None
    ssh_public_access_enabled: Optional[bool] = None
    ssh_settings: Optional[SshSettings] = None
    network_settings: Dict[str, str] = field(default_factory=dict)
    enable_node_public_ip: Optional[bool] = None
    schedules: Optional[Dict[str, Any]] = None
    setup_scripts: Optional[Dict[str, Any]] = None
    create_on_behalf_of: Dict[str, str] = field(default_factory=dict)
    custom_applications: List[Any] = field(default_factory=list)
    namespace: Optional[str] = None
    properties: Optional[Dict[str, Any]] = None


def load(path: str, overrides: Iterable[str] = ()) -> ComputeFile:
    """Read a file. `overrides` are texts such as `max_instances=2` that replace values of the file."""
    file = yaml_map.load(path, "compute", overrides)
    name = file.required_text("name")
    file.required_text("type")
    kind = str(file.choice("type", TYPES))
    file.check_keys((*_COMMON, *_KEYS[kind], *_OUTPUT_ONLY))
    least, most = file.whole_number("min_instances"), file.whole_number("max_instances")
    if least is not None and most is not None and least > most:
        raise file.mistake("max_instances", f"max_instances ({most}) is smaller than min_instances ({least}).")
    return ComputeFile(
        name=name,
        type=kind,
        description=file.text("description"),
        tags=file.texts("tags"),
        location=file.text("location"),
        resource_id=file.text("resource_id"),
        address=file.text("address"),
        identity=_plain(file, "identity"),
        size=file.text("size"),
        tier=file.choice("tier", ("dedicated", "low_priority")),
        min_instances=least,
        max_instances=most,
        idle_time_before_scale_down=file.whole_number("idle_time_before_scale_down"),
        idle_time_before_shutdown=file.text("idle_time_before_shutdown"),
        idle_time_before_shutdown_minutes=file.whole_number("idle_time_before_shutdown_minutes"),
        ssh_public_access_enabled=file.truth("ssh_public_access_enabled"),
        ssh_settings=_ssh(file.map("ssh_settings", _SSH)),
        network_settings=_checked_texts(file, "network_settings", _NETWORK),
        enable_node_public_ip=file.truth("enable_node_public_ip"),
        schedules=_plain(file, "schedules"),
        setup_scripts=_plain(file, "setup_scripts"),
        create_on_behalf_of=_checked_texts(file, "create_on_behalf_of", ("user_tenant_id", "user_object_id")),
        custom_applications=file.items("custom_applications"),
        namespace=file.text("namespace"),
        properties=_plain(file, "properties"),
    )


def dump(compute: ComputeFile, path: str) -> None:
    """Write a file, without the password. Comments of an existing file are kept."""
    body: dict[str, Any] = {}
    for each in fields(compute):
        value = getattr(compute, each.name)
        if isinstance(value, SshSettings):
            value = {inner.name: getattr(value, inner.name) for inner in fields(value) if inner.repr}
            value = {key: setting for key, setting in value.items() if setting is not None}
        if value not in (None, {}, []):
            body[each.name] = value
    yaml.write(path, body)


def _ssh(found: YamlMap) -> SshSettings | None:
    if not found.body:
        return None
    port = found.whole_number("ssh_port", least=1)
    return SshSettings(ssh_port=port, **{key: found.text(key) for key in _SSH if key != "ssh_port"})


def _plain(file: YamlMap, key: str) -> dict[str, Any] | None:
    return file.map(key).body or None


def _checked_texts(file: YamlMap, key: str, known: Iterable[str]) -> dict[str, str]:
    file.map(key, known)
    return file.texts(key)
