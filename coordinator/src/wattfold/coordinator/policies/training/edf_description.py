"""Description of the baselines of `andreas`."""

from __future__ import annotations

from functools import partial

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant
from wattfold.coordinator.policies.training.settings import EdfSettings


def _made(name: str, order: str, settings: EdfSettings) -> Policy:
    from wattfold.coordinator.policies.training.policy import (
        SUBMISSION,
        TrainingPolicy,
        TrainingRules,
    )
    from wattfold.coordinator.policies.training.problem import Costs

    costs = Costs(
        tariff=settings.tariff(), late_eur_per_h=settings.late_eur_per_h, slack=settings.slack
    )
    rules = TrainingRules(
        costs=costs,
        draws=settings.draws(),
        order=order if settings.order == "own" else SUBMISSION,
        waits=settings.choice == "awaited",
    )
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
            service=partial(_made, "edf", "due"),
            trains=True,
        ),
        PolicyVariant(
            name="priority",
            title="largest weight first",
            service=partial(_made, "priority", "weight"),
            trains=True,
        ),
    ),
    settings_class=EdfSettings,
)
