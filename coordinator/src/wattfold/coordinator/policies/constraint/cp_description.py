"""Description of the constraint model of the paper, as a policy of `policies.constraint.policy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.constraint.settings import CpSettings
from wattfold.coordinator.policies.description import Description, PolicyVariant

NAME = "constraint-cp"
ANY_NUMBER = 1 << 30


def _made(settings: CpSettings) -> Policy:
    """Construct the paper's model and objective, starting from the best of the plain lists."""
    from wattfold.coordinator.policies.constraint.policy import Constraint
    from wattfold.coordinator.solvers.cp.planner import CpWhole
    from wattfold.coordinator.solvers.lists.planner import PlannerEffort
    from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights

    return Constraint(
        settings,
        name=NAME,
        weights=ObjectiveWeights(lateness=0.0, late=0.0),
        effort=PlannerEffort(
            depth=settings.depth,
            evaluations=0,
            seed=settings.seed,
            improver=CpWhole(most_jobs=settings.jobs),
            improver_jobs=ANY_NUMBER,
            improver_s=settings.search_s,
        ),
    )


DESCRIPTION = Description(
    name=NAME,
    title="the constraint model of the paper, solved by CP-SAT from the best list schedule",
    audience="researchers, and sites with short queues; needs OR-Tools (wattfold[cp])",
    fallback="the lists without search, then pbs-walltime, pbs-fifo and in-turn",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers. Model and objective (2) are from the paper."
    ),
    memory="order of the jobs in the best plan of the last search",
    without_memory={"jobs": 1},
    variants=(
        PolicyVariant(
            name=NAME,
            title="intervals, alternatives and cumulatives; lists if no better plan is found",
            service=_made,
            looks_ahead=True,
        ),
    ),
    settings_class=CpSettings,
)
