"""The capacity allocation problem of ANDREAS: the jobs to run now, with their configurations.

F. Filippini, D. Ardagna, M. Lattuada, E. Amaldi, M. Ciavotta, M. Riedl, K. Materka, P. Skrzypek, F.
Magugliani, M. Cicala: ANDREAS, Artificial intelligence traiNing scheDuler foR accElerAted resource
clusterS. FiCloud 2021, Eq. (3):

    minimise  sum_j (w_j tau_j + rho w_j tauhat_j) + sum_{j,n} alpha_jn pi_jn

tau_j is the tardiness with the chosen configuration, tauhat_j the worst-case tardiness of a
postponed job, and pi_jn the cost of a job on its node. alpha_jn is 1 for the first job to end
there. In addition, an option may have a cost of its own, such as a restart from a snapshot.

In the paper, (4n) requires as many used nodes as there are nodes or jobs. Here a plan may not
postpone a job that has room. As the paper says, running a job is better than postponing it, and
jobs may share nodes.

An *option* of a job is a kind of nodes, or a node, with the needed GPUs and other resources, and
the remaining time of the job there. Options that meet the due date come first, sorted by cost. The
others follow, sorted by speed. This is the order of preference of the paper.
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
"""Node of an option for any node of its kind."""
POSTPONED = -1
"""Option of a job that does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobs:
    """J jobs. Costs are in EUR."""

    pressure_s: Floats
    """Lateness of the fastest option if it begins now; negative if it is early."""
    postponed_eur: Floats
    """rho w tauhat; for a running job including the restart that follows."""
    weight: Floats
    must: NDArray[np.bool_]
    """Whether it is placed in any case, before all others, because it keeps its own resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """O options, grouped by job and in order of preference."""

    first: Ints
    """J + 1: start of the options of each job."""
    kind: Ints
    node: Ints
    """`ANY`, or the only node."""
    amounts: Ints
    """O x R: GPUs first."""
    power_uw: Ints
    time_s: Floats
    turn_s: Floats
    """Key of the job of a node that counts its ``cost_eur``: the job with the minimum counts.

    It is the time, or its negative if the last job to end counts.
    """
    cost_eur: Floats
    """pi: cost if the job is the first to end on its node, or the node's cost until all ended."""
    own_eur: Floats
    """Cost in any case: the price of its tardiness, and other costs."""
    meets: Ints
    """J: number of options that meet the due date; they are the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingNodes:
    """N nodes with their free resources."""

    kind: Ints
    free: Ints
    """N x R: GPUs first."""


@dataclass(frozen=True)
class TrainingProblem:
    """The complete problem. Not to be changed."""

    jobs: TrainingJobs
    options: TrainingOptions
    nodes: TrainingNodes
    power_uw: int

    def __len__(self) -> int:
        return len(self.jobs.weight)

    @cached_property
    def gpus(self) -> int:
        """Number of free GPUs of all nodes."""
        return int(self.nodes.free[:, 0].sum()) if len(self.nodes.free) else 0

    def options_of(self, job: int) -> range:
        """Return the numbers of the options of a job."""
        return range(int(self.options.first[job]), int(self.options.first[job + 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The option of each job, or `POSTPONED`, and its node."""

    option: tuple[int, ...]
    node: tuple[int, ...]
    objective: float
    maker: str
    bound: float = 0.0
    """Lower bound on the objective of all plans, as far as it is known."""
    proven: bool = False


def objective(problem: TrainingProblem, option: Sequence[int], node: Sequence[int]) -> float:
    """Return Eq. (3) of a plan, in EUR. If two jobs have the same turn, the cheaper job counts."""
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


def faults(problem: TrainingProblem, plan: TrainingPlan) -> list[str]:
    """Return the faults of a plan; empty if it is valid."""
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


def has_room(problem: TrainingProblem, job: int, left: Ints, power_uw: int) -> bool:
    """Whether some option of a job fits into the remaining resources and power."""
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
