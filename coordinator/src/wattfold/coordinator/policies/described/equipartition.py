"""What `policies.equipartition` says of itself."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.descriptions import (
    Description,
    PolicySetting,
    Pool,
    Values,
    Variant,
)


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.equipartition import Equipartition

    return Equipartition(
        order=str(values["order"]),
        power=str(values["power"]),
        due=values["due"] == "yes",
        by_priority=values["weights"] == "priority",
        interval_ns=round(float(values["interval_s"]) * 1e9),
        weigh_costs=values["costs"] == "weigh",
    )


DESCRIPTION = Description(
    name="equipartition",
    title="all that run share nodes and watts equally; who comes makes the others smaller",
    audience="a machine for malleable jobs, such as those of Charm++, that are to start at once",
    citation=(
        "L. V. Kale, S. Kumar, J. DeSouza: A Malleable-Job System for Timeshared Parallel "
        "Machines. CCGrid 2002."
    ),
    variants=(
        Variant(
            name="equipartition",
            title="least sizes for all, the rest in equal parts, at one level",
            service=_made,
            pool=Pool.EQUIPARTITION,
        ),
    ),
    settings=(
        PolicySetting(
            key="order",
            default="first-fit",
            choices=("first-fit", "fifo"),
            help="whether a job may start before one that came earlier and does not fit",
        ),
        PolicySetting(
            key="power",
            default="lower",
            choices=("lower", "fewer"),
            help="under a small budget: all nodes at a lower level, or fewer at the greatest",
        ),
        PolicySetting(
            key="due",
            default="no",
            choices=("no", "yes"),
            help="yes: jobs get what meets their due dates before the rest is shared",
        ),
        PolicySetting(
            key="weights",
            default="equal",
            choices=("equal", "priority"),
            help="how what is left over the least sizes is shared",
        ),
        PolicySetting(
            key="interval_s",
            default=0.0,
            low=0.0,
            high=1e6,
            unit="s",
            help="a job that was resized less than this ago grows no more yet",
        ),
        PolicySetting(
            key="costs",
            default="weigh",
            choices=("weigh", "ignore"),
            help="weigh: no job grows that would save less time than the change is to cost it",
        ),
    ),
    needs_profiles=True,
)
