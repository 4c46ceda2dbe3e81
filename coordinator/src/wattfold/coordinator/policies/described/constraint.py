"""What `policies.constraint` says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.descriptions import Description, PolicySetting, Values, Variant

if TYPE_CHECKING:
    from wattfold.coordinator.solvers.lists.planner import Effort
    from wattfold.coordinator.solvers.lists.problem import Weights


def _made(values: Values) -> Policy:
    """Lists, searched, and repaired by CP-SAT."""
    from wattfold.coordinator.solvers.cp.planner import CpRepair
    from wattfold.coordinator.solvers.lists.planner import Effort
    from wattfold.coordinator.solvers.lists.problem import Weights

    asked = str(values["repair"])
    return planning(
        values,
        "constraint",
        Weights(lateness=float(values["lateness_weight"]), late=float(values["late_weight"])),
        Effort(
            depth=int(values["depth"]),
            evaluations=int(values["evaluations"]),
            seed=int(values["seed"]),
            improver=None if asked == "never" else CpRepair(always=asked == "always"),
            improver_s=float(values["repair_s"]),
        ),
    )


def planning(values: Values, name: str, weights: Weights, effort: Effort) -> Policy:
    """The policy with what settings say of sizes, caps and times."""
    from wattfold.coordinator.policies.constraint import Constraint
    from wattfold.coordinator.policies.constraint_problem import Rules

    return Constraint(
        name=name,
        size=str(values["size"]),
        rules=Rules(
            caps=int(values["caps"]),
            wait_ns=round(float(values["wait_s"]) * NS_PER_S),
            ratios=str(values["ratios"]),
            power_margin=float(values["power_margin"]),
        ),
        weights=weights,
        effort=effort,
    )


DESCRIPTION = Description(
    name="constraint",
    title="the best plan of all starts that is found, by what queues expect their jobs to wait",
    audience="a site with nodes of several kinds, whose queues say how long their jobs should wait",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers. The objective is theirs, the search is not."
    ),
    variants=(
        Variant(
            name="constraint",
            title="list schedules of the whole queue, searched for the best order",
            service=_made,
            looks_ahead=True,
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
            key="evaluations",
            default=32,
            low=0,
            high=2000,
            help="plans that a search looks at while up to 100 jobs wait; with more, fewer",
        ),
        PolicySetting(
            key="seed",
            default=1,
            low=0,
            high=1_000_000,
            help="what the search draws its changes from",
        ),
        PolicySetting(
            key="depth",
            default=10,
            low=0,
            high=1000,
            help="so many blocked jobs have their place kept when a list is scheduled",
        ),
        PolicySetting(
            key="lateness_weight",
            default=1.0,
            low=0.0,
            high=1000.0,
            help="what being late counts, in expected waits, beside the wait itself",
        ),
        PolicySetting(
            key="late_weight",
            default=0.2,
            low=0.0,
            high=1000.0,
            help="what each late job counts, in expected waits",
        ),
        PolicySetting(
            key="wait_s",
            default=86_400.0,
            low=1.0,
            high=1e9,
            unit="s",
            help="the wait that jobs expect whose queue does not say",
        ),
        PolicySetting(
            key="caps",
            default=3,
            low=1,
            high=4,
            help="levels that a job may be planned at where power is short; 1 = the greatest only",
        ),
        PolicySetting(
            key="power_margin",
            default=0.1,
            low=0.0,
            high=10.0,
            help="so much more than what a job is predicted to draw its cap leaves it, as a share",
        ),
        PolicySetting(
            key="ratios",
            default="plan",
            choices=("plan", "order"),
            help="whether predicted run times, where there are any, count for the whole plan, or "
            "for the order of the list only",
        ),
        PolicySetting(
            key="repair",
            default="hard",
            choices=("never", "hard", "always"),
            help="whether CP-SAT mends plans of up to 100 waiting jobs, which needs OR-Tools "
            "(wattfold[cp]): hard = where units go together, nodes are reserved or caps are to be "
            "chosen",
        ),
        PolicySetting(
            key="repair_s",
            default=0.5,
            low=0.05,
            high=60.0,
            unit="s",
            help="the longest that repairs of a plan may take; counts end them as well",
        ),
    ),
)
