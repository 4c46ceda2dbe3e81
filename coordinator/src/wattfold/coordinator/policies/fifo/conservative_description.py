"""Description of `policies.fifo.conservative`."""

from __future__ import annotations

from wattfold.coordinator.core.model.jobs.promise import KEPT
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    Description,
    PolicySetting,
    PolicyVariant,
    Pool,
    SettingScope,
    Values,
)

PROMISES_MAX = 5_000


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.fifo.conservative import Conservative

    return Conservative(size=str(values["size"]), promises=int(values["promises"]))


DESCRIPTION = Description(
    name="conservative",
    title="conservative backfill: every waiting job has a promised start that no later job delays",
    audience="sites whose users need to know when their jobs start",
    fallback="in-turn",
    citation=(
        "A. W. Mu'alem, D. G. Feitelson: Utilization, Predictability, Workloads, and User Runtime "
        "Estimates in Scheduling the IBM SP2 with Backfilling. IEEE TPDS 12(6), 2001."
    ),
    variants=(
        PolicyVariant(
            name="conservative",
            title="conservative backfill with promised starts, at the maximum cap",
            service=_made,
            pool=Pool.CONSERVATIVE,
            starves_nobody=True,
            by_name="on nodes with names, a planned start allows for a lag of 30 s",
        ),
    ),
    settings=(
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="end of the size range that a job gets",
        ),
        PolicySetting(
            key="promises",
            default=KEPT,
            low=1,
            high=PROMISES_MAX,
            places=(SettingScope.SERVICE,),
            help="number of jobs at the head of the queue with a promised start; later jobs are "
            "backfilled or wait",
        ),
    ),
)
