"""Description of `policies.slowdown_driven.policy`, and its settings in simulated pools."""

from __future__ import annotations

import math

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.backfill.pass_settings import PASS_SETTINGS
from wattfold.coordinator.policies.description import (
    Description,
    PolicySetting,
    PolicyVariant,
    Pool,
    SettingScope,
    Values,
)

YES_NO = ("yes", "no")
_SIMULATOR = (SettingScope.SIMULATOR,)


def most_slowdown(values: Values) -> float:
    """Return MAX_SLOWDOWN of the settings; ``max_slowdown`` 0 means infinite."""
    return float(values["max_slowdown"]) or math.inf


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.slowdown_driven.choice import MateEnd
    from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
    from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing

    return SlowdownDriven(
        max_slowdown=most_slowdown(values),
        dynamic=values["cutoff"] == "dynamic",
        mates=int(values["mates"]),
        looked_at=int(values["looked_at"]),
        mate_end=MateEnd(str(values["mate_end"])),
        sharing_factor=float(values["sharing_factor"]),
        benefit=values["benefit"] == "yes",
        protects=values["protects"] == "yes",
        least_gain=float(values["least_gain"]),
        contiguous=values["contiguous"] == "yes",
        free_nodes=values["free_nodes"] == "yes",
        mapped=int(values["mapped"]),
        tested=int(values["tested"]),
        power=PowerSharing(str(values["power"])),
        energy_weight=float(values["energy_weight"]),
        guests=int(values["guests"]),
    )


DESCRIPTION = Description(
    name="slowdown-driven",
    title="EASY backfill that starts waiting jobs on cores borrowed from running jobs",
    audience="sites with many short jobs behind long jobs that can run on fewer cores",
    fallback="in-turn",
    citation=(
        "M. D'Amico, A. Jokanovic, J. Corbalan: Holistic Slowdown Driven Scheduling and Resource "
        "Management for Malleable Jobs. ICPP 2019."
    ),
    variants=(
        PolicyVariant(
            name="slowdown-driven",
            title="EASY with malleable backfill on borrowed cores",
            service=_made,
            pool=Pool.SLOWDOWN_DRIVEN,
            starves_nobody=True,
            by_name="on nodes with names, the ends of running jobs are predicted from their real "
            "progress",
        ),
    ),
    settings=(
        PolicySetting(
            key="max_slowdown",
            default=10.0,
            low=0.0,
            high=1e6,
            help="predicted slowdown at which a job no longer lends cores; 0 = no limit",
        ),
        PolicySetting(
            key="cutoff",
            default="fixed",
            choices=("fixed", "dynamic"),
            help="dynamic: the mean predicted slowdown of the running jobs replaces max_slowdown",
        ),
        PolicySetting(
            key="mates",
            default=2,
            low=1,
            high=4,
            help="maximum number of running jobs that lend cores to one other job",
        ),
        PolicySetting(
            key="guests",
            default=1,
            low=1,
            high=64,
            help="maximum number of jobs that borrow from a running job at a time, within its "
            "sharing factor",
        ),
        PolicySetting(
            key="looked_at",
            default=0,
            low=0,
            high=1000,
            help="maximum number of possible mates that are considered, in order of slowdown; 0 "
            "= all",
        ),
        PolicySetting(
            key="mate_end",
            default="before",
            choices=("before", "after"),
            help="latest end of a job that borrows: before = the predicted end of each lender "
            "without this loan; after = with the delay that this loan causes",
        ),
        PolicySetting(
            key="sharing_factor",
            default=0.5,
            low=0.0,
            high=1.0,
            help="maximum fraction of the cores of a running job on a node that other jobs may "
            "borrow",
        ),
        PolicySetting(
            key="benefit",
            default="yes",
            choices=YES_NO,
            help="no: a job shares even if it would end earlier by waiting, as in the code of "
            "the authors",
        ),
        PolicySetting(
            key="least_gain",
            default=0.0,
            low=0.0,
            high=1e6,
            help="with benefit = yes: minimum reduction of the predicted slowdown by sharing",
        ),
        PolicySetting(
            key="protects",
            default="yes",
            choices=YES_NO,
            help="no: mates may end so late that the head of the queue starts later",
        ),
        PolicySetting(
            key="free_nodes",
            default="no",
            choices=YES_NO,
            help="yes: free nodes may complete a set of mates",
        ),
        PolicySetting(
            key="power",
            default="watts",
            choices=("any", "watts", "weigh"),
            help="any: sharing may lower caps; watts: a job shares only if no cap of a mate is "
            "lowered; weigh: as watts, and energy is weighed against slowdown",
        ),
        PolicySetting(
            key="energy_weight",
            default=1.0,
            low=0.0,
            high=1e6,
            help="with power = weigh: slowdown that saving all the energy of the job alone is "
            "worth",
        ),
        PolicySetting(
            key="contiguous",
            default="no",
            choices=YES_NO,
            help="yes: the nodes of mates must be neighbours in the list of nodes",
        ),
        PolicySetting(
            key="mapped",
            default=32,
            low=0,
            high=10_000,
            help="number of waiting jobs whose reservations are used to predict the start of a "
            "later job",
        ),
        PolicySetting(
            key="tested",
            default=200,
            low=0,
            high=100_000,
            help="number of waiting jobs for which mates are searched in each decision",
        ),
        PolicySetting(
            key="cores",
            default=16,
            low=1,
            high=1024,
            help="number of cores of a simulated node",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="ranks",
            default=1,
            low=1,
            high=1024,
            help="number of cores that a simulated job keeps on every node, one for each rank",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="moldable",
            default=0.0,
            low=0.0,
            high=1.0,
            help="fraction of the non-malleable simulated jobs that may start on fewer cores",
            places=_SIMULATOR,
        ),
        PolicySetting(
            key="check",
            default="no",
            choices=YES_NO,
            help="yes: check all rules after every decision; a violation ends the simulation",
            places=_SIMULATOR,
        ),
        *PASS_SETTINGS,
    ),
)
