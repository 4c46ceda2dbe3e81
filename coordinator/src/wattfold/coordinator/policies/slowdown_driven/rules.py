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
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from wattfold.coordinator.models.amdahl import best_lent, delay
from wattfold.coordinator.policies.backfill.pass_settings import PassSettings
from wattfold.coordinator.policies.description import IN_SIMULATIONS, setting
from wattfold.coordinator.policies.slowdown_driven.choice import (
    Guest,
    Lender,
    MateChoice,
    MateEnd,
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


@dataclass(frozen=True, kw_only=True)
class SharingSettings(PassSettings):
    """Settings of the policy.

    ``least_gain`` counts in requested times: the job ends earlier by more than this multiple. The
    neighbours of ``contiguous`` are by number or in the order of the site. On counted nodes,
    ``guests`` is 1.
    """

    max_slowdown: float = setting(
        10.0,
        help="predicted slowdown at which a job no longer lends cores; 0 = no limit",
        within=(0.0, 1e6),
    )
    cutoff: str = setting(
        "fixed",
        help="dynamic: the mean predicted slowdown of the running jobs replaces max_slowdown",
        choices=("fixed", "dynamic"),
    )
    mates: int = setting(
        2, help="maximum number of running jobs that lend cores to one other job", within=(1, 4)
    )
    guests: int = setting(
        1,
        help="maximum number of jobs that borrow from a running job at a time, within its "
        "sharing factor",
        within=(1, 64),
    )
    looked_at: int = setting(
        0,
        help="maximum number of possible mates that are considered, in order of slowdown; 0 = all",
        within=(0, 1000),
    )
    mate_end: MateEnd = setting(  # noqa: RUF009 - a field
        MateEnd.BEFORE,
        help="latest end of a job that borrows: before = the predicted end of each lender "
        "without this loan; after = with the delay that this loan causes",
    )
    sharing_factor: float = setting(
        0.5,
        help="maximum fraction of the cores of a running job on a node that other jobs may borrow",
        within=(0.0, 1.0),
    )
    benefit: bool = setting(
        default=True,
        help="no: a job shares even if it would end earlier by waiting, as in the code of "
        "the authors",
    )
    least_gain: float = setting(
        0.0,
        help="with benefit = yes: minimum reduction of the predicted slowdown by sharing",
        within=(0.0, 1e6),
    )
    protects: bool = setting(
        default=True, help="no: mates may end so late that the head of the queue starts later"
    )
    free_nodes: bool = setting(default=False, help="yes: free nodes may complete a set of mates")
    power: PowerSharing = setting(  # noqa: RUF009 - a field
        PowerSharing.WATTS,
        help="any: sharing may lower caps; watts: a job shares only if no cap of a mate is "
        "lowered; weigh: as watts, and energy is weighed against slowdown",
    )
    energy_weight: float = setting(
        1.0,
        help="with power = weigh: slowdown that saving all the energy of the job alone is worth",
        within=(0.0, 1e6),
    )
    contiguous: bool = setting(
        default=False, help="yes: the nodes of mates must be neighbours in the list of nodes"
    )
    mapped: int = setting(
        32,
        help="number of waiting jobs whose reservations are used to predict the start of a later "
        "job",
        within=(0, 10_000),
    )
    tested: int = setting(
        200,
        help="number of waiting jobs for which mates are searched in each decision",
        within=(0, 100_000),
    )
    cores: int = setting(
        16, help="number of cores of a simulated node", within=(1, 1024), places=IN_SIMULATIONS
    )
    ranks: int = setting(
        1,
        help="number of cores that a simulated job keeps on every node, one for each rank",
        within=(1, 1024),
        places=IN_SIMULATIONS,
    )
    moldable: float = setting(
        0.0,
        help="fraction of the non-malleable simulated jobs that may start on fewer cores",
        within=(0.0, 1.0),
        places=IN_SIMULATIONS,
    )
    check: bool = setting(
        default=False,
        help="yes: check all rules after every decision; a violation ends the simulation",
        places=IN_SIMULATIONS,
    )

    @property
    def dynamic(self) -> bool:
        """Whether MAX_SLOWDOWN is the mean predicted slowdown of running jobs (DynAVGSD)."""
        return self.cutoff == "dynamic"

    @cached_property
    def limits(self) -> MateLimits:
        """Limits of the choice of mates; a fixed MAX_SLOWDOWN, which may be infinite."""
        return MateLimits(
            most_slowdown=self.max_slowdown or math.inf,
            mates=self.mates,
            looked_at=self.looked_at,
            mate_end=self.mate_end,
        )


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
