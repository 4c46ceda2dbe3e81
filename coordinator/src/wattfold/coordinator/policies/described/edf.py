"""What `policies.andreas` says of its baselines."""

from __future__ import annotations

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.described.training_settings import (
    COST_SETTINGS,
    draws,
    tariff,
)
from wattfold.coordinator.policies.descriptions import (
    Description,
    PolicySetting,
    Values,
    Variant,
)


def _made(values: Values, *, name: str, order: str) -> Policy:
    from wattfold.coordinator.policies.andreas import SUBMISSION, TrainingPolicy, TrainingRules
    from wattfold.coordinator.policies.training_problem import Costs

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
    title="jobs in order of due dates or weights; training jobs in their cheapest configuration "
    "that is in time, which they keep",
    audience="what andreas is compared with, and sites whose jobs cannot be pre-empted",
    citation=(
        "The baselines of ANDREAS (Filippini et al., FiCloud 2021); see any book on scheduling. "
        "Other jobs have EASY's backfilling in the same order (Lifka, JSSPP 1995)."
    ),
    variants=(
        Variant(
            name="edf",
            title="earliest due date first",
            service=lambda values: _made(values, name="edf", order="due"),
        ),
        Variant(
            name="priority",
            title="the greatest weight first",
            service=lambda values: _made(values, name="priority", order="weight"),
        ),
    ),
    settings=(
        PolicySetting(
            key="order",
            default="own",
            choices=("own", "submission"),
            help="own = as the policy is called; submission = FIFO, as the third baseline",
        ),
        PolicySetting(
            key="choice",
            default="free",
            choices=("free", "awaited"),
            help="what a training job takes: free = of what has room now the cheapest that is in "
            "time, else the fastest; awaited = what costs it least in energy and tardiness, with "
            "the time it waits until that is free",
        ),
        *COST_SETTINGS,
    ),
)
