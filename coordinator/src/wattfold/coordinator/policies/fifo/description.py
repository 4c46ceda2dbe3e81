"""Description of `fifo` and `fifo-easy`."""

from __future__ import annotations

from functools import partial

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.fifo.settings import FifoSettings


def _made(settings: FifoSettings, *, backfill: bool = True) -> Policy:
    from wattfold.coordinator.policies.fifo.policy import FifoEasy

    return FifoEasy(settings, backfill=backfill)


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
            service=_made,
            pool=Pool.BACKFILL,
            simulated_as="easy",
            starves_nobody=True,
        ),
        PolicyVariant(
            name="fifo",
            title="FIFO without backfill at the maximum cap",
            service=partial(_made, backfill=False),
            pool=Pool.BACKFILL,
            simulated_as="fcfs",
            starves_nobody=True,
        ),
    ),
    settings_class=FifoSettings,
)
