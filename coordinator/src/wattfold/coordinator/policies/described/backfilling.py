"""What `policies.fifo_easy` says of itself."""

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
        help="jobs at the front of the queue that EASY looks at in a pass of backfilling; 0 = all",
        places=(Place.SIMULATOR,),
    ),
    PolicySetting(
        key="every",
        default=0.0,
        low=0.0,
        high=86_400.0,
        unit="s",
        help="between two passes of EASY's backfilling jobs start only in order; 0 = at once",
        places=(Place.SIMULATOR,),
    ),
)


def _made(values: Values, *, backfill: bool) -> Policy:
    from wattfold.coordinator.policies.fifo_easy import FifoEasy

    return FifoEasy(size=str(values["size"]), backfill=backfill)


DESCRIPTION = Description(
    name="fifo",
    title="in order of priority and submission, every job at the greatest cap",
    audience="a site without power management, as what others are compared with",
    citation=(
        "D. A. Lifka: The ANL/IBM SP Scheduling System. JSSPP 1995. A. W. Mu'alem, D. G. "
        "Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in "
        "Scheduling the IBM SP2 with Backfilling. IEEE TPDS 12(6), 2001."
    ),
    variants=(
        Variant(
            name="fifo-easy",
            title="FIFO with EASY backfill at the greatest cap",
            service=lambda values: _made(values, backfill=True),
            pool=Pool.EASY,
            simulated_as="easy",
            starves_nobody=True,
        ),
        Variant(
            name="fifo",
            title="FIFO without backfill at the greatest cap",
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
            help="which end of a range counts as asked for",
        ),
        *PASS_SETTINGS,
    ),
)
