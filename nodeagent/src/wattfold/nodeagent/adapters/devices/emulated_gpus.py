"""Emulated GPUs: zones in addition to those of the packages, and their physical model.

The firmware thread (`emulated_zones`) drives them. It knows from the jobs which GPU each job holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import w_from_uw
from wattfold.nodeagent.adapters.devices.emulated_zone import EmulatedZone, ZoneRange
from wattfold.nodeagent.adapters.devices.powercap_files import EMULATED_GPU
from wattfold.nodeagent.core.gpu_emulation import GpuModel
from wattfold.nodeagent.core.gpus import NodeGpu

BUSY_FILE = "busy_percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedGpuSpec:
    """Number of emulated GPUs, their model, and the range of their zones."""

    count: int
    model: GpuModel
    accepts: ZoneRange

    def ids(self) -> tuple[str, ...]:
        """Return the IDs for jobs. No CUDA program mistakes them for GPUs of this machine."""
        return tuple(f"GPU-emulated-{index}" for index in range(self.count))

    def gpus(self) -> tuple[NodeGpu, ...]:
        """Return the emulated GPUs as GPUs for jobs."""
        return tuple(
            NodeGpu(id=name, index=index, model=self.model.name)
            for index, name in enumerate(self.ids())
        )


class EmulatedGpus:
    """The GPUs of a node: limits in force, speed of their owners, energy."""

    def __init__(self, root: Path, spec: EmulatedGpuSpec) -> None:
        self._model = spec.model
        self._zones = {
            gpu.id: EmulatedZone(root / f"{EMULATED_GPU}{gpu.index}", gpu.zone, spec.accepts)
            for gpu in spec.gpus()
        }
        made = {f"{EMULATED_GPU}{index}" for index in range(spec.count)}
        for folder in root.glob(f"{EMULATED_GPU}*"):
            if folder.name not in made:
                # The folder is from an earlier start with more GPUs.
                shutil.rmtree(folder)
        self._limits_w: dict[str, float] = {}
        self._shown: dict[str, int] = {}
        self.operate()

    def operate(self) -> None:
        """Apply the limits in the files."""
        self._limits_w = {name: w_from_uw(zone.limit_uw()) for name, zone in self._zones.items()}

    def speed(self, gpus: Iterable[str], limit_w: float | None = None) -> float:
        """Return the relative speed of a job on these GPUs; 1 = full clock, or no GPUs.

        ``limit_w``: limit of each GPU instead of the limit in force.
        """
        own = [name for name in gpus if name in self._limits_w]
        return self._model.speed(limit_w or self._limits_w[name] for name in own)

    def advance(self, busy: Mapping[str, float], elapsed_s: float, until_ns: int) -> None:
        """Advance the energy by a time until ``until_ns``, with the busy share of each GPU.

        GPUs without a share were idle.
        """
        for name, zone in self._zones.items():
            share = min(1.0, max(0.0, busy.get(name, 0.0)))
            zone.advance(self._model.power_w(self._limits_w[name], share), elapsed_s, until_ns)
            percent = round(100 * share)
            if self._shown.get(name) != percent:
                zone.show(BUSY_FILE, percent)
                self._shown[name] = percent
