"""Interface between the engine of a pool and the holdings of its jobs, counted or by node.

The engine has the time, the queue and the budget. Holdings apply decisions, know the nodes, power
and speed of each job, and check that no core is held twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from wattfold.coordinator.policies.port import Decision, Site
from wattfold.simulator.engine.running_jobs.progress import Progress

Nodes = Any
"""Numbers of nodes, as a list or an array."""


class Holdings(Protocol):
    """Resources of the machine by job. Must be pickled with its state."""

    @property
    def running(self) -> Progress:
        """The running jobs, and the sums over them."""

    @property
    def jobs(self) -> Any:
        """The jobs as schedulers see them: `NodeJobInformation` for holdings by node."""

    @property
    def scaled(self) -> Mapping[int, int]:
        """Decided caps of the jobs whose caps are lower for lack of power."""

    @property
    def requeued(self) -> list[int]:
        """Requeued jobs that their scheduler does not know of yet."""

    @property
    def unused_uw(self) -> int:
        """Power of all nodes without a job."""

    def pass_windows(self, now_ns: int) -> None:
        """Take nodes out of use or return them; requeue the jobs on nodes that go out of use."""

    def site(self, spendable_uw: int) -> Site:
        """Return the machine as schedulers see it."""

    def take(self, decision: Decision, now_ns: int) -> None:
        """Apply starts, changes and preemptions. Raises SimulationError for an invalid decision."""

    def end(self, job: int) -> None:
        """Free the resources of a job that was removed from `running`."""

    def settle(self) -> None:
        """Close an instant: assign nodes to jobs that lack them. Raises SimulationError."""

    def fit(self, power_uw: int, now_ns: int) -> None:
        """Set the decided caps if they fit into this power above idle, else scale them down."""

    def nodes_of(self, job: int) -> Nodes:
        """Return the nodes of a running job."""
