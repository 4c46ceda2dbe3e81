"""Description of `policies.equipartition.policy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    PATIENCE,
    Description,
    PolicySetting,
    PolicyVariant,
    Pool,
    Values,
)


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.equipartition.policy import Equipartition

    return Equipartition(
        order=str(values["order"]),
        power=str(values["power"]),
        due=values["due"] == "yes",
        by_priority=values["weights"] == "priority",
        interval_ns=round(float(values["interval_s"]) * 1e9),
        weigh_costs=values["costs"] == "weigh",
        patience=float(values["patience"]),
    )


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
    settings=(
        PATIENCE,
        PolicySetting(
            key="order",
            default="first-fit",
            choices=("first-fit", "fifo"),
            help="order of starts: first-fit = a job may start before an earlier job that does "
            "not fit; fifo = in order of arrival",
        ),
        PolicySetting(
            key="power",
            default="lower",
            choices=("lower", "fewer"),
            help="reaction to a small budget: lower = all nodes at a lower cap; fewer = fewer "
            "nodes at the maximum cap",
        ),
        PolicySetting(
            key="due",
            default="no",
            choices=("no", "yes"),
            help="yes: jobs first get the size that meets their due date, then the rest is shared",
        ),
        PolicySetting(
            key="weights",
            default="equal",
            choices=("equal", "priority"),
            help="shares of the rest beyond the minimum sizes: equal, or in proportion to the "
            "priorities",
        ),
        PolicySetting(
            key="interval_s",
            default=0.0,
            low=0.0,
            high=1e6,
            unit="s",
            help="minimum time after a resize before a job may grow again",
        ),
        PolicySetting(
            key="costs",
            default="weigh",
            choices=("weigh", "ignore"),
            help="weigh: a job grows only if it saves more time than the resize costs",
        ),
    ),
    needs_profiles=True,
)
