"""GPUs of a node as jobs see them: IDs, models, device nodes, and variables for the libraries.

Index order is the order of the PCI bus, as in NVML and nvidia-smi. The vendors' libraries number
GPUs differently, so programs get IDs if they accept them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_MAKERS = (
    "NVIDIA Tesla Quadro GeForce AMD Instinct Radeon Intel(R) Intel Data Center GPU Max Arc Pro"
)
_SERIES = frozenset({"RTX", "GTX", "TITAN", "Max"})
UNNAMED = "GPU-pci-"
"""Prefix of the IDs of GPUs without an ID. No library accepts these."""
VISIBLE = "WATTFOLD_GPUS"
"""IDs of the job's own GPUs, independent of vendor and library."""


class GpuVendor(enum.Enum):
    """Vendor of a GPU, and of the libraries for it."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class GpuNames(enum.Enum):
    """Form in which programs receive the names of their GPUs."""

    UUID = "uuid"
    INDEX = "index"
    """For programs that accept only numbers, in the order of the PCI bus."""


_VARIABLES = {
    GpuVendor.NVIDIA: "CUDA_VISIBLE_DEVICES",
    # HIP also reads CUDA_VISIBLE_DEVICES, as indices within this list: only one of them may be set.
    GpuVendor.AMD: "ROCR_VISIBLE_DEVICES",
    GpuVendor.INTEL: "ZE_AFFINITY_MASK",
}


STRANGE = frozenset({*_VARIABLES.values(), "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
"""Variables from the shell of the submission. On a node with GPUs they would filter the job's list.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device through which a program accesses a GPU."""

    major: int
    minor: int
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpu:
    """A GPU for jobs. ``index``: among the GPUs of its vendor on this node."""

    id: str
    vendor: GpuVendor = GpuVendor.NVIDIA
    index: int = 0
    model: str = ""
    devices: tuple[DeviceNode, ...] = ()

    @property
    def zone(self) -> str:
        """The name of its power zone, if it has one."""
        return f"gpu-{self.id.removeprefix('GPU-')}"


def model_word(name: str) -> str:
    """Return the common name for a driver's GPU name: V100 for Tesla V100-SXM2-16GB.

    Empty if there is none. Series with their own numbers (RTX 6000) keep the series name.
    """
    words = name.replace("(TM)", "").split()
    for before, word in zip(["", *words], words, strict=False):
        first = word.partition("-")[0]
        if word in _MAKERS.split() or not any(sign.isdigit() for sign in first):
            continue
        series = before if before in _SERIES and first[0].isdigit() else ""
        plain = (sign for sign in series + first if sign.isascii() and sign.isalnum())
        return "".join(plain)[:63]
    return ""


def common_model(gpus: Iterable[NodeGpu]) -> str:
    """Return the common model of all GPUs; empty if a model is unknown or the models differ."""
    models = {gpu.model for gpu in gpus}
    return models.pop() if len(models) == 1 else ""


def foreign_devices(there: Sequence[NodeGpu], own: Iterable[str]) -> tuple[DeviceNode, ...]:
    """Return the device nodes of GPUs that do not belong to a job, each once."""
    mine = set(own)
    kept = {device for gpu in there if gpu.id in mine for device in gpu.devices}
    found = [device for gpu in there if gpu.id not in mine for device in gpu.devices]
    return tuple(device for device in dict.fromkeys(found) if device not in kept)


def gpu_environment(
    there: Sequence[NodeGpu], own: Sequence[str], names: GpuNames
) -> Mapping[str, str]:
    """Return the variables for the libraries of each vendor; empty without GPUs.

    An unset variable would mean all GPUs, so a job without GPUs gets an empty list. Level Zero
    treats an empty list as all GPUs, so it gets a number that no GPU has.
    """
    if not there:
        return {}
    by_id = {gpu.id: gpu for gpu in there}
    told = {VISIBLE: ",".join(own)}
    for vendor in dict.fromkeys(gpu.vendor for gpu in there):
        mine = [by_id[name] for name in own if name in by_id and by_id[name].vendor is vendor]
        by_number = names is GpuNames.INDEX or vendor is GpuVendor.INTEL
        numbers = [by_number or gpu.id.startswith(UNNAMED) for gpu in mine]
        text = ",".join(
            str(gpu.index) if number else gpu.id for gpu, number in zip(mine, numbers, strict=True)
        )
        if vendor is GpuVendor.INTEL and not mine:
            text = str(sum(gpu.vendor is vendor for gpu in there))
        told[_VARIABLES[vendor]] = text
        if vendor is GpuVendor.NVIDIA and by_number:
            # Otherwise CUDA numbers them by speed, and a job would use the GPU of another job.
            told["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return told
