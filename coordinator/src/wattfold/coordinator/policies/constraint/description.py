"""Description of `policies.constraint.policy`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    PATIENCE,
    Description,
    PolicySetting,
    PolicyVariant,
    Values,
)

if TYPE_CHECKING:
    from wattfold.coordinator.solvers.lists.planner import PlannerEffort
    from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights


def _made(values: Values) -> Policy:
    """Construct list schedules with a search and with repair by CP-SAT."""
    from wattfold.coordinator.solvers.cp.planner import CpRepair
    from wattfold.coordinator.solvers.lists.planner import PlannerEffort
    from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights

    asked = str(values["repair"])
    return planning(
        values,
        "constraint",
        ObjectiveWeights(
            lateness=float(values["lateness_weight"]), late=float(values["late_weight"])
        ),
        PlannerEffort(
            depth=int(values["depth"]),
            evaluations=int(values["evaluations"]),
            seed=int(values["seed"]),
            improver=None if asked == "never" else CpRepair(always=asked == "always"),
            improver_s=float(values["repair_s"]),
        ),
    )


def planning(values: Values, name: str, weights: ObjectiveWeights, effort: PlannerEffort) -> Policy:
    """Return the policy with the settings of sizes, caps and times."""
    from wattfold.coordinator.policies.constraint.policy import Constraint
    from wattfold.coordinator.policies.constraint.problem import Rules

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
        patience=float(values["patience"]),
    )


DESCRIPTION = Description(
    name="constraint",
    title="plans of all starts, optimised for waits relative to the expected waits of queues",
    audience="sites with heterogeneous nodes whose queues state expected waits",
    fallback="the lists without search, then pbs-walltime, pbs-fifo and in-turn",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers. The objective is from the paper, the search is not."
    ),
    memory="order of the jobs in the best plan of the last search",
    without_memory={"evaluations": 0, "repair": "never"},
    variants=(
        PolicyVariant(
            name="constraint",
            title="list schedules of the whole queue, with a search for the best order",
            service=_made,
            looks_ahead=True,
        ),
    ),
    settings=(
        PATIENCE,
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="end of the size range that a job gets",
        ),
        PolicySetting(
            key="evaluations",
            default=32,
            low=0,
            high=2000,
            help="number of plans that a search evaluates with up to 100 waiting jobs; with more "
            "jobs, fewer",
        ),
        PolicySetting(
            key="seed",
            default=1,
            low=0,
            high=1_000_000,
            help="seed of the search",
        ),
        PolicySetting(
            key="depth",
            default=10,
            low=0,
            high=1000,
            help="number of blocked jobs with reserved resources when a list is scheduled",
        ),
        PolicySetting(
            key="lateness_weight",
            default=1.0,
            low=0.0,
            high=1000.0,
            help="weight of lateness, in expected waits, relative to the wait itself",
        ),
        PolicySetting(
            key="late_weight",
            default=0.2,
            low=0.0,
            high=1000.0,
            help="cost of each late job, in expected waits",
        ),
        PolicySetting(
            key="wait_s",
            default=86_400.0,
            low=1.0,
            high=1e9,
            unit="s",
            help="expected wait of jobs whose queue does not state an expected wait",
        ),
        PolicySetting(
            key="caps",
            default=3,
            low=1,
            high=4,
            help="number of caps that a job may be planned with if power is short; 1 = the "
            "maximum only",
        ),
        PolicySetting(
            key="power_margin",
            default=0.1,
            low=0.0,
            high=10.0,
            help="margin of the cap above the predicted power of the job, as a fraction",
        ),
        PolicySetting(
            key="ratios",
            default="plan",
            choices=("plan", "order"),
            help="use of predicted run times: plan = in the whole plan; order = only for the "
            "order of the list",
        ),
        PolicySetting(
            key="repair",
            default="hard",
            choices=("never", "hard", "always"),
            help="plans of up to 100 waiting jobs that CP-SAT repairs, which needs OR-Tools "
            "(wattfold[cp]): hard = plans with units placed together, reserved nodes or a choice "
            "of caps",
        ),
        PolicySetting(
            key="repair_s",
            default=0.5,
            low=0.05,
            high=60.0,
            unit="s",
            help="maximum time for repairing a plan; limits of the search may end it earlier",
        ),
    ),
)
