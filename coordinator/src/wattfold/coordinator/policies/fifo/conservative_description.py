"""Description of `policies.fifo.conservative`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.fifo.settings import ConservativeSettings


def _made(settings: ConservativeSettings) -> Policy:
    from wattfold.coordinator.policies.fifo.conservative import Conservative

    return Conservative(settings)


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
            pool=Pool.BACKFILL,
            starves_nobody=True,
            by_name="on nodes with names, a planned start allows for a lag of 30 s",
        ),
    ),
    settings_class=ConservativeSettings,
)
