"""Description of the constraint model of the paper, as a policy of `policies.constraint`."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.described import constraint
from wattfold.coordinator.policies.descriptions import Description, PolicySetting, Values, Variant

NAME = "constraint-cp"
ANY_NUMBER = 1 << 30
SHARED = ("size", "seed", "depth", "wait_s", "caps", "power_margin", "ratios")
"""Settings that mean here what they mean there."""


def _made(values: Values) -> Policy:
    """The paper's model and objective, from the best of the plain lists."""
    from wattfold.coordinator.solvers.cp.planner import CpWhole
    from wattfold.coordinator.solvers.lists.planner import Effort
    from wattfold.coordinator.solvers.lists.problem import Weights

    return constraint.planning(
        values,
        NAME,
        Weights(lateness=0.0, late=0.0),
        Effort(
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
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers. Model and objective (2) are from the paper."
    ),
    variants=(
        Variant(
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
