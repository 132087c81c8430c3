"""Driver for clusters whose nodes are shares of this computer: created for queued runs, deleted when idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from windlass.core import vm_sizes
from windlass.core.entities import Allocation
from windlass.core.errors import InvalidRequest, SpecNotSupported
from windlass.core.vm_sizes import VmSize
from windlass.drivers.base import (
    Credentials,
    Features,
    Handle,
    Health,
    Job,
    Managed,
    Node,
    NodeSize,
    NodeSource,
    Plan,
    Provisioning,
    ProvisioningState,
    Scalable,
    TargetGroup,
    ThisComputer,
    shown_as_option,
    shown_in_form,
    shown_in_python,
)
from windlass.drivers.containers.config import CONTAINER_SETTINGS
from windlass.drivers.kinds.local import LocalConfig, LocalDriver
from windlass.drivers.nodes.embedded import EmbeddedNodes


class ClusterConfig(LocalConfig):
    model_config = ConfigDict(
        json_schema_extra=shown_in_python(
            "AmlCompute",
            {
                **{name: name for name in ("vm_size", "vm_priority", "min_nodes", "max_nodes", "tags", "description")},
                **{name: name for name in ("idle_seconds_before_scaledown", "admin_username", "admin_user_ssh_key")},
                "admin_user_password": "admin_user_password",
            },
            always=["vm_size", "max_nodes"],
        )
    )

    vm_size: str = Field(
        default="Standard_D2_v2",
        title="Virtual machine size",
        examples=["STANDARD_D2_V2", "Standard_NC6"],
        description="The size of a node, by Azure's names: STANDARD_D2_V2, Standard_NC6.",
        json_schema_extra=shown_in_form(format="vm-size"),
    )
    vm_priority: Literal["dedicated", "lowpriority"] = Field(
        default="dedicated",
        title="Virtual machine priority",
        description="Low priority is cheaper, but nodes may be taken away at any time, for runs of other targets.",
        json_schema_extra=shown_as_option("--priority", metavar="dedicated|low")
        | shown_in_form(labels={"dedicated": "Dedicated", "lowpriority": "Low priority"}),
    )
    min_nodes: int = Field(
        default=0,
        ge=0,
        le=10_000,
        title="Minimum number of nodes",
        description="So many nodes are always there. With 0 there are none without runs, and nothing is paid for.",
        json_schema_extra=shown_in_form(unit="nodes"),
    )
    max_nodes: int = Field(
        default=4,
        ge=0,
        le=10_000,
        title="Maximum number of nodes",
        description="There are never more nodes than these, however many runs are queued.",
        json_schema_extra=shown_in_form(unit="nodes", at_least="min_nodes"),
    )
    idle_seconds_before_scaledown: int = Field(
        default=1800,
        ge=0,
        le=10_000_000,
        title="Idle seconds before scale down",
        description="A node without runs goes after so many seconds, down to the minimum number of nodes.",
        json_schema_extra=shown_as_option("--idle-seconds", metavar="SECONDS") | shown_in_form(unit="seconds"),
    )
    strict: bool = Field(
        default=False,
        title="Strict sizes",
        description="Give nodes what their size says, or let runs wait: sizes are not cut to this computer.",
        json_schema_extra=shown_in_form("advanced"),
    )
    for_run: bool = Field(
        default=False,
        description="It was created for one run, and is deleted after it.",
        json_schema_extra=shown_as_option("") | shown_in_form(hidden=True),
    )
    admin_username: str | None = Field(
        default=None,
        title="SSH admin user name",
        description="Kept for nodes that are machines.",
        json_schema_extra=shown_in_form("advanced"),
    )
    admin_user_ssh_key: str | None = Field(
        default=None,
        title="SSH public key of the admin",
        description="Kept for nodes that are machines.",
        json_schema_extra=shown_in_form("advanced", "multiline"),
    )
    tags: dict[str, str] = Field(
        default={},
        title="Tags",
        description="Labels.",
        json_schema_extra=shown_as_option("") | shown_in_form("advanced"),
    )
    description: str = Field(
        default="",
        title="Description",
        description="A text for people.",
        json_schema_extra=shown_in_form("advanced", "multiline"),
    )
    recorded: dict[str, Any] = Field(
        default={},
        description="Parameters that have no meaning here: location, virtual networks, identities.",
        json_schema_extra=shown_as_option("") | shown_in_form(hidden=True),
    )

    @field_validator("vm_priority", mode="before")
    @classmethod
    def _short_priority(cls, value: Any) -> Any:
        return "lowpriority" if str(value).lower() in ("low", "lowpriority", "low_priority") else str(value).lower()

    @field_validator("vm_size")
    @classmethod
    def _known_size(cls, value: str) -> str:
        try:
            vm_sizes.require(value)
        except InvalidRequest as e:
            raise ValueError(f"{e.message} {e.hint}") from None
        return value

    @model_validator(mode="after")
    def _in_order(self) -> ClusterConfig:
        if self.max_nodes < self.min_nodes:
            raise ValueError("max_nodes must not be less than min_nodes")
        return self


class ClusterCredentials(Credentials):
    admin_user_password: SecretStr | None = Field(
        default=None,
        title="Password",
        description="Kept for nodes that are machines.",
        json_schema_extra=shown_in_form("advanced"),
    )


class ClusterDriver(LocalDriver, Managed, Scalable):
    """A cluster of nodes that grows with its queue, from zero, and shrinks back."""

    kind = "cluster"
    title = "Compute cluster"
    group: ClassVar[TargetGroup | None] = "clusters"
    config_model: ClassVar[type[ClusterConfig]] = ClusterConfig
    credentials_model = ClusterCredentials
    config: ClusterConfig
    features = Features(gpus=True, built_environments=True, containers=True, calls_home=True, multi_node=True)
    mutable_settings = CONTAINER_SETTINGS | {
        "python", "min_nodes", "max_nodes", "idle_seconds_before_scaledown", "strict", "tags", "description",
    }  # fmt: skip

    def location(self) -> str:
        return "this computer"

    def create(self) -> Provisioning:
        return Provisioning(ProvisioningState.SUCCEEDED, self.node_size().note)

    def update(self, before: Mapping[str, Any]) -> Provisioning:
        return Provisioning(ProvisioningState.SUCCEEDED, self.node_size().note)

    def delete(self) -> Provisioning:
        left = self.context.nodes(self.name)
        if left:
            return Provisioning(ProvisioningState.DELETING, f"{len(left)} nodes are still there")
        return Provisioning(ProvisioningState.SUCCEEDED)

    def nodes(self) -> list[Node]:
        """The nodes, with the resource limits of runs there and how they are enforced."""
        limits = {f"{what} limit": how for what, how in self._inventory().get("limits", {}).items()}
        found = self.context.nodes(self.name)
        return [replace(node, resources={**node.resources, **limits}) for node in found]

    def node_source(self) -> NodeSource:
        return EmbeddedNodes([node.id for node in self.context.nodes(self.name)])

    def scale(self) -> tuple[int, int, float]:
        return self.config.min_nodes, self.config.max_nodes, self.config.idle_seconds_before_scaledown

    def is_for_one_run(self) -> bool:
        return self.config.for_run

    @classmethod
    def has_low_priority(cls, config: Mapping[str, Any]) -> bool:
        return config.get("vm_priority") == "lowpriority"

    def node_size(self) -> NodeSize:
        return node_size(self._size(), self.config.max_nodes, self.config.strict, self.context.computer)

    def _size(self) -> VmSize:
        found = vm_sizes.find(self.config.vm_size)
        if found is None:
            raise InvalidRequest(f"There is no VM size {self.config.vm_size}.")
        return found

    def check(self) -> Health:
        health = super().check()
        note = self.node_size().note
        return replace(health, message=f"{health.message}; {note}") if note else health

    def plan(self, job: Job) -> Plan:
        plan = super().plan(job)
        self._refuse_too_large(job)
        return plan

    def start(self, plan: Plan) -> Handle:
        job = plan.job
        return super().start(replace(plan, job=replace(job, allocation=self._limits(job))))

    def has_hard_limits(self) -> bool:
        return self.config.strict

    def _limits(self, job: Job) -> Allocation | None:
        """What a run may use of its nodes: what it requested, or else the size of the whole node."""
        if job.allocation is None:
            return None
        asked, size = job.resources, self.node_size()
        is_whole = not (asked.cpus or asked.memory_mb or asked.gpus)
        cores = size.limit_cores if is_whole else asked.cpus or 1.0
        memory_mb = size.limit_memory_mb if is_whole else asked.memory_mb or 0
        return Allocation(tuple(replace(share, cores=cores, memory_mb=memory_mb) for share in job.allocation.shares))

    def _refuse_too_large(self, job: Job) -> None:
        asked, size = job.resources, self.node_size()
        if (asked.nodes or 1) > self.config.max_nodes:
            raise SpecNotSupported(
                f"{self.name} has at most {self.config.max_nodes} nodes; the run needs {asked.nodes or 1}.",
                f"Raise it: windlass compute update {self.name} --max-nodes {asked.nodes or 1}",
            )
        for what, wanted, has in (
            ("cores", asked.cpus or 0, size.limit_cores),
            ("MB of memory", asked.memory_mb or 0, size.limit_memory_mb),
            ("GPUs", asked.gpus or 0, size.gpus),
        ):
            if wanted > has:
                raise SpecNotSupported(
                    f"A node of {self.name} has {has:g} {what}; the run asks for {wanted:g}.",
                    "Ask for less, or use a cluster of another size.",
                )
        whole = self.context.computer
        if self.config.strict and (
            size.cores > whole.cores or size.memory_mb > whole.memory_mb or size.gpus > whole.gpus
        ):
            raise SpecNotSupported(
                f"A node of {self.name} has {size.cores:g} cores, {size.memory_mb} MB and {size.gpus} GPUs; this "
                f"computer has {whole.cores:g}, {whole.memory_mb} and {whole.gpus}, and the cluster is strict.",
                "Use a smaller size, or a cluster that is not strict.",
            )


def node_size(size: VmSize, max_nodes: int, is_strict: bool, computer: ThisComputer) -> NodeSize:
    """The size of a node on this computer. Unless the cluster is strict, a size is cut to the computer, and a node
    counts for at most an equal share of it.
    """
    memory_mb = round(size.memory_gb * 1024)
    if is_strict:
        return NodeSize(size.cores, memory_mb, size.gpus, size.cores, memory_mb, "")
    cores, memory, gpus = (
        min(size.cores, computer.cores),
        min(memory_mb, computer.memory_mb),
        min(size.gpus, computer.gpus),
    )
    nodes = max(1, max_nodes)
    share = min(float(cores), computer.cores / nodes), min(memory, computer.memory_mb // nodes)
    notes = []
    if (cores, memory, gpus) != (size.cores, memory_mb, size.gpus):
        notes.append(
            f"{size.name} has {size.cores} cores, {size.memory_gb:g} GB and {size.gpus} GPUs; nodes are cut to the "
            f"{cores:g} cores, {memory / 1024:.3g} GB and {gpus} GPUs of this computer"
        )
    if share != (float(cores), memory):
        notes.append(f"{nodes} nodes share its {computer.cores:g} cores and {computer.memory_mb / 1024:.3g} GB")
    return NodeSize(share[0], share[1], gpus, cores, memory, "; ".join(notes))


DRIVER = ClusterDriver
