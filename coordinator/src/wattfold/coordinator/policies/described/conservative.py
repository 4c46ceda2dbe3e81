"""What `policies.conservative` says of itself."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.core.promise import KEPT
from wattfold.coordinator.policies.descriptions import (
    Description,
    Place,
    PolicySetting,
    Pool,
    Values,
    Variant,
)

PROMISES_MAX = 5_000


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.conservative import Conservative

    return Conservative(size=str(values["size"]), promises=int(values["promises"]))


DESCRIPTION = Description(
    name="conservative",
    title="every waiting job is promised a start, which no later job delays",
    audience="a site whose users are to know when their jobs start",
    citation=(
        "A. W. Mu'alem, D. G. Feitelson: Utilization, Predictability, Workloads, and User Runtime "
        "Estimates in Scheduling the IBM SP2 with Backfilling. IEEE TPDS 12(6), 2001."
    ),
    variants=(
        Variant(
            name="conservative",
            title="a promised start for every waiting job, at the greatest cap",
            service=_made,
            pool=Pool.CONSERVATIVE,
            starves_nobody=True,
        ),
    ),
    settings=(
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="which end of a range counts as asked for",
        ),
        PolicySetting(
            key="promises",
            default=KEPT,
            low=1,
            high=PROMISES_MAX,
            places=(Place.SERVICE,),
            help="so many jobs of the queue are promised a start; those behind start early or wait",
        ),
    ),
)
