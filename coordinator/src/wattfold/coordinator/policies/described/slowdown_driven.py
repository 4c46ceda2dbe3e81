"""What `policies.slowdown_driven` says of itself, and what simulated pools run of it."""

from __future__ import annotations

import math

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.described.backfilling import PASS_SETTINGS
from wattfold.coordinator.policies.descriptions import (
    Description,
    Place,
    PolicySetting,
    Pool,
    Values,
    Variant,
)

YES_NO = ("yes", "no")
_SIMULATOR = (Place.SIMULATOR,)


def most_slowdown(values: Values) -> float:
    """MAX_SLOWDOWN of the settings: infinite for 0 of ``max_slowdown``."""
    return float(values["max_slowdown"]) or math.inf


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.slowdown_driven import SlowdownDriven
    from wattfold.coordinator.policies.slowdown_driven_rules import Power

    return SlowdownDriven(
        max_slowdown=most_slowdown(values),
        dynamic=values["cutoff"] == "dynamic",
        mates=int(values["mates"]),
        looked_at=int(values["looked_at"]),
        sharing_factor=float(values["sharing_factor"]),
        benefit=values["benefit"] == "yes",
        protects=values["protects"] == "yes",
        least_gain=float(values["least_gain"]),
        contiguous=values["contiguous"] == "yes",
        free_nodes=values["free_nodes"] == "yes",
        mapped=int(values["mapped"]),
        tested=int(values["tested"]),
        power=Power(str(values["power"])),
        energy_weight=float(values["energy_weight"]),
        guests=int(values["guests"]),
    )


DESCRIPTION = Description(
    name="slowdown-driven",
    title="EASY; who would wait long starts now on cores that running jobs lend",
    audience="a site with many short jobs behind long ones that can run on fewer cores",
    citation=(
        "M. D'Amico, A. Jokanovic, J. Corbalan: Holistic Slowdown Driven Scheduling and Resource "
        "Management for Malleable Jobs. ICPP 2019."
    ),
    variants=(
        Variant(
            name="slowdown-driven",
            title="EASY with malleable backfill on cores that running jobs lend",
            service=_made,
            pool=Pool.SLOWDOWN_DRIVEN,
            starves_nobody=True,
        ),
    ),
    settings=(
        PolicySetting(
            key="max_slowdown",
            default=10.0,
            low=0.0,
            high=1e6,
            help="a job whose predicted slowdown would reach it lends nothing; 0 = all may",
        ),
        PolicySetting(
            key="cutoff",
            default="fixed",
            choices=("fixed", "dynamic"),
            help="dynamic: the mean predicted slowdown of running jobs in place of max_slowdown",
        ),
        PolicySetting(
            key="mates",
            default=2,
            low=1,
            high=4,
            help="running jobs that lend to one other at most",
        ),
        PolicySetting(
            key="guests",
            default=1,
            low=1,
            high=64,
            help="jobs that a running one lends to at a time, within its sharing factor",
        ),
        PolicySetting(
            key="looked_at",
            default=0,
            low=0,
            high=1000,
            help="possible mates that are looked at, the least slowed first; 0 = all",
        ),
        PolicySetting(
            key="sharing_factor",
            default=0.5,
            low=0.0,
            high=1.0,
            help="share of a running job's cores of a node that others may have at most",
        ),
        PolicySetting(
            key="benefit",
            default="yes",
            choices=YES_NO,
            help="no: share also where the job would end earlier by waiting, as the authors' code",
        ),
        PolicySetting(
            key="least_gain",
            default=0.0,
            low=0.0,
            high=1e6,
            help="with benefit: by more than so much must a job's predicted slowdown fall",
        ),
        PolicySetting(
            key="protects",
            default="yes",
            choices=YES_NO,
            help="no: mates may end so late that the first that waits starts later",
        ),
        PolicySetting(
            key="free_nodes",
            default="no",
            choices=YES_NO,
            help="whether free nodes may complete a combination of mates",
        ),
        PolicySetting(
            key="power",
            default="watts",
            choices=("any", "watts", "weigh"),
            help="watts: share only where no mate's cap goes down; weigh: and energy is worth it",
        ),
        PolicySetting(
            key="energy_weight",
            default=1.0,
            low=0.0,
            high=1e6,
            help="with weigh: slowdown that all the energy of a job's own run is worth",
        ),
        PolicySetting(
            key="contiguous",
            default="no",
            choices=YES_NO,
            help="whether the nodes of mates must be neighbours, as they are listed",
        ),
        PolicySetting(
            key="mapped",
            default=32,
            low=0,
            high=10_000,
            help="waiting jobs whose reservations count for when a later one would start",
        ),
        PolicySetting(
            key="tested",
            default=200,
            low=0,
            high=100_000,
            help="waiting jobs that are looked at for mates in each decision",
        ),
        PolicySetting(
            key="cores",
            default=16,
            low=1,
            high=1024,
            help="cores of a simulated node",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="ranks",
            default=1,
            low=1,
            high=1024,
            help="cores that a simulated job keeps of every node, one for each of its ranks",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="moldable",
            default=0.0,
            low=0.0,
            high=1.0,
            help="share of the simulated jobs that are not malleable which may start on less",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="check",
            default="no",
            choices=YES_NO,
            help="yes: after every decision look at all rules; a broken one ends the simulation",
            places=_SIMULATOR,
        ),
        *PASS_SETTINGS,
    ),
)
