"""Whether sharing is worth it: energy saved against slowdown, for slowdown-driven's ``weigh``.

A job on nodes of its own takes P for R: its watts above those of idle nodes, which it lights up.
Beside mates it takes less for longer, they take less meanwhile and are there for longer after it:

    E = P g/C T + sum_i P_i (l_i - T g_i/C_i)

with T its time on g of C cores, l_i how much later mate i ends and g_i what it gives. Where all are
slowed in proportion to cores this is P R, so nothing is saved. It is less where jobs lose
less than in proportion (`models.amdahl`): the same watts do more work.

The share of P R that is saved, times what it is worth, must exceed the slowdown it costs: that of
the job, by when it would end without sharing, and those of its mates (our own; the paper weighs
neither).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import delay
from wattfold.coordinator.policies.slowdown_driven_choice import (
    Guest,
    Lender,
    NodeLender,
    NodePick,
    Pick,
    later,
)


class Mate(NamedTuple):
    """A mate while it lends. Times in one unit, power in one unit."""

    power: int
    """Of the cores it has."""
    asked: int
    later: int
    """How much later it ends."""
    given: int
    """Cores it gives,"""
    cores: int
    """and has."""


class Beside(NamedTuple):
    """A job beside mates."""

    power: int
    """On all it asks for."""
    asked: int
    takes: int
    has: int
    """Cores, all in all,"""
    cores: int
    """of so many."""


def saved_share(job: Beside, mates: Iterable[Mate]) -> float:
    """What sharing saves of the energy of the job's run on nodes of its own; 0 if that is none."""
    own = job.power * job.asked
    shared = job.power * job.has * job.takes / job.cores
    for mate in mates:
        shared += mate.power * (mate.later - job.takes * mate.given / mate.cores)
    return 1 - shared / own if own else 0.0


def worth(job: Beside, mates: Iterable[Mate], sooner: int, weight: float) -> float:
    """What a job's sharing gains, in slowdown; above 0 it is worth it.

    ``sooner``: by how much it ends before it would without, below zero if it ends later.
    """
    mates = list(mates)
    lost = sum(mate.later / (mate.asked or 1) for mate in mates) - sooner / (job.asked or 1)
    return weight * saved_share(job, mates) - lost


def worth_of(
    pick: Pick, guest: Guest, lenders: Iterable[Lender], sooner: int, weight: float
) -> float:
    """`worth` of a job on the whole nodes of its mates, and free ones."""
    cores, given = guest.cores, pick.cores
    job = Beside(
        power=guest.power_uw * guest.nodes,
        asked=guest.asked,
        takes=pick.takes,
        has=(guest.nodes - pick.free) * given + pick.free * cores,
        cores=guest.nodes * cores,
    )
    mates = [
        Mate(one.power_uw * one.nodes, one.asked, later(one, guest, given), given, cores - one.lent)
        for one in lenders
    ]
    return worth(job, mates, sooner, weight)


def worth_on_node(
    pick: NodePick,
    guest: Guest,
    mates: Iterable[tuple[NodeLender, int]],
    sooner: int,
    weight: float,
) -> float:
    """`worth` of a job on cores of one node, by the cores that each mate gives."""
    job = Beside(guest.power_uw, guest.asked, pick.takes, pick.cores, guest.cores)
    lending = [
        Mate(
            one.power_uw,
            one.asked,
            delay(pick.takes, one.cores, given, one.serial_ppm, one.lent),
            given,
            one.cores - one.lent,
        )
        for one, given in mates
    ]
    return worth(job, lending, sooner, weight)
