"""Description of `policies.equipartition.policy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant, Pool
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings


def _made(settings: EquipartitionSettings) -> Policy:
    from wattfold.coordinator.policies.equipartition.policy import Equipartition

    return Equipartition(settings)


DESCRIPTION = Description(
    name="equipartition",
    title="running jobs share nodes and watts equally and shrink when a job arrives",
    audience="machines for malleable jobs that should start at once, such as Charm++ jobs",
    fallback="in-turn",
    citation=(
        "L. V. Kale, S. Kumar, J. DeSouza: A Malleable-Job System for Timeshared Parallel "
        "Machines. CCGrid 2002."
    ),
    variants=(
        PolicyVariant(
            name="equipartition",
            title="every job gets its minimum size; the rest is shared equally, at one power level",
            service=_made,
            pool=Pool.EQUIPARTITION,
            by_name="on nodes with names, nodes are held for jobs that have waited too long",
        ),
    ),
    settings_class=EquipartitionSettings,
    needs_profiles=True,
)
