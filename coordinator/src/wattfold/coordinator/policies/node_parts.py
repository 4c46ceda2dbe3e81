"""Parts of nodes: what a scheduler is told and decides where jobs share nodes, by numbers alone.

Nodes are numbers from 0, cores are counted, and nothing is made for a core: a pool of thousands of
nodes is decided on after every event. Which cores of a node a job has is for a driver of real nodes
to say. Memory and GPUs go with the units of a job and need no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.policies.scheduler import Decision, Jobs, Scheduler


class Parts(NamedTuple):
    """A decision: a job starts on, or goes on with, so many cores of these nodes.

    A node is named once. Of a running job, nodes that are not named stay as they are, and a node
    with no cores left is given up. Cores that others give up in the same instant may be counted
    on: what is held is checked at its end.
    """

    job: int
    nodes: Sequence[int]
    cores: int | Sequence[int]
    """On each of the nodes, or one number for all of them."""
    cap_uw: int
    """Level: package cap of a whole node."""
    gpu_uw: int = 0
    """Limit of each of its GPUs, 0 = the greatest."""


class Request(NamedTuple):
    """What each unit of a job asks of one node."""

    cores: int = 0
    """0 = a whole node, whatever it has."""
    memory_bytes: int = 0
    gpus: int = 0
    features: tuple[str, ...] = ()


class NodeJobs(Jobs, Protocol):
    """What the driver knows of jobs and of the nodes they are on. Mappings are not to be changed.

    Sizes of jobs count units: whole nodes, or what `request` says.
    """

    @property
    def kinds(self) -> Sequence[NodeKind]:
        """The classes of nodes."""

    def kind_of(self, node: int) -> int:
        """The class of a node, by its place in `kinds`."""

    def request(self, job: int) -> Request:
        """What each of its units asks for."""

    def suits(self, job: int, kind: int) -> bool:
        """Whether an empty node of a class has all that one of its units asks for."""

    def parts(self, job: int) -> Mapping[int, int]:
        """Cores of a running job by node; of a job placed in this instant by count none yet."""

    def free_cores(self, node: int) -> int:
        """Cores of a node that nobody has; 0 while it is out of use."""

    def out_of_use(self) -> frozenset[int]:
        """Nodes that nobody may use now, for maintenance or a reservation."""

    def has_room(self, job: int, node: int, cores: int) -> bool:
        """Whether so many cores of a node are free, and what a unit of the job asks beside them."""

    def empty_count(self, kind: int | None = None) -> int:
        """Nodes, of one class or all, without a job."""

    def empty(self, count: int, kind: int | None = None) -> list[int]:
        """The first so many nodes without a job, or as many as there are; nothing is taken."""


class NodeScheduler(Scheduler, Protocol):
    """A scheduler whose driver knows every node, and tells it more and understands more.

    A decision may be a `Decision` too, where all nodes are alike: whole nodes are taken then.
    """

    def attach(self, jobs: NodeJobs) -> None:  # type: ignore[override]
        """Called once before anything else."""

    def decide(self, now_ns: int) -> Sequence[Decision | Parts]:  # type: ignore[override]
        """Starts, and running jobs that go on with something else."""


AnyScheduler = Scheduler | NodeScheduler
"""Which of them fits is a matter of the machine: counted nodes serve no `NodeScheduler`."""
