"""Construction of a problem from jobs and configurations: tardiness, pressures and order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.training.problem import (
    Floats,
    Ints,
    TrainingJobs,
    TrainingNodes,
    TrainingOptions,
    TrainingProblem,
)

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """Weights of the terms of the objective."""

    rho: float = 100.0
    """Weight of the worst-case tardiness of postponed jobs; the tardiness of others counts 1."""
    interval_s: float = 300.0
    """H: maximum time for which a job is postponed before the next decision."""
    others: float = 0.0
    """Share of the cost of a job that counts if it is not the first to end on its node."""
    nodes: bool = False
    """Whether energy counts as it is paid, with ``others`` ignored.

    The energy of a node by itself counts once, until the last of its jobs has ended. Each job adds
    its own energy. A postponed job counts with its minimum cost, because this cost is only
    deferred.
    """
    haste: float = 0.0
    """Share of the cost per second of tardiness that counts per second until the end of a job."""
    worst_case: bool = True
    """Whether postponed jobs are assumed to run in their slowest configuration, as in the paper.

    Otherwise they run in their fastest configuration, and their tardiness counts without rho.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """J jobs. Times count from now."""

    due_s: Floats
    weight_eur_s: Floats
    """Cost of a second of tardiness."""
    must: Bools
    restart_s: float = 0.0
    """The longest restart of a preemptable job, which is the minimum assumed wait.

    An earlier decision would be useless if every other decision costs a restart.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """O options as in `TrainingOptions`, in any order; ``job`` is the job of each option."""

    job: Ints
    kind: Ints
    node: Ints
    amounts: Ints
    power_uw: Ints
    time_s: Floats
    cost_eur: Floats
    node_eur: Floats
    """The part of the cost that is due to the node by itself."""
    stays: Bools
    """Whether it is the current configuration of a running job, which needs no restart.

    Its other options begin with a restart, which delays it as far as it has no slack, and takes
    energy.
    """
    last: Bools
    """Whether it is used only if no other option has room."""


def built(
    context: RequestContext,
    listed: Configurations,
    nodes: TrainingNodes,
    power_uw: int,
    weighing: Weighing = Weighing(),
) -> tuple[TrainingProblem, Ints]:
    """Return the problem, and the indices of its options among those listed, by preference."""
    count, job = len(context.due_s), listed.job
    due_s, weight = context.due_s[job], context.weight_eur_s[job]
    meets = (listed.time_s < due_s) & ~listed.last
    by = np.where(meets, listed.cost_eur, listed.time_s)
    order = np.lexsort((by, ~meets, listed.last, job))
    late_eur = weight * np.maximum(listed.time_s - due_s, 0.0)
    shared_eur = (1.0 - weighing.others) * listed.cost_eur
    if weighing.nodes:
        shared_eur = listed.node_eur
    own = late_eur + listed.cost_eur - shared_eur
    own += weighing.haste * weight * listed.time_s
    usual = ~listed.last | np.isin(job, np.setdiff1d(job, job[~listed.last]))
    # A postponed job restarts, even if it runs now.
    starts = usual & ~listed.stays
    starts |= usual & np.isin(job, np.setdiff1d(job, job[starts]))
    fastest = _minima(count, job[usual], listed.time_s[usual])
    next_s, slowest = _minima(count, job[starts], listed.time_s[starts]), np.zeros(count)
    np.maximum.at(slowest, job[starts], listed.time_s[starts])
    wait_s = max(weighing.interval_s, context.restart_s)
    late_s = np.maximum(wait_s + slowest - context.due_s, 0.0) * weighing.rho
    if not weighing.worst_case:
        late_s = np.maximum(wait_s + next_s - context.due_s, 0.0)
    put_off = np.zeros(count)
    if weighing.nodes:
        put_off = _minima(count, job[starts], listed.cost_eur[starts])
    put_off += weighing.haste * context.weight_eur_s * (wait_s + next_s)
    turn = -1.0 if weighing.nodes else 1.0
    problem = TrainingProblem(
        jobs=TrainingJobs(
            pressure_s=fastest - context.due_s,
            postponed_eur=context.weight_eur_s * late_s + put_off,
            weight=context.weight_eur_s,
            must=context.must,
        ),
        options=TrainingOptions(
            first=np.searchsorted(job[order], np.arange(count + 1)).astype(np.int64),
            kind=listed.kind[order],
            node=listed.node[order],
            amounts=listed.amounts[order],
            power_uw=listed.power_uw[order],
            time_s=listed.time_s[order],
            turn_s=turn * listed.time_s[order],
            cost_eur=shared_eur[order],
            own_eur=own[order],
            meets=np.bincount(job[meets], minlength=count).astype(np.int64),
        ),
        nodes=nodes,
        power_uw=power_uw,
    )
    return problem, order


def _minima(count: int, job: Ints, values: Floats) -> Floats:
    """Return the minimum value of each job; 0 for jobs without options, which must be postponed."""
    least = np.full(count, np.inf)
    np.minimum.at(least, job, values)
    least[np.isinf(least)] = 0.0
    return least
