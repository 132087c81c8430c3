"""GPUs that are visible to a run: those of its shares, by device number, and no other where the target hides them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

CUDA = "CUDA_VISIBLE_DEVICES"
_NVIDIA = "NVIDIA_VISIBLE_DEVICES"  # for NVIDIA's container toolkit
# Else CUDA numbers the fastest device first, and not as nvidia-smi and the allocation do.
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def devices_of(run: Mapping[str, Any]) -> Optional[List[int]]:
    """The devices that a run may see; None if it sees all."""
    allocation = run.get("allocation")
    if not allocation:
        return None
    found = sorted({device for share in allocation["shares"] for device in share.get("gpus") or ()})
    return found if found or allocation.get("hides_gpus") else None


def variables(devices: Sequence[int]) -> Dict[str, str]:
    return {CUDA: ",".join(map(str, devices)), **(_ORDER if devices else {})}


def show_devices(run: Mapping[str, Any], env: Mapping[str, str]) -> Dict[str, str]:
    """The variables of a run with those of its GPUs: ours win over the user's, since devices of others are not for it.

    In a container it has only its own devices, which are counted from 0 there.
    """
    devices = devices_of(run)
    if devices is None:
        return dict(env)
    if not run.get("container"):
        return {**env, **variables(devices)}
    named = {_NVIDIA: ",".join(map(str, devices)) or "void"}
    return {**env, **named, **variables(range(len(devices)))}


def requests_for(devices: Sequence[int]) -> List[Dict[str, Any]]:
    """DeviceRequests of the Docker Engine's API."""
    return [{"DeviceIDs": [str(device) for device in devices], "Capabilities": [["gpu"]]}]


def on_node(run: Mapping[str, Any], number: int) -> Optional[Dict[str, str]]:
    """The variables for the processes on one node of a run, on top of those of `show_devices`."""
    devices = devices_of(run)
    if devices is None:
        return None
    own = run["allocation"]["shares"][number].get("gpus") or ()
    return variables([devices.index(device) for device in sorted(own)] if run.get("container") else sorted(own))
