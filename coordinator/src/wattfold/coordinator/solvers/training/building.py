"""A problem of what is known of jobs and their configurations: tardiness, pressures, the order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wattfold.coordinator.solvers.training.problem import (
    Floats,
    Ints,
    Jobs,
    Nodes,
    Options,
    Problem,
)

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """What counts how much in the objective."""

    rho: float = 100.0
    """Worst-case tardiness of those that are postponed, in times of that of those that run."""
    interval_s: float = 300.0
    """H: how long a job is postponed at most before it is looked at again."""
    others: float = 0.0
    """The share of its cost that counts of a job that is not the first to end on its node."""
    nodes: bool = False
    """Whether energy counts as it is paid: what a node takes by itself once, until the last of its
    jobs has ended, and what each job adds to that. Then ``others`` does not count, and a job that
    is postponed counts with the least that it can be run for, as that is only put off."""
    haste: float = 0.0
    """Of what a second of its tardiness costs so much counts for every second until a job ends."""
    worst_case: bool = True
    """Whether postponed jobs are taken to run in their slowest configuration then, as in the paper;
    else in their fastest, and that tardiness counts as any other, without rho."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """J jobs. Times count from now."""

    due_s: Floats
    weight_eur_s: Floats
    """What a second of tardiness costs."""
    must: Bools
    preempted_eur: Floats
    """What it costs by itself to postpone them: of running ones, what they lose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """O options as in `problem.Options`, in any order; ``job`` says whose."""

    job: Ints
    kind: Ints
    node: Ints
    amounts: Ints
    power_uw: Ints
    time_s: Floats
    cost_eur: Floats
    node_eur: Floats
    """What of the cost is that of the node by itself."""
    loss_eur: Floats
    """What it costs beside that to have this one: of a running job, to leave another."""
    last: Bools
    """Only taken where no other has room."""


def built(
    asking: Asking,
    listed: Configurations,
    nodes: Nodes,
    power_uw: int,
    weighing: Weighing = Weighing(),
) -> tuple[Problem, Ints]:
    """The problem; and which of those listed its options are, in the order they are preferred."""
    count, job = len(asking.due_s), listed.job
    due_s, weight = asking.due_s[job], asking.weight_eur_s[job]
    meets = (listed.time_s < due_s) & ~listed.last
    by = np.where(meets, listed.cost_eur + listed.loss_eur, listed.time_s)
    order = np.lexsort((by, ~meets, listed.last, job))
    late_eur = weight * np.maximum(listed.time_s - due_s, 0.0)
    shared_eur = (1.0 - weighing.others) * listed.cost_eur
    if weighing.nodes:
        shared_eur = listed.node_eur
    own = late_eur + listed.loss_eur + listed.cost_eur - shared_eur
    own += weighing.haste * weight * listed.time_s
    usual = ~listed.last | np.isin(job, np.setdiff1d(job, job[~listed.last]))
    fastest, slowest = np.full(count, np.inf), np.zeros(count)
    np.minimum.at(fastest, job[usual], listed.time_s[usual])
    np.maximum.at(slowest, job[usual], listed.time_s[usual])
    fastest[np.isinf(fastest)] = 0.0  # Without options: it cannot be but postponed.
    again_s = weighing.interval_s
    late_s = np.maximum(again_s + slowest - asking.due_s, 0.0) * weighing.rho
    if not weighing.worst_case:
        late_s = np.maximum(again_s + fastest - asking.due_s, 0.0)
    put_off = np.zeros(count)
    if weighing.nodes:
        put_off = np.full(count, np.inf)
        np.minimum.at(put_off, job[usual], listed.cost_eur[usual])
        put_off[np.isinf(put_off)] = 0.0
    put_off += weighing.haste * asking.weight_eur_s * (again_s + fastest)
    turn = -1.0 if weighing.nodes else 1.0
    problem = Problem(
        jobs=Jobs(
            pressure_s=fastest - asking.due_s,
            postponed_eur=asking.weight_eur_s * late_s + asking.preempted_eur + put_off,
            weight=asking.weight_eur_s,
            must=asking.must,
        ),
        options=Options(
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
