"""GPUs of a node as jobs know them: ids, models, device nodes, and what the libraries go by.

Index order is that of the PCI bus, as NVML and nvidia-smi have it. The vendors' libraries number
differently, so programs are told ids where they can take them.
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
"""What ids begin with of GPUs that have none of their own; no library takes them."""
VISIBLE = "WATTFOLD_GPUS"
"""Ids of the job's own GPUs, whatever the vendor and however its libraries are told."""


class GpuVendor(enum.Enum):
    """Whose libraries a program uses a GPU by."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class GpuNames(enum.Enum):
    """How programs are told their GPUs."""

    UUID = "uuid"
    INDEX = "index"
    """For programs that take numbers only, in the order of the PCI bus."""


_VARIABLES = {
    GpuVendor.NVIDIA: "CUDA_VISIBLE_DEVICES",
    # HIP also reads CUDA_VISIBLE_DEVICES, as indices within this one: only one of them may be set.
    GpuVendor.AMD: "ROCR_VISIBLE_DEVICES",
    GpuVendor.INTEL: "ZE_AFFINITY_MASK",
}


STRANGE = frozenset({*_VARIABLES.values(), "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
"""Of where a job was submitted; on a node with GPUs they would filter what it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A character device by which a program reaches a GPU."""

    major: int
    minor: int
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGpu:
    """A GPU that jobs may have. ``index``: among those of its vendor here."""

    id: str
    vendor: GpuVendor = GpuVendor.NVIDIA
    index: int = 0
    model: str = ""
    devices: tuple[DeviceNode, ...] = ()

    @property
    def zone(self) -> str:
        """The name of its power zone, where it has one."""
        return f"gpu-{self.id.removeprefix('GPU-')}"


def model_word(name: str) -> str:
    """The word people use for what a driver calls a GPU: V100 for Tesla V100-SXM2-16GB.

    Empty where there is none in it. Series that count anew (RTX 6000) stay with their number.
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
    """The model of all of them; empty where one is not known, or they are unlike."""
    models = {gpu.model for gpu in gpus}
    return models.pop() if len(models) == 1 else ""


def foreign_devices(there: Sequence[NodeGpu], own: Iterable[str]) -> tuple[DeviceNode, ...]:
    """The device nodes of the GPUs that are not a job's own, each once."""
    mine = set(own)
    kept = {device for gpu in there if gpu.id in mine for device in gpu.devices}
    found = [device for gpu in there if gpu.id not in mine for device in gpu.devices]
    return tuple(device for device in dict.fromkeys(found) if device not in kept)


def gpu_environment(
    there: Sequence[NodeGpu], own: Sequence[str], names: GpuNames
) -> Mapping[str, str]:
    """What the libraries go by, for each vendor there is; nothing where there are no GPUs.

    Not set would mean all of them, so a job without GPUs is told none: an empty list, or for
    Level Zero, which takes that for all, a number that no GPU has.
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
            # Else CUDA numbers them by speed, and a job would use the GPU of another one.
            told["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return told
