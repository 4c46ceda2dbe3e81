"""Description of the baselines of `andreas`."""

from __future__ import annotations

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    Description,
    PolicySetting,
    PolicyVariant,
    Values,
)
from wattfold.coordinator.policies.training.settings import (
    COST_SETTINGS,
    draws,
    tariff,
)


def _made(values: Values, *, name: str, order: str) -> Policy:
    from wattfold.coordinator.policies.training.policy import (
        SUBMISSION,
        TrainingPolicy,
        TrainingRules,
    )
    from wattfold.coordinator.policies.training.problem import Costs

    by = order if values["order"] == "own" else SUBMISSION
    costs = Costs(
        tariff=tariff(values),
        late_eur_h=float(values["late_eur_per_h"]),
        slack=float(values["slack"]),
    )
    waits = values["choice"] == "awaited"
    rules = TrainingRules(costs=costs, draws=draws(values), order=by, waits=waits)
    return TrainingPolicy(title=name, rules=rules)


DESCRIPTION = Description(
    name="edf",
    title="jobs in order of due dates or weights; training jobs keep their cheapest configuration "
    "that meets the due date",
    audience="comparison with andreas, and sites whose jobs cannot be preempted",
    fallback="in-turn",
    citation=(
        "The baselines of ANDREAS (Filippini et al., FiCloud 2021); see any book on scheduling. "
        "Other jobs use EASY backfilling in the same order (Lifka, JSSPP 1995)."
    ),
    variants=(
        PolicyVariant(
            name="edf",
            title="earliest due date first",
            service=lambda values: _made(values, name="edf", order="due"),
            trains=True,
        ),
        PolicyVariant(
            name="priority",
            title="largest weight first",
            service=lambda values: _made(values, name="priority", order="weight"),
            trains=True,
        ),
    ),
    settings=(
        PolicySetting(
            key="order",
            default="own",
            choices=("own", "submission"),
            help="order of jobs: own = that of the chosen policy; submission = FIFO, the third "
            "baseline",
        ),
        PolicySetting(
            key="choice",
            default="free",
            choices=("free", "awaited"),
            help="configuration of a training job: free = the cheapest free configuration in "
            "time, or else the fastest; awaited = the lowest cost of energy and tardiness, "
            "including the wait until it is free",
        ),
        *COST_SETTINGS,
    ),
)
