"""What the engine of a pool asks of those who know what jobs hold: counted nodes, or every node.

The engine has the time, the queue and the budget; holdings take decisions, know which nodes are
whose, what that draws and how fast the jobs are, and check that nothing is held twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wattfold.coordinator.policies.scheduler import Site
from wattfold.coordinator.simulation.pool.progress import Progress

Nodes = Any
"""Numbers of nodes, as a list or an array."""


class Holdings(Protocol):
    """Who has what of the machine. Must be pickled with its state."""

    @property
    def running(self) -> Progress:
        """The jobs that run, and the sums over them."""

    @property
    def jobs(self) -> Any:
        """What schedulers may ask: `Jobs`, or `NodeJobs` where holdings are by node."""

    @property
    def scaled(self) -> Mapping[int, int]:
        """Caps as decided of the jobs that have lower ones, for want of power."""

    @property
    def requeued(self) -> list[int]:
        """Jobs that were ended to wait again, of which their scheduler has not been told."""

    @property
    def unused_uw(self) -> int:
        """What nodes without a job draw together."""

    def pass_windows(self, now_ns: int) -> None:
        """Nodes go out of use, or come back; jobs that are in the way are requeued."""

    def site(self, spendable_uw: int) -> Site:
        """The machine as schedulers are told of it."""

    def take(self, decisions: Sequence[Any], now_ns: int) -> None:
        """Starts and changes. Raises SimulationError for what cannot be."""

    def end(self, job: int) -> None:
        """A job that has been taken from `running` gives back what it held."""

    def settle(self) -> None:
        """The end of an instant: nodes for who has none yet. Raises SimulationError."""

    def fit(self, power_uw: int, now_ns: int) -> None:
        """Caps as decided if jobs fit into so much above idle nodes, else scaled down alike."""

    def nodes_of(self, job: int) -> Nodes:
        """The nodes of a running job."""
