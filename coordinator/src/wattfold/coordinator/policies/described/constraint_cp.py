"""What the constraint model of the paper says of itself, as a policy of `policies.constraint`."""

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
    title="the constraint model of the paper, searched by CP-SAT from the best plan of lists",
    audience="research, and queues of some tens of jobs; needs OR-Tools (wattfold[cp])",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers. Model and objective (2) as there."
    ),
    variants=(
        Variant(
            name=NAME,
            title="optional intervals, alternatives and cumulatives; without a better plan, lists",
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
            help="waiting jobs in the model; of more it is those that lists start first",
        ),
        PolicySetting(
            key="search_s",
            default=2.0,
            low=0.05,
            high=600.0,
            unit="s",
            help="the longest that it may search; counts end it as well",
        ),
    ),
)
