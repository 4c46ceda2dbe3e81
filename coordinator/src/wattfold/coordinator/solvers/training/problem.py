"""The capacity allocation problem of ANDREAS: who runs now, and with which configuration.

F. Filippini, D. Ardagna, M. Lattuada, E. Amaldi, M. Ciavotta, M. Riedl, K. Materka, P. Skrzypek,
F. Magugliani, M. Cicala: ANDREAS, Artificial intelligence traiNing scheDuler foR accElerAted
resource clusterS. FiCloud 2021, Eq. (3):

    minimise  sum_j (w_j tau_j + rho w_j tauhat_j) + sum_{j,n} alpha_jn pi_jn

tau_j is the tardiness with the configuration chosen, tauhat_j the worst-case tardiness of a job
that is postponed, pi_jn the cost of a job on its node, and alpha_jn is 1 for the first job to end
there. Beside that an option may have a cost of its own, as that of starting again from a snapshot.

Where the paper wants as many nodes used as there are, or jobs (4n), a plan here may not postpone a
job that has room: jobs are better run than postponed, as the paper says, and may share nodes.

An *option* of a job is a kind of nodes, or one node, with the GPUs and all else that it takes of
it, and the time that is left of the job there. Those that meet the due date come first, the
cheapest first; the others follow, the fastest first: the order in which the paper prefers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ANY = -1
"""Of an option: whichever node of its kind."""
POSTPONED = -1
"""The option of a job that does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """J jobs. Costs in EUR."""

    pressure_s: Floats
    """By how much the fastest option is late if it begins now; below zero if it is early."""
    postponed_eur: Floats
    """rho w tauhat, and what it costs a running job to be pre-empted."""
    weight: Floats
    must: NDArray[np.bool_]
    """It is placed in any case, before all others, as what it has is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """O options, those of a job together and in the order in which they are preferred."""

    first: Ints
    """J + 1: where the options of each job begin."""
    kind: Ints
    node: Ints
    """`ANY`, or the only node."""
    amounts: Ints
    """O x R: GPUs first."""
    power_uw: Ints
    time_s: Floats
    turn_s: Floats
    """Of the jobs of a node the one with the least counts its ``cost_eur``: the time, or that below
    zero, for the last to end."""
    cost_eur: Floats
    """pi: counts where the job is the first to end on its node; else what the node takes until the
    last does."""
    own_eur: Floats
    """Counts in any case: the price of its tardiness, and whatever else."""
    meets: Ints
    """J: so many of its options meet its due date; they are the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """N nodes of which so much is free."""

    kind: Ints
    free: Ints
    """N x R: GPUs first."""


@dataclass(frozen=True)
class Problem:
    """All of it. Not to be changed."""

    jobs: Jobs
    options: Options
    nodes: Nodes
    power_uw: int

    def __len__(self) -> int:
        return len(self.jobs.weight)

    @cached_property
    def gpus(self) -> int:
        """GPUs that are free, of all nodes."""
        return int(self.nodes.free[:, 0].sum()) if len(self.nodes.free) else 0

    def options_of(self, job: int) -> range:
        """The numbers of its options."""
        return range(int(self.options.first[job]), int(self.options.first[job + 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The option of each job, or `POSTPONED`, and its node."""

    option: tuple[int, ...]
    node: tuple[int, ...]
    objective: float
    maker: str
    bound: float = 0.0
    """No plan has a lower objective, as far as is known."""
    proven: bool = False


def objective(problem: Problem, option: Sequence[int], node: Sequence[int]) -> float:
    """Eq. (3) of a plan, EUR. Of two jobs that have the same turn the cheaper one counts."""
    jobs, options = problem.jobs, problem.options
    total = 0.0
    first: dict[int, tuple[float, float]] = {}
    for job, (chosen, where) in enumerate(zip(option, node, strict=True)):
        if chosen == POSTPONED:
            total += float(jobs.postponed_eur[job])
            continue
        total += float(options.own_eur[chosen])
        ends = float(options.turn_s[chosen]), float(options.cost_eur[chosen])
        first[where] = min(first.get(where, ends), ends)
    return total + sum(cost for _, cost in first.values())


def faults(problem: Problem, plan: Plan) -> list[str]:
    """What is wrong with a plan; empty where it is valid."""
    options, nodes, found = problem.options, problem.nodes, []
    left, power_uw = nodes.free.copy(), problem.power_uw
    musts_uw = 0
    for job, (chosen, where) in enumerate(zip(plan.option, plan.node, strict=True)):
        if chosen == POSTPONED:
            continue
        if chosen not in problem.options_of(job):
            found.append(f"job {job} has an option of another job")
        if options.node[chosen] not in (ANY, where) or options.kind[chosen] != nodes.kind[where]:
            found.append(f"job {job} is on a node that is not in its option")
        left[where] -= options.amounts[chosen]
        power_uw -= int(options.power_uw[chosen])
        musts_uw += int(options.power_uw[chosen]) if problem.jobs.must[job] else 0
    if (left < 0).any():
        found.append(
            f"nodes {np.flatnonzero((left < 0).any(axis=1)).tolist()} hold more than their "
            "resources"
        )
    if power_uw < min(0, problem.power_uw - musts_uw):
        found.append(f"{-power_uw} uW are missing")
    for job, chosen in enumerate(plan.option):
        if chosen != POSTPONED:
            continue
        if problem.jobs.must[job]:
            found.append(f"job {job} is postponed but must run")
        elif has_room(problem, job, left, power_uw):
            found.append(f"job {job} is postponed although it has room")
    return found


def has_room(problem: Problem, job: int, left: Ints, power_uw: int) -> bool:
    """Whether some option of a job fits into what is left of the nodes and the power."""
    options = problem.options
    for one in problem.options_of(job):
        if options.power_uw[one] > power_uw:
            continue
        fits = (left >= options.amounts[one]).all(axis=1)
        own = problem.nodes.kind == options.kind[one]
        if options.node[one] != ANY:
            own = np.arange(len(own)) == options.node[one]
        if (fits & own).any():
            return True
    return False
