"""Resources of a job: its nodes and cores, its caps and its expected time."""

from __future__ import annotations

from dataclasses import dataclass, field

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.levels import PLAIN, Levels

NO_CORES = CpuSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Resources of a job on one node: cores, bytes of memory, GPUs by ID."""

    node_id: NodeId
    cpus: CpuSet
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()

    @property
    def beside_cores(self) -> tuple[int, tuple[str, ...]]:
        """Return the amounts that do not change when the cores change."""
        return self.memory_bytes, self.gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The size, cap and nodes that a policy assigns to a job.

    ``cap_uw`` is the package cap per whole node that was chosen with the size (P_j of PARM).
    ``levels`` are the caps of other zones. ``expected_total_s`` is t[j, n, p], the time of the
    whole job at this size and cap, 0 = unknown. The core integrates the completed share from it.
    """

    job_id: JobId
    size: int
    cap_uw: int
    shares: tuple[Share, ...]
    expected_total_s: float = 0.0
    levels: Levels = PLAIN
    reach: tuple[NodeId, ...] = ()
    """The reach of an accepted start, see `Job.reach`."""
    _cpus: dict[NodeId, CpuSet] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cores by node, filled by the first call of `on`: rules ask for each node of wide jobs."""

    def on(self, node_id: NodeId) -> CpuSet:
        """Return the cores on a node; empty if there are none."""
        if not self._cpus:
            # The first share of a node counts.
            self._cpus.update((share.node_id, share.cpus) for share in reversed(self.shares))
        return self._cpus.get(node_id, NO_CORES)
