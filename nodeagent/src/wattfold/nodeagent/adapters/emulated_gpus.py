"""Emulated GPUs: zones beside those of the packages, and the physics behind them.

The firmware thread (`emulated_zones`) drives them; who owns which one it is told with the jobs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wattfold.contract.units import w_from_uw
from wattfold.nodeagent.adapters.emulated_zone import EmulatedZone, ZoneRange
from wattfold.nodeagent.adapters.powercap_files import EMULATED_GPU
from wattfold.nodeagent.core.gpu_emulation import GpuModel
from wattfold.nodeagent.core.gpus import NodeGpu

BUSY_FILE = "busy_percent"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedGpuSpec:
    """How many there are, what each is like, and its zone."""

    count: int
    model: GpuModel
    accepts: ZoneRange

    def ids(self) -> tuple[str, ...]:
        """The ids jobs know them by. No program of CUDA takes them for GPUs of this machine."""
        return tuple(f"GPU-emulated-{index}" for index in range(self.count))

    def gpus(self) -> tuple[NodeGpu, ...]:
        """The same as GPUs that jobs may have."""
        return tuple(
            NodeGpu(id=name, index=index, model=self.model.name)
            for index, name in enumerate(self.ids())
        )


class EmulatedGpus:
    """The GPUs of a node: limits in force, speed of their owners, energy drawn."""

    def __init__(self, root: Path, spec: EmulatedGpuSpec) -> None:
        self._model = spec.model
        self._zones = {
            gpu.id: EmulatedZone(root / f"{EMULATED_GPU}{gpu.index}", gpu.zone, spec.accepts)
            for gpu in spec.gpus()
        }
        made = {f"{EMULATED_GPU}{index}" for index in range(spec.count)}
        for folder in root.glob(f"{EMULATED_GPU}*"):
            if folder.name not in made:
                # Of a start with more of them.
                shutil.rmtree(folder)
        self._limits_w: dict[str, float] = {}
        self._shown: dict[str, int] = {}
        self.operate()

    def operate(self) -> None:
        """Takes the limits that stand in the files into force."""
        self._limits_w = {name: w_from_uw(zone.limit_uw()) for name, zone in self._zones.items()}

    def speed(self, gpus: Iterable[str], limit_w: float | None = None) -> float:
        """Speed of a job on these GPUs, in that at full clock; 1 for one without.

        ``limit_w``: as if each of them had this limit.
        """
        own = [name for name in gpus if name in self._limits_w]
        return self._model.speed(limit_w or self._limits_w[name] for name in own)

    def advance(self, busy: Mapping[str, float], elapsed_s: float, until_ns: int) -> None:
        """Lets a time pass, until a moment, in which GPUs worked in these shares of it.

        Others were idle.
        """
        for name, zone in self._zones.items():
            share = min(1.0, max(0.0, busy.get(name, 0.0)))
            zone.advance(self._model.power_w(self._limits_w[name], share), elapsed_s, until_ns)
            percent = round(100 * share)
            if self._shown.get(name) != percent:
                zone.show(BUSY_FILE, percent)
                self._shown[name] = percent
