"""Findings about GPUs beyond their zones; no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.nodeagent.core.findings import Finding, Status

_CHARGE = "until then add their maximum power to base_power_w"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One GPU as known to people. ``partitioned``: divided into instances (MIG)."""

    zone: str
    index: int
    model: str
    partitioned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusFacts:
    """All GPUs of a machine. ``why``: NVML cannot be used; ``unopened``: indices, and why.

    ``on_bus``: number of GPUs on the PCI bus, with or without a driver.
    """

    on_bus: int
    why: str
    gpus: tuple[GpuFacts, ...] = ()
    unopened: tuple[tuple[int, str], ...] = ()


def gpus(facts: GpusFacts) -> list[Finding]:
    """Return the GPUs, and why some cannot be used; empty if there are none."""
    found = [_listed(gpu) for gpu in facts.gpus]
    found += [_unopened(index, why) for index, why in facts.unopened]
    if facts.why and facts.on_bus:
        found.append(_out_of_reach(facts))
    return found


def emulated(model: str, count: int, least_w: float, most_w: float) -> Finding:
    """Return the finding that the GPUs for jobs are emulated."""
    return Finding(
        subject="gpus",
        status=Status.LIMITED,
        finding=f"{count} emulated {model}, {least_w:g}..{most_w:g} W each: their caps slow the"
        " jobs that hold them; they compute nothing",
        remedy="omit emulated_gpus to check the GPUs of this machine",
    )


def _listed(gpu: GpuFacts) -> Finding:
    what = f"GPU {gpu.index} of the driver, {gpu.model or 'unknown model'}"
    if gpu.partitioned:
        what += "; partitioned (MIG): its instances share this cap"
    return Finding(subject=gpu.zone, status=Status.OK, finding=what)


def _unopened(index: int, why: str) -> Finding:
    return Finding(
        subject="gpus",
        status=Status.NO,
        finding=f"GPU {index} cannot be opened and is neither capped nor measured: {why}",
        remedy=f"look for Xid errors of NVRM in dmesg; reset the GPU or reboot the node; {_CHARGE}",
    )


def _out_of_reach(facts: GpusFacts) -> Finding:
    number = f"{facts.on_bus} NVIDIA GPU" + ("s" if facts.on_bus > 1 else "")
    remedy = "install and load the NVIDIA driver; nvidia-smi must list them"
    if "nvidia-ml-py" in facts.why:
        remedy = "pip install 'wattfold[gpu]'"
    return Finding(
        subject="gpus",
        status=Status.NO,
        finding=f"{number} on the PCI bus, neither capped nor measured: {facts.why}",
        remedy=f"{remedy}; {_CHARGE}",
    )
