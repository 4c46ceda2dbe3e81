"""GPU usage of jobs: energy since they hold the GPUs, power, utilisation, memory.

A GPU has one owner, so all its energy, including idle energy, is charged to this job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wattfold.contract.ids import ZoneName
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.gpus import NodeGpu
from wattfold.nodeagent.service.jobs.records import Job
from wattfold.nodeagent.service.power.power import NodePower
from wattfold.nodeagent.service.power.zone_state import ZoneState


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """A GPU of a job. None: not reported by the driver. ``age_ns``: age of the oldest value."""

    gpu: str
    energy_uj: int
    power_uw: int
    busy_percent: int | None
    memory_bytes: int | None
    age_ns: int


class GpuAccounting:
    """Charges jobs for the energy of their GPUs. A GPU without a zone has no known energy."""

    def __init__(self, power: NodePower, gpus: Sequence[NodeGpu]) -> None:
        self._power = power
        self._zones = {gpu.id: gpu.zone for gpu in gpus}
        self._counted_uj = {gpu.id: self._total_uj(gpu.id) for gpu in gpus}

    def charge(self, jobs: Iterable[Job]) -> None:
        """Charge the energy since the last call to the current owners."""
        owners = {gpu: job for job in jobs for gpu in job.gpus}
        for gpu, before_uj in self._counted_uj.items():
            now_uj = self._counted_uj[gpu] = self._total_uj(gpu)
            if job := owners.get(gpu):
                job.gpu_used_uj[gpu] = job.gpu_used_uj.get(gpu, 0) + max(0, now_uj - before_uj)

    def readings(self, job: Job, now_ns: int) -> list[GpuReading]:
        """Return the driver's measurements of the GPUs of a job."""
        found = []
        for gpu in job.gpus:
            state = self._state(gpu)
            if state is None:
                continue
            busy, busy_age_ns = state.zone.told("busy_percent")
            memory, memory_age_ns = state.zone.told("memory_used_bytes")
            age_ns = max(now_ns - state.history.last_ns, busy_age_ns, memory_age_ns, 0)
            found.append(
                GpuReading(
                    gpu=gpu,
                    energy_uj=job.gpu_used_uj.get(gpu, 0),
                    power_uw=state.history.mean_uw(NS_PER_S),
                    busy_percent=busy,
                    memory_bytes=memory,
                    age_ns=age_ns,
                )
            )
        return found

    def _total_uj(self, gpu: str) -> int:
        state = self._state(gpu)
        return state.meter.total_uj if state is not None else 0

    def _state(self, gpu: str) -> ZoneState | None:
        return self._power.zones.get(ZoneName(self._zones.get(gpu, "")))
