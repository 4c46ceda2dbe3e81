"""Parts of nodes: input and decisions of schedulers for shared nodes, as numbers only.

Nodes are numbered from 0 and cores are counted. There is no object per core, because a pool of
thousands of nodes decides after every event. A driver of real nodes chooses the cores of each node.
Memory and GPUs follow the units of a job and need no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.policies.port import Decision, JobInformation, Scheduler


class Parts(NamedTuple):
    """A decision: a job starts or continues with the given numbers of cores on these nodes.

    Each node occurs once. For a running job, unnamed nodes stay as they are, and a node with 0
    cores is released. A decision may use cores that other decisions of the same instant release:
    the driver checks the result at the end of the instant.
    """

    job: int
    nodes: Sequence[int]
    cores: int | Sequence[int]
    """Cores on each of the nodes, or one number for all nodes."""
    cap_uw: int
    """Level: package cap of a whole node, in microwatts."""
    gpu_uw: int = 0
    """Limit of each of its GPUs, in microwatts; 0 = the maximum."""


class UnitRequest(NamedTuple):
    """Request of each unit of a job on a node."""

    cores: int = 0
    """0 = a whole node of any size."""
    memory_bytes: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()


class NodeJobInformation(JobInformation, Protocol):
    """Information of the driver about jobs and their nodes. Callers must not modify the mappings.

    Sizes of jobs count units: whole nodes, or the unit that `request` returns.
    """

    @property
    def kinds(self) -> Sequence[NodeKind]:
        """Classes of nodes."""

    def kind_of(self, node: int) -> int:
        """Return the class of a node, as an index into `kinds`."""

    def request(self, job: int) -> UnitRequest:
        """Return the request of each unit of a job."""

    def suits(self, job: int, kind: int) -> bool:
        """Return whether an empty node of a class satisfies the request of one unit of a job."""

    def parts(self, job: int) -> Mapping[int, int]:
        """Return the cores of a running job by node; empty if it was placed by count just now."""

    def out_of_use(self) -> frozenset[int]:
        """Return the nodes that no job may use now, because of maintenance or a reservation."""

    def has_room(self, job: int, node: int, cores: int) -> bool:
        """Return whether ``cores`` cores of a node and the other requests of a unit are free."""

    def empty_count(self, kind: int | None = None) -> int:
        """Return the number of nodes without a job, in one class or all."""

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """Return the first ``count`` nodes without a job, or fewer if there are not enough."""


class NodeScheduler(Scheduler, Protocol):
    """A scheduler whose driver knows every node and supports decisions about parts of nodes.

    A decision may also be a `Decision` if all nodes are identical; then it takes whole nodes.
    """

    def attach(self, jobs: NodeJobInformation) -> None:  # type: ignore[override]
        """Receive the jobs. Called once before all other methods."""

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        """Return starts, and running jobs that continue with other resources."""


AnyScheduler = Scheduler | NodeScheduler
"""Scheduler of either kind. Machines with counted nodes do not support a `NodeScheduler`."""
