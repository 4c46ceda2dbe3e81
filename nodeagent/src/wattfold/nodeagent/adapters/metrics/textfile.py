"""Writes the metrics to a file that the node exporter of Prometheus reads (textfile collector).

So the agent needs no further port (decision 99). The file is replaced as a whole and removed when
the agent stops in order. An old file shows Prometheus that an agent was killed. Only this
module imports prometheus_client.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from wattfold.contract.metric import COUNTER
from wattfold.contract.repeats import Repeats
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.beat import next_beat
from wattfold.nodeagent.adapters.metrics.catalogue import BY_NAME
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.power.power import NodePower
from wattfold.nodeagent.service.power.zone_state import ZoneState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The constant facts about a node."""

    node_id: str
    base_uw: int
    emulated: bool


class MetricsFile(Collector):
    """The file of one agent. Used from the event loop only, so it must be on a local disk."""

    def __init__(self, path: Path, facts: NodeFacts, power: NodePower, jobs: NodeJobs) -> None:
        self._path = path
        self._facts = facts
        self._power = power
        self._jobs = jobs
        self._repeats = Repeats()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    async def write_for_ever(self, interval_s: float) -> None:
        """Write now and at every interval, and remove the file at the end. Failures are logged."""
        try:
            while True:
                self._try(self.write)
                await next_beat(interval_s)
        finally:
            self._try(self.remove)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            if count := self._repeats.one_more("metrics", time.monotonic()):
                logs.warning("metrics_not_written", path=self._path, reason=error, times=count)

    def write(self) -> None:
        """Replace the file. Raises OSError."""
        text = generate_latest(self._registry)
        # The folder may belong to the account of the exporter: no link is followed, and no
        # existing file is opened.
        temporary = f"{self._path}.tmp"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(text)
                # Independent of the umask of the service.
                os.fchmod(file.fileno(), 0o644)
            os.replace(temporary, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def remove(self) -> None:
        """Remove the file: an agent that has stopped has no values."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def collect(self) -> Iterator[Family]:
        """Yield all metrics of this moment."""
        build = InfoMetricFamily(
            "wattfold_agent_build", BY_NAME["wattfold_agent_build"].help, labels=["node"]
        )
        build.add_metric([self._facts.node_id], {"version": version("wattfold")})
        yield build
        yield from self._zones()
        written = {"wattfold_agent_written_timestamp_seconds": time.time()}
        values = {**written, **self._power_values(), **self._job_values()}
        for name, value in values.items():
            yield self._family(name, [((), value)])

    def _zones(self) -> Iterator[Family]:
        states = list(self._power.zones.values())
        capped = [state for state in states if state.cappable]
        measured = [state for state in states if state.valid and not state.zone.cannot_measure]
        yield self._family(
            "wattfold_zone_energy_joules", _each(measured, lambda s: s.meter.total_uj / 1e6)
        )
        yield self._family("wattfold_zone_cap_watts", _each(capped, lambda s: s.cap_uw / 1e6))
        yield self._family("wattfold_zone_floor_watts", _each(capped, lambda s: s.floor_uw / 1e6))
        yield self._family("wattfold_zone_maximum_watts", _each(states, lambda s: s.most_uw / 1e6))
        yield self._family("wattfold_zone_fault", _each(states, _fault))

    def _power_values(self) -> Mapping[str, float]:
        power = self._power
        return {
            "wattfold_node_base_power_watts": self._facts.base_uw / 1e6,
            "wattfold_node_emulated": self._facts.emulated,
            "wattfold_node_lease_remaining_seconds": power.remaining_ns() / 1e9,
            "wattfold_node_at_floor": power.at_floor,
            "wattfold_node_left": power.left,
            "wattfold_node_foreign_settings": power.drift_count,
            "wattfold_node_caps_not_held": power.not_held_count,
        }

    def _job_values(self) -> Mapping[str, float]:
        live = [job for job in self._jobs.jobs.values() if job.live]
        return {
            "wattfold_node_cores": len(self._jobs.cpus),
            "wattfold_node_held_cores": sum(len(job.held) for job in live),
            "wattfold_node_running_jobs": len(live),
            "wattfold_node_residual_cores": sum(sum(job.residual.loads().values()) for job in live),
            "wattfold_node_residual_alarms": sum(job.residual.alarm for job in live),
            "wattfold_node_start_fault": bool(self._jobs.starts.fault),
        }

    def _family(self, name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
        metric = BY_NAME[name]
        kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
        family = kind(name, metric.help, labels=metric.labels)
        for labels, value in samples:
            family.add_metric([self._facts.node_id, *labels], value)
        return family


def _each(
    states: Iterable[ZoneState], value: Callable[[ZoneState], float]
) -> Iterator[tuple[tuple[str], float]]:
    return (((state.zone.name,), value(state)) for state in states)


def _fault(state: ZoneState) -> bool:
    unmeasured = not (state.valid or state.zone.cannot_measure)
    return bool(
        unmeasured
        or state.failing
        or state.owes_floor
        or state.owed
        or state.over_uw
        or not state.readable
    )
