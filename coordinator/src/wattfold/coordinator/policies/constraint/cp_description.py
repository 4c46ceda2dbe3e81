"""Description of the constraint model of the paper, as a policy of `policies.constraint.policy`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.constraint import description as constraint
from wattfold.coordinator.policies.description import (
    Description,
    PolicySetting,
    PolicyVariant,
    Values,
)

NAME = "constraint-cp"
ANY_NUMBER = 1 << 30
SHARED = ("patience", "size", "seed", "depth", "wait_s", "caps", "power_margin", "ratios")
"""Settings with the same meaning as in `constraint.description`."""


def _made(values: Values) -> Policy:
    """Construct the paper's model and objective, starting from the best of the plain lists."""
    from wattfold.coordinator.solvers.cp.planner import CpWhole
    from wattfold.coordinator.solvers.lists.planner import PlannerEffort
    from wattfold.coordinator.solvers.lists.problem import ObjectiveWeights

    return constraint.planning(
        values,
        NAME,
        ObjectiveWeights(lateness=0.0, late=0.0),
        PlannerEffort(
            depth=int(values["depth"]),
            evaluations=0,
            seed=int(values["seed"]),
            improver=CpWhole(most_jobs=int(values["jobs"])),
            improver_jobs=ANY_NUMBER,
            improver_s=float(values["search_s"]),
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
    settings=(
        *(one for one in constraint.DESCRIPTION.settings if one.key in SHARED),
        PolicySetting(
            key="jobs",
            default=100,
            low=1,
            high=2000,
            help="maximum number of waiting jobs in the model; of more jobs, those that lists "
            "start first",
        ),
        PolicySetting(
            key="search_s",
            default=2.0,
            low=0.05,
            high=600.0,
            unit="s",
            help="maximum time of a search; limits of the search may end it earlier",
        ),
    ),
)
