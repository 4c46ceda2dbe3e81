"""Description of `policies.fifo_easy`."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.descriptions import (
    Description,
    Place,
    PolicySetting,
    Pool,
    Values,
    Variant,
)

PASS_SETTINGS = (
    PolicySetting(
        key="looked",
        default=0,
        low=0,
        high=1_000_000,
        help="number of jobs at the head of the queue that EASY considers in one backfilling "
        "pass; 0 = all",
        places=(Place.SIMULATOR,),
    ),
    PolicySetting(
        key="every",
        default=0.0,
        low=0.0,
        high=86_400.0,
        unit="s",
        help="time between two backfilling passes of EASY, between which jobs start only in "
        "order; 0 = backfill at every event",
        places=(Place.SIMULATOR,),
    ),
)


def _made(values: Values, *, backfill: bool) -> Policy:
    from wattfold.coordinator.policies.fifo_easy import FifoEasy

    return FifoEasy(size=str(values["size"]), backfill=backfill)


DESCRIPTION = Description(
    name="fifo",
    title="jobs in order of priority and submission, all at the maximum cap",
    audience="comparison with a site without power management",
    citation=(
        "D. A. Lifka: The ANL/IBM SP Scheduling System. JSSPP 1995. A. W. Mu'alem, D. G. "
        "Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in "
        "Scheduling the IBM SP2 with Backfilling. IEEE TPDS 12(6), 2001."
    ),
    variants=(
        Variant(
            name="fifo-easy",
            title="FIFO with EASY backfill at the maximum cap",
            service=lambda values: _made(values, backfill=True),
            pool=Pool.EASY,
            simulated_as="easy",
            starves_nobody=True,
        ),
        Variant(
            name="fifo",
            title="FIFO without backfill at the maximum cap",
            service=lambda values: _made(values, backfill=False),
            pool=Pool.FCFS,
            simulated_as="fcfs",
            starves_nobody=True,
        ),
    ),
    settings=(
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="end of the size range that a job gets",
        ),
        *PASS_SETTINGS,
    ),
)
