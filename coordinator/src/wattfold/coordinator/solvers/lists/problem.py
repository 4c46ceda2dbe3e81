"""A queue and the machine it waits for, a plan of it, and what a plan is worth.

The problem of T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for
High-Performance Computers: jobs of identical units, nodes with several resources, what runs stays
where it is, and every job that waits gets a start and a node for each of its units. Beside that
there is power, of the whole machine and with a budget over time, and a job may run at one of
several caps.

Whoever builds a problem numbers nodes, kinds of nodes, resources and jobs; solvers know nothing
else. Times are nanoseconds of one clock, power is in microwatts, amounts are whole numbers of
whatever the builder counts. Nothing here solves anything; `feasibility` says whether a plan holds.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

NEVER = -1
"""The start of a job that a plan has no place for."""
YEAR_NS = 365 * 24 * 3600 * 1_000_000_000
"""A job without a place counts as one that starts so long after now."""
ENDLESS_NS = 2**62
"""A time after all others."""
UNLIMITED_UW = 2**60
"""The budget of a machine without one."""


class Spread(enum.IntEnum):
    """Where the units of a job may be: on any nodes, all on one, each on its own."""

    ANY = 0
    TOGETHER = 1
    APART = 2


class Node(NamedTuple):
    """A node as it is when none of the problem's jobs is there, running ones included."""

    amounts: tuple[int, ...]
    """Of each resource, in the order of all nodes and shapes."""
    kind: int = 0
    """What a unit draws depends on it."""


class Part(NamedTuple):
    """What somebody has of one node."""

    node: int
    amounts: tuple[int, ...]


class Running(NamedTuple):
    """What has started, up to its expected end, which is after now."""

    parts: tuple[Part, ...]
    power_uw: int
    end_ns: int


class Closing(NamedTuple):
    """Nodes that are closed for some jobs at times ``from_ns <= t < to_ns``."""

    nodes: tuple[int, ...]
    from_ns: int
    to_ns: int


class Budget(NamedTuple):
    """The power that jobs may use from a time on; running ones are charged to it."""

    from_ns: int
    power_uw: int


class Shape(NamedTuple):
    """What a job asks for. Equal ones are one: a solver tries each only once."""

    units: int
    amounts: tuple[int, ...]
    """Of one unit, which is on one node."""
    spread: Spread = Spread.ANY
    nodes: tuple[int, ...] | None = None
    """Those it may be on, ascending; None = all."""
    closings: tuple[int, ...] = ()
    """Those of the problem that concern it."""


class Option(NamedTuple):
    """A cap a job may run at. The one it would have without a budget comes first."""

    duration_ns: int
    """How long it is expected to run, above zero."""
    power_uw: tuple[int, ...] = ()
    """Of one unit, on each kind of node; empty = none."""
    stay_ns: int = 0
    """How long it may be there at most, which closings go by; 0 = its duration."""


class Job(NamedTuple):
    """A job that waits. ``key`` is its builder's; plans go by its index in the problem."""

    key: int
    shape: int
    options: tuple[Option, ...]
    submit_ns: int
    ewt_ns: int
    """The wait its queue expects: the unit that waits of its jobs are counted in."""
    wait_max_ns: int = 0
    """It is late after waiting for longer; 0 = never."""
    weight: float = 1.0
    rank_ns: int = 0
    """The run time that orders go by; 0 = the duration of its first option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What lateness counts beside waiting."""

    lateness: float = 1.0
    """Times the time a job is late, in expected waits of its queue."""
    late: float = 0.2
    """For each late job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """All there is to know for a plan from ``now_ns`` on."""

    now_ns: int
    nodes: tuple[Node, ...]
    shapes: tuple[Shape, ...]
    jobs: tuple[Job, ...]
    running: tuple[Running, ...] = ()
    closings: tuple[Closing, ...] = ()
    budgets: tuple[Budget, ...] = (Budget(0, UNLIMITED_UW),)
    """By time, the first from now or earlier on."""
    weights: Weights = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A start, an option and a node for each unit, of every job by its index.

    ``maker`` names how it was found. ``order`` is the list it was made from, if it was.
    """

    starts_ns: tuple[int, ...]
    """`NEVER` for a job without a place."""
    options: tuple[int, ...]
    nodes: tuple[tuple[int, ...], ...]
    """Of each job, ascending, one for every unit; empty without a place."""
    objective: float
    maker: str
    order: tuple[int, ...] = ()


class Improver(Protocol):
    """Something that may know a better plan.

    The answer is checked: one that is not feasible, or not better than the incumbent under
    `objective`, is left. The same arguments give the same answer.
    """

    @property
    def name(self) -> str:
        """For `Plan.maker` and for people."""

    def improve(self, problem: Problem, incumbent: Plan, seed: int, limit_s: float) -> Plan | None:
        """A better plan, or None if there is none within about so many seconds."""


def cost(job: Job, start_ns: int, weights: Weights, now_ns: int) -> float:
    """What the wait of one job costs.

    Objective (2) of the paper, the wait in expected waits of its queue, and its lateness.
    """
    if start_ns == NEVER:
        start_ns = now_ns + YEAR_NS
    wait_ns = float(start_ns - job.submit_ns)
    found = wait_ns / float(job.ewt_ns)
    late_ns = wait_ns - float(job.wait_max_ns)
    if job.wait_max_ns and late_ns > 0.0:
        found += weights.lateness * (late_ns / float(job.ewt_ns)) + weights.late
    return job.weight * found


def objective(problem: Problem, starts_ns: Sequence[int]) -> float:
    """The sum of `cost` over all jobs, in their order; what plans are to make small."""
    total = 0.0
    for job, start_ns in zip(problem.jobs, starts_ns, strict=True):
        total += cost(job, start_ns, problem.weights, problem.now_ns)
    return total
