"""Description of `fifo` and `fifo-easy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.backfill.pass_settings import PASS_SETTINGS
from wattfold.coordinator.policies.description import (
    Description,
    PolicySetting,
    PolicyVariant,
    Pool,
    Values,
)


def _made(values: Values, *, backfill: bool) -> Policy:
    from wattfold.coordinator.policies.fifo.policy import FifoEasy

    return FifoEasy(size=str(values["size"]), backfill=backfill)


DESCRIPTION = Description(
    name="fifo",
    title="jobs in order of priority and submission, all at the maximum cap",
    audience="comparison with a site without power management",
    fallback="in-turn",
    citation=(
        "D. A. Lifka: The ANL/IBM SP Scheduling System. JSSPP 1995. A. W. Mu'alem, D. G. "
        "Feitelson: Utilization, Predictability, Workloads, and User Runtime Estimates in "
        "Scheduling the IBM SP2 with Backfilling. IEEE TPDS 12(6), 2001."
    ),
    variants=(
        PolicyVariant(
            name="fifo-easy",
            title="FIFO with EASY backfill at the maximum cap",
            service=lambda values: _made(values, backfill=True),
            pool=Pool.EASY,
            simulated_as="easy",
            starves_nobody=True,
        ),
        PolicyVariant(
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
