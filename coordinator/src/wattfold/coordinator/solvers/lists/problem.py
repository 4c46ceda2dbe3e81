"""A queue with its machine, a plan for it, and the value of a plan.

This is the problem of T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for
High-Performance Computers. Jobs consist of identical units, nodes have several resources, and
running jobs stay in place. Every waiting job gets a start and a node for each of its units.
Extensions are the power of the whole machine with a budget over time, and several possible caps for
a job.

The builder of a problem numbers nodes, kinds of nodes, resources and jobs; solvers know nothing
else. Times are nanoseconds of one clock, power is in microwatts, amounts are integers in units of
the builder. This module solves nothing; `feasibility` checks plans.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

NEVER = -1
"""Start of a job that has no place in a plan."""
YEAR_NS = 365 * 24 * 3600 * 1_000_000_000
"""A job without a place counts as starting this long after now."""
ENDLESS_NS = 2**62
"""A time after all others."""
UNLIMITED_UW = 2**60
"""Budget of a machine without a power limit."""


class NodeSpread(enum.IntEnum):
    """Distribution of the units of a job: on any nodes, all on one, each on its own."""

    ANY = 0
    TOGETHER = 1
    APART = 2


class ProblemNode(NamedTuple):
    """A node as it is without any of the problem's jobs, including running jobs."""

    amounts: tuple[int, ...]
    """Amount of each resource, in the common order of nodes and shapes."""
    kind: int = 0
    """Kind of node; the power of a unit depends on it."""


class NodePart(NamedTuple):
    """Amounts that a running job has on a node."""

    node: int
    amounts: tuple[int, ...]


class Running(NamedTuple):
    """A running job, up to its expected end, which is after now."""

    parts: tuple[NodePart, ...]
    power_uw: int
    end_ns: int


class Closing(NamedTuple):
    """Nodes that are closed for some jobs at times ``from_ns <= t < to_ns``."""

    nodes: tuple[int, ...]
    from_ns: int
    to_ns: int


class Budget(NamedTuple):
    """Power that jobs may use from a time on, including running jobs."""

    from_ns: int
    power_uw: int


class Shape(NamedTuple):
    """Request of a job. Jobs with equal requests share a shape: a solver tries each only once."""

    units: int
    amounts: tuple[int, ...]
    """Amounts of a unit, which is on a single node."""
    spread: NodeSpread = NodeSpread.ANY
    nodes: tuple[int, ...] | None = None
    """Allowed nodes, ascending; None = all."""
    closings: tuple[int, ...] = ()
    """Numbers of the problem's closings that apply."""


class Option(NamedTuple):
    """A cap at which a job may run. The cap without a power budget comes first."""

    duration_ns: int
    """Expected run time, above zero."""
    power_uw: tuple[int, ...] = ()
    """Power of a unit on each kind of node; empty = none."""
    stay_ns: int = 0
    """Maximum time on its nodes, which closings take into account; 0 = its duration."""


class ProblemJob(NamedTuple):
    """A waiting job. ``key`` belongs to the builder; plans use its index in the problem."""

    key: int
    shape: int
    options: tuple[Option, ...]
    submit_ns: int
    ewt_ns: int
    """Expected wait in its queue: the unit in which its wait is counted."""
    wait_max_ns: int = 0
    """Wait after which it is late; 0 = never."""
    weight: float = 1.0
    rank_ns: int = 0
    """Run time for list orders; 0 = the duration of its first option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveWeights:
    """Weights of lateness relative to waiting."""

    lateness: float = 1.0
    """Factor of the time that a job is late, in expected waits of its queue."""
    late: float = 0.2
    """Cost of each late job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProblem:
    """All inputs of a plan from ``now_ns`` on."""

    now_ns: int
    nodes: tuple[ProblemNode, ...]
    shapes: tuple[Shape, ...]
    jobs: tuple[ProblemJob, ...]
    running: tuple[Running, ...] = ()
    closings: tuple[Closing, ...] = ()
    budgets: tuple[Budget, ...] = (Budget(0, UNLIMITED_UW),)
    """Budgets ordered by time, the first from now or earlier on."""
    weights: ObjectiveWeights = ObjectiveWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlan:
    """A start, an option and a node for each unit, for every job by its index.

    ``maker`` names the method that found it. ``order`` is the list it was made from, if any.
    """

    starts_ns: tuple[int, ...]
    """Start of each job; `NEVER` for a job without a place."""
    options: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]
    """Nodes of each job, ascending, one for every unit; empty without a place."""
    objective: float
    maker: str
    order: tuple[int, ...] = ()


class Improver(Protocol):
    """A method that may find a better plan.

    The answer is checked: a plan that is infeasible, or not better than the incumbent under
    `objective`, is dropped. The same arguments give the same answer.
    """

    @property
    def name(self) -> str:
        """The name for `QueuePlan.maker` and for users."""

    def improve(
        self, problem: QueueProblem, incumbent: QueuePlan, seed: int, limit_s: float
    ) -> QueuePlan | None:
        """Return a better plan, or None if none is found within about ``limit_s`` seconds."""


def cost(job: ProblemJob, start_ns: int, weights: ObjectiveWeights, now_ns: int) -> float:
    """Return the cost of the wait of a job.

    It is objective (2) of the paper, the wait in expected waits of its queue, plus its lateness.
    """
    if start_ns == NEVER:
        start_ns = now_ns + YEAR_NS
    wait_ns = float(start_ns - job.submit_ns)
    found = wait_ns / float(job.ewt_ns)
    late_ns = wait_ns - float(job.wait_max_ns)
    if job.wait_max_ns and late_ns > 0.0:
        found += weights.lateness * (late_ns / float(job.ewt_ns)) + weights.late
    return job.weight * found


def objective(problem: QueueProblem, starts_ns: Sequence[int]) -> float:
    """Return the sum of `cost` over all jobs, in their order; plans minimise it."""
    total = 0.0
    for job, start_ns in zip(problem.jobs, starts_ns, strict=True):
        total += cost(job, start_ns, problem.weights, problem.now_ns)
    return total
