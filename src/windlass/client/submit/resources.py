"""Resources and distribution of a RunSpec, from a run configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from windlass.client.exceptions import RunConfigurationException
from windlass.core.entities import Distribution, Resources

if TYPE_CHECKING:
    from windlass.client.config.run_configuration import RunConfiguration

_MPI = ("intelmpi", "openmpi", "mpi")
_PYTORCH = ("nccl", "gloo")
_PARAMETER_SERVER = "parameterserver"
_MB = 1024


def resources_of(run_config: RunConfiguration) -> Resources:
    """What is not set, and a single node, is None: the target's default."""
    nodes, asked = node_count(run_config), run_config.resources
    memory = _amount("resources.memory_in_gb", asked.memory_in_gb)
    return Resources(
        nodes=nodes if nodes != 1 else None,
        cpus=_amount("resources.cpu", asked.cpu),
        gpus=None if asked.gpu is None else _whole("resources.gpu", asked.gpu, 0),
        memory_mb=None if memory is None else max(1, round(memory * _MB)),
    )


def node_count(run_config: RunConfiguration) -> int:
    """The run configuration's, or that of its distributed section if only that has more than one."""
    count = _whole("node_count", run_config.node_count)
    found = distribution_of(run_config)
    if count > 1 or found is None or found.framework == "tensorflow":
        return count
    section = run_config.mpi if found.framework == "mpi" else run_config.pytorch
    return _whole(f"{found.framework}.node_count", section.node_count)


def distribution_of(run_config: RunConfiguration) -> Optional[Distribution]:
    """By the communicator, as ScriptRunConfig sets it; else by the section with several processes."""
    communicator = str(run_config.communicator or "").lower()
    mpi, pytorch, tensorflow = run_config.mpi, run_config.pytorch, run_config.tensorflow
    if communicator == _PARAMETER_SERVER:
        workers = _whole("tensorflow.worker_count", tensorflow.worker_count)
        servers = _whole("tensorflow.parameter_server_count", tensorflow.parameter_server_count, 0)
        return Distribution("tensorflow", workers=workers, parameter_servers=servers)
    if communicator in _PYTORCH or (communicator not in _MPI and (pytorch.process_count or 1) > 1):
        return _pytorch(run_config, communicator)
    each = _whole("mpi.process_count_per_node", mpi.process_count_per_node)
    return Distribution("mpi", each) if communicator in _MPI or each > 1 else None


def _pytorch(run_config: RunConfiguration, communicator: str) -> Distribution:
    backend = communicator if communicator in _PYTORCH else run_config.pytorch.communication_backend
    nodes = max(
        _whole("node_count", run_config.node_count), _whole("pytorch.node_count", run_config.pytorch.node_count)
    )
    count = run_config.pytorch.process_count
    if count is None:
        return Distribution("pytorch", backend=backend)
    if _whole("pytorch.process_count", count) < nodes:
        raise RunConfigurationException(
            f"process_count is the number of all processes, and {count} of them cannot run on {nodes} nodes.",
            f"PyTorchConfiguration(process_count={nodes}, node_count={nodes}) starts one on each.",
        )
    return Distribution("pytorch", -(-count // nodes), process_count=count, backend=backend)


def _whole(what: str, value: Any, least: int = 1) -> int:
    """Check a count; None, an empty value of a file, becomes the least."""
    if value is None:
        return least
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RunConfigurationException(f"{what} is a whole number from {least}, not {value!r:.100}.")
    return value


def _amount(what: str, value: Any) -> Optional[float]:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
        raise RunConfigurationException(f"{what} is a number above 0, not {value!r:.100}.")
    return value
