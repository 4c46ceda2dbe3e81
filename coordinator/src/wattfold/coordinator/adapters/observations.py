"""What agents measured lately: power, energy, progress. Never part of a decision on the budget.

The newest message of every agent, kept in memory; the ledger works with caps, which hold whether
or not a measurement arrives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId, ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSample:
    """Power (uW, mean over the agent's interval) and energy (uJ) of a zone."""

    power_uw: int
    energy_uj: int
    cap_uw: int
    valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSample:
    """Use of a job on one node since its launch."""

    cpu_ns: int
    energy_uj: int
    residual_cpu_ns: int
    threads: int
    team_size: int
    regions: int
    done: float
    total: float
    confined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """One telemetry message."""

    node_id: NodeId
    taken_ns: int
    base_power_uw: int
    zones: dict[ZoneName, ZoneSample]
    jobs: dict[JobId, JobSample]
    drift_count: int

    @property
    def power_uw(self) -> int:
        """Measured power of the node: its zones and its base power."""
        return self.base_power_uw + sum(zone.power_uw for zone in self.zones.values())


@dataclass(slots=True)
class Observations:
    """Newest samples by node, and the highest sum of power seen."""

    peak_uw: int = 0
    nodes: dict[NodeId, NodeSample] = field(default_factory=dict)

    def take(self, sample: NodeSample) -> None:
        """Replaces what is known of a node."""
        self.nodes[sample.node_id] = sample
        self.peak_uw = max(self.peak_uw, self.power_uw)

    def drop(self, node_id: NodeId) -> None:
        """Forgets a node that fell silent."""
        self.nodes.pop(node_id, None)

    @property
    def power_uw(self) -> int:
        """Sum over the nodes heard of."""
        return sum(node.power_uw for node in self.nodes.values())

    @property
    def energy_uj(self) -> int:
        """Energy of all zones since their agents started (base power not included)."""
        return sum(z.energy_uj for node in self.nodes.values() for z in node.zones.values())

    def of_job(self, job_id: JobId) -> list[JobSample]:
        """Samples of a job on all its nodes."""
        return [node.jobs[job_id] for node in self.nodes.values() if job_id in node.jobs]
