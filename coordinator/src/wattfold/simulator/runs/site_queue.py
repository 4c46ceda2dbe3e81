"""The queue of a site at one moment, as values that a simulation can start from.

Times are nanoseconds from `SiteQueue.origin_s`, as in the coordinator core. The command reads the
messages of a coordinator; this module knows the core's values only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.events import (
    EpochTimesStored,
    ProfileStored,
    ProgramCertified,
)
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import NodeSpec, like
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.core.power.charge import fixed_uw
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.simulator.messages.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteNode:
    """A reachable node. A node that is ``closed`` takes no new jobs."""

    spec: NodeSpec
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Resources that a job holds, and the start of its current attempt without suspended time."""

    started_ns: int
    assignment: Assignment
    """``expected_total_s`` is the time after which the coordinator expects its end."""
    done: float
    """Completed share, in [0, 1]."""
    suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that has not ended, in the order of submission.

    ``work`` is the assumption of the simulation about its run time.
    """

    job_id: JobId
    spec: JobSpec
    submitted_ns: int
    work: Work
    seat: Seat | None = None
    """None: the job waits."""
    held: bool = False
    conditions: StartConditions = UNCONDITIONAL
    size_ordered: int = 0
    """Size fixed by a user; 0 = the policy chooses."""
    epochs_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAt:
    """An announced budget."""

    at_ns: int
    budget_uw: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQueue:
    """Nodes, jobs and rules of a site at ``now_ns``."""

    origin_s: float
    """Unix time of the zero of all times."""
    now_ns: int
    nodes: tuple[SiteNode, ...]
    jobs: tuple[QueuedJob, ...]
    budget_uw: int
    """Power for these nodes: the budget without the power that other nodes may draw."""
    announced: tuple[BudgetAt, ...] = ()
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    profiles: tuple[ProfileStored | EpochTimesStored | ProgramCertified, ...] = ()
    dram_cap_uw: int = 0
    limits: AccountsConfigured | None = None
    """Limits of users and accounts."""
    predict: str = "user"

    @property
    def settings(self) -> CoreSettings:
        """Settings of the core."""
        return CoreSettings(
            dram_cap_uw=self.dram_cap_uw, predict=self.predict, origin_s=self.origin_s
        )

    @property
    def floor_uw(self) -> int:
        """Charge of all nodes without any job."""
        return sum(fixed_uw(node.spec, self.dram_cap_uw) for node in self.nodes)

    def check(self) -> None:
        """Raise ValueError if there are no nodes, or if a budget is below their minimum power."""
        if not self.nodes:
            raise ValueError("no node is up, so no job can be simulated")
        least_uw = min((self.budget_uw, *(one.budget_uw for one in self.announced)))
        if least_uw < self.floor_uw:
            raise ValueError(
                f"{w_from_uw(least_uw):g} W for these nodes are below {w_from_uw(self.floor_uw):g} "
                f"W, the minimum power of {len(self.nodes)} nodes; give a higher budget"
            )


def with_nodes(queue: SiteQueue, change: int) -> SiteQueue:
    """Return the queue with more nodes of the most frequent kind, or with nodes closed.

    Closed nodes end their running jobs. The nodes with the fewest jobs are closed first, and of
    these the last nodes. Raises ValueError if there are too few nodes.
    """
    if change > 0:
        return replace(queue, nodes=(*queue.nodes, *_added(queue.nodes, change)))
    there = Counter(
        share.node_id for job in queue.jobs if job.seat for share in job.seat.assignment.shares
    )
    open_ids = [node.spec.node_id for node in queue.nodes if not node.closed]
    if -change > len(open_ids):
        raise ValueError(f"{-change} nodes cannot be closed: {len(open_ids)} nodes take jobs")
    places = range(len(open_ids) - 1, -1, -1)
    ranked = sorted(places, key=lambda place: there[open_ids[place]])
    closed = {open_ids[place] for place in ranked[:-change]}
    nodes = [replace(n, closed=n.closed or n.spec.node_id in closed) for n in queue.nodes]
    return replace(queue, nodes=tuple(nodes))


def _added(nodes: Sequence[SiteNode], count: int) -> list[SiteNode]:
    if not nodes:
        raise ValueError("no node is up, so the kind of new nodes is unknown")
    kinds: list[tuple[NodeSpec, int]] = []
    for node in nodes:
        place = next((n for n, (spec, _) in enumerate(kinds) if like(spec, node.spec)), None)
        if place is None:
            kinds.append((node.spec, 1))
        else:
            kinds[place] = kinds[place][0], kinds[place][1] + 1
    model = max(kinds, key=lambda kind: kind[1])[0]
    known = {node.spec.node_id for node in nodes}
    names = (NodeId(f"new-{number}") for number in range(1, count + len(known) + 1))
    free = [name for name in names if name not in known][:count]
    return [SiteNode(spec=replace(model, node_id=name)) for name in free]
