"""Settings of slowdown-driven malleable backfill, how jobs share, and the value of sharing.

The value decides for ``power = "weigh"``: saved energy against slowdown. A job on its own nodes
draws P for R: the power above idle nodes, which it activates. Next to mates it draws less for
longer. Its mates draw less meanwhile and run longer afterwards:

    E = P g/C T + sum_i P_i (l_i - T g_i/C_i)

T is its time on g of C cores, l_i the delay of mate i, and g_i the cores that the mate gives. If
all jobs slow down in proportion to cores, E equals P R, so no energy is saved. E is less if jobs
lose less than in proportion (`models.amdahl`): the same power does more work.

The saved share of P R, times its value, must exceed the caused slowdown. This is the slowdown of
the job, relative to its end without sharing, plus the slowdowns of its mates. (This rule is our
own; the paper weighs neither.)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import best_lent, delay
from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    Lender,
    MateChoice,
    MateLimits,
    NodeLender,
    NodePick,
    later,
)


class PowerSharing(enum.StrEnum):
    """Treatment of power when jobs share nodes."""

    ANY = "any"
    """Power never prevents sharing: caps of guest and mates are lowered if needed."""
    WATTS = "watts"
    """A job shares only if there is enough power for it without lowering a mate's cap."""
    WEIGH = "weigh"
    """As ``watts``, and saved energy is weighed against slowdown, even if nodes are free."""


class NodeSharing(NamedTuple):
    """How a job shares nodes."""

    lends: bool
    """Malleable: it may be shrunk and expanded while it runs."""
    borrows: bool
    """Moldable or malleable: it may start on fewer cores than requested."""
    least: int = 1
    """Minimum cores on each of its nodes: one for each of its ranks."""
    serial_ppm: int | None = None
    """Share of its time that fewer cores do not stretch (`models.amdahl`); None = unknown."""
    power_uw: int = 0
    """Additional power of each of its nodes; used if energy is weighed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules:
    """Settings of the policy.

    ``dynamic``: MAX_SLOWDOWN is the mean predicted slowdown of the running jobs (DynAVGSD).
    ``benefit``: a job must be predicted to end earlier than by the static schedule, by more than
    ``least_gain`` times its requested time. So ``least_gain`` is the minimum reduction of its
    predicted slowdown. ``protects``: the ends of mates must not delay the head of the queue beyond
    its reserved start. ``contiguous``: the nodes of mates must be neighbours, by number or in the
    order of the site. ``free_nodes``: free nodes may complete a combination. ``mapped``: number of
    waiting jobs ahead whose reservations the static schedule includes. ``tested``: number of
    waiting jobs for which mates are searched, in order. ``energy_weight``: value of saving all the
    energy of a job's own run, in slowdown, if energy is weighed. ``guests``: maximum number of jobs
    that a running job lends to at a time, on named nodes; on counted nodes it is one.
    """

    limits: MateLimits = field(default_factory=MateLimits)
    dynamic: bool = False
    factor: float = 0.5
    benefit: bool = True
    least_gain: float = 0.0
    protects: bool = True
    contiguous: bool = False
    free_nodes: bool = False
    mapped: int = 32
    tested: int = 200
    power: PowerSharing = PowerSharing.WATTS
    energy_weight: float = 1.0
    guests: int = 1


def lent_at_most(factor: float, cores: int, serial_ppm: int | None) -> int:
    """Return the cores of a node that a job lends, by the sharing factor and its known speed.

    A job with a large loss lends at most half of its cores; more requires a larger factor.
    """
    most = int(factor * cores)
    return most if serial_ppm is None else min(most, best_lent(cores, serial_ppm))


class Mate(NamedTuple):
    """A mate while it lends. Times in one unit, power in one unit."""

    power: int
    """Power of its cores."""
    asked: int
    later: int
    """Its delay."""
    given: int
    """Number of cores that it gives."""
    cores: int
    """Number of cores that it has before it gives."""


class SharedStart(NamedTuple):
    """A job next to mates."""

    power: int
    """Power of all its requested cores."""
    asked: int
    takes: int
    has: int
    """Total number of its cores."""
    cores: int
    """Total number of its requested cores."""


def saved_share(job: SharedStart, mates: Iterable[Mate]) -> float:
    """Return the share of energy that sharing saves, relative to a run on its own nodes.

    It is 0 if the run on its own nodes needs no energy.
    """
    own = job.power * job.asked
    shared = job.power * job.has * job.takes / job.cores
    for mate in mates:
        shared += mate.power * (mate.later - job.takes * mate.given / mate.cores)
    return 1 - shared / own if own else 0.0


def worth(job: SharedStart, mates: Iterable[Mate], sooner: int, weight: float) -> float:
    """Return the gain of sharing, in slowdown; sharing is worth it above 0.

    ``sooner``: how much earlier the job ends than without sharing; negative if it ends later.
    """
    mates = list(mates)
    lost = sum(mate.later / (mate.asked or 1) for mate in mates) - sooner / (job.asked or 1)
    return weight * saved_share(job, mates) - lost


def worth_of(
    pick: MateChoice, guest: Guest, lenders: Iterable[Lender], sooner: int, weight: float
) -> float:
    """Return `worth` of a job on the whole nodes of its mates, and free nodes."""
    cores, given = guest.cores, pick.cores
    job = SharedStart(
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
    """Return `worth` of a job on cores of one node, by the cores that each mate gives."""
    job = SharedStart(guest.power_uw, guest.asked, pick.takes, pick.cores, guest.cores)
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
