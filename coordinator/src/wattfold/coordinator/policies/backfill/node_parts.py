"""Jobs and nodes as numbers: input of schedulers for pools of shared nodes.

Nodes are numbered from 0 and cores are counted. There is no object per core, because a pool of
thousands of nodes decides after every event. A driver of real nodes chooses the cores of each node.
Memory and GPUs follow the units of a job and need no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.policies.port import JobInformation


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
