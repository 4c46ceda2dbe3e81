"""Description of `policies.slowdown_driven.policy`, and its settings in simulated pools."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.slowdown_driven.rules import SharingSettings


def _made(settings: SharingSettings) -> Policy:
    from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven

    return SlowdownDriven(settings)


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
    settings_class=SharingSettings,
)
