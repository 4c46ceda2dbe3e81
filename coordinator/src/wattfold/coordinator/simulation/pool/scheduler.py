"""What the engine asks of a scheduler: told of every change, it decides at once.

A scheduler holds the state a decision needs between two events and leaves the decision itself to
`policies`, where the service takes it from. It never sees which nodes a job gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from wattfold.coordinator.models.dram_model import DramModel

Decision = tuple[int, int, int]
"""A job (its position in the job table), its nodes, its package cap a node in microwatts."""


class Progress(Protocol):
    """What the engine knows of running jobs."""

    def done(self, job: int, now_ns: int) -> float:
        """Share of the job's work that is done, 0..1."""


class PoolScheduler(Protocol):
    """One policy at work on a pool of nodes.

    Calls come in order of time. `decide` is called after every change or after all of an instant.
    Every job that runs keeps what it has until a decision or its end changes it.
    """

    @property
    def name(self) -> str:
        """Name of the policy, as in the service's configuration."""

    @property
    def each_event(self) -> bool:
        """Whether it decides after every event, or once for all events of one instant."""

    @property
    def revisit_ns(self) -> int:
        """Time at which to be asked again even if nothing happens; 0 = no need."""

    @property
    def solver_ns(self) -> Sequence[int]:
        """Time of each round a solver was asked; empty for policies without one."""

    def attach(self, progress: Progress) -> None:
        """Called once before the first event."""

    def resources(self, nodes: int, spendable_uw: int) -> None:
        """Nodes of the pool, and power that jobs may add to the charge of idle nodes."""

    def submit(self, job: int, now_ns: int) -> None:
        """A job enters the queue."""

    def end(self, job: int, now_ns: int) -> None:
        """A running job has ended."""

    def decide(self, now_ns: int) -> Sequence[Decision]:
        """Starts, and running jobs whose nodes or cap change.

        The engine takes shrinks and lower caps first, so that all of them together must fit, not
        each in its turn. Must be pickled with its state, for a run that is stopped and resumed.
        """


@runtime_checkable
class DramScheduler(PoolScheduler, Protocol):
    """A scheduler that chooses DRAM caps too; asked for them after each of its decisions."""

    @property
    def dram_model(self) -> DramModel:
        """What a DRAM cap does to run times."""

    def dram_cap_uw(self, job: int) -> int:
        """DRAM cap of a node of a running job, microwatts; 0 = the machine's standing cap.

        It changes with decisions only: a job of which it alone changes is named again in one, with
        the nodes and the package cap it has.
        """
