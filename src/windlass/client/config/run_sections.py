"""Sections of a run configuration, with Azure's names and defaults."""

from __future__ import annotations

import sys
from typing import Any

from windlass.client.config.section import Field, Section
from windlass.client.exceptions import RunConfigurationException


class HistoryConfiguration(Section):
    FIELDS = (Field("output_collection"), Field("snapshot_project"), Field("directories_to_watch"))

    def __init__(self) -> None:
        self.output_collection = True
        self.snapshot_project = True
        self.directories_to_watch: list[str] = ["logs"]
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "snapshot_project" and value is False:
            print("Warning: snapshot_project stays on; a run is executed from its snapshot.", file=sys.stderr)


class SparkConfiguration(Section):
    FIELDS = (Field("configuration"),)

    def __init__(self) -> None:
        self.configuration: dict[str, Any] = {"spark.app.name": "Azure ML Experiment", "spark.yarn.maxAppAttempts": 1}
        self._ready = True


class DockerConfiguration(Section):
    """Whether the run executes in a container, and the container's settings."""

    HOW_TO_MAKE = "DockerConfiguration(use_docker=True) has runs live in containers."
    FIELDS = (Field("use_docker"), Field("shared_volumes"), Field("arguments"), Field("shm_size"))

    def __init__(
        self,
        use_docker: bool = False,
        shared_volumes: bool = True,
        arguments: list[str] = [],  # noqa: B006 (as Azure has it; an empty one is replaced)
        shm_size: str | None = "2g",
    ) -> None:
        self.use_docker = use_docker
        self.shared_volumes = shared_volumes
        self.arguments = arguments or []
        self.shm_size = shm_size
        self._ready = True


class HdiConfiguration(Section):
    FIELDS = (Field("yarn_deploy_mode"),)

    def __init__(self) -> None:
        self.yarn_deploy_mode = "cluster"
        self._ready = True


class TensorflowConfiguration(Section):
    FIELDS = (Field("worker_count"), Field("parameter_server_count"))

    def __init__(self, worker_count: int = 1, parameter_server_count: int = 1) -> None:
        self.worker_count = worker_count
        self.parameter_server_count = parameter_server_count
        self._ready = True


class MpiConfiguration(Section):
    FIELDS = (Field("process_count_per_node"), Field("node_count"))

    def __init__(self, process_count_per_node: int = 1, node_count: int = 1) -> None:
        self.process_count_per_node = process_count_per_node
        self.node_count = node_count
        self._ready = True


class PyTorchConfiguration(Section):
    FIELDS = (Field("communication_backend"), Field("process_count"), Field("node_count"))

    def __init__(
        self, communication_backend: str = "Nccl", process_count: int | None = None, node_count: int = 1
    ) -> None:
        if communication_backend.lower() not in ("nccl", "gloo"):
            raise RunConfigurationException(
                f"{communication_backend} is not a supported backend. 'communication_backend' must be 'Nccl' or 'Gloo'."
            )
        self.communication_backend = communication_backend.lower()
        self.process_count = process_count
        self.node_count = node_count
        self._ready = True


class RunResources(Section):
    """CPUs, memory and GPUs that a run needs on each of its nodes; None for the target's default."""

    HOW_TO_MAKE = "ResourceConfiguration(cpu=2, memory_in_gb=8, gpu=1) is one."
    FIELDS = (Field("cpu"), Field("memory_in_gb"), Field("gpu"))

    def __init__(self, cpu: float | None = None, memory_in_gb: float | None = None, gpu: int | None = None) -> None:
        self.cpu = cpu
        self.memory_in_gb = memory_in_gb
        self.gpu = gpu
        self._ready = True


class ParallelTaskConfiguration(Section):
    FIELDS = (Field("max_retries_per_worker"), Field("worker_count_per_node"), Field("terminal_exit_codes"))

    def __init__(self) -> None:
        self.max_retries_per_worker = 0
        self.worker_count_per_node = 1
        self.terminal_exit_codes: list[int] | None = None
        self._ready = True


class AmlComputeConfiguration(Section):
    FIELDS = (
        Field("vm_size"),
        Field("vm_priority"),
        Field("retain_cluster"),
        Field("name"),
        Field("cluster_max_node_count"),
    )

    def __init__(self) -> None:
        self.vm_size: str | None = None
        self.vm_priority: str | None = None
        self.retain_cluster = False
        self.name: str | None = None
        self.cluster_max_node_count: int | None = None
        self._ready = True


class KubernetesComputeConfiguration(Section):
    FIELDS = (Field("instance_type"),)

    def __init__(self) -> None:
        self.instance_type: str | None = None
        self._ready = True


class ApplicationEndpointConfiguration(Section):
    """A service beside the script, such as JupyterLab. It is stored with the run, and not started."""

    FIELDS = (Field("type"), Field("port"), Field("properties"))

    def __init__(self, type: str | None = None, port: int | None = None, properties: Any = None) -> None:
        self.type = type
        self.port = port
        self.properties = properties
        self._ready = True


class DataReferenceConfiguration(Section):
    FIELDS = (
        Field("data_store_name"),
        Field("path_on_data_store"),
        Field("mode"),
        Field("overwrite"),
        Field("path_on_compute"),
    )

    def __init__(
        self,
        datastore_name: str | None = None,
        mode: str = "mount",
        path_on_datastore: str | None = None,
        path_on_compute: str | None = None,
        overwrite: bool = False,
    ) -> None:
        self.data_store_name = datastore_name
        self.path_on_data_store = path_on_datastore
        self.mode = mode.lower()
        self.overwrite = overwrite
        self.path_on_compute = path_on_compute
        self._ready = True
