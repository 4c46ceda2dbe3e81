"""Description of `policies.constraint.policy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.constraint.settings import ListSettings
from wattfold.coordinator.policies.description import Description, PolicyVariant


def _made(settings: ListSettings) -> Policy:
    """Construct list schedules with a search and with repair by CP-SAT."""
    from wattfold.coordinator.policies.constraint.policy import Constraint
    from wattfold.coordinator.solvers.cp.planner import CpRepair
    from wattfold.coordinator.solvers.lists.planner import PlannerEffort
    from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights

    repair = settings.repair
    return Constraint(
        settings,
        weights=ObjectiveWeights(lateness=settings.lateness_weight, late=settings.late_weight),
        effort=PlannerEffort(
            depth=settings.depth,
            evaluations=settings.evaluations,
            seed=settings.seed,
            improver=None if repair == "never" else CpRepair(always=repair == "always"),
            improver_s=settings.repair_s,
        ),
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
    settings_class=ListSettings,
)
