"""Description of the policy `andreas`."""

from __future__ import annotations

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import Description, PolicyVariant
from wattfold.coordinator.policies.training.settings import AndreasSettings


def _made(settings: AndreasSettings) -> Policy:
    from wattfold.coordinator.policies.training.policy import DUE, TrainingPolicy, TrainingRules
    from wattfold.coordinator.policies.training.problem import Costs
    from wattfold.coordinator.solvers.training.building import Weighing
    from wattfold.coordinator.solvers.training.planner import TrainingEffort

    costs = Costs(
        tariff=settings.tariff(),
        late_eur_per_h=settings.late_eur_per_h,
        weighing=Weighing(
            rho=settings.rho,
            interval_s=settings.interval_s,
            others=settings.others,
            nodes=settings.energy == "nodes",
            haste=settings.haste,
            worst_case=settings.postponed == "worst",
        ),
        restart_s=settings.restart_s,
        slack=settings.slack,
    )
    draws = settings.draws(settings.gpu_levels)
    plain = TrainingRules(costs=costs, draws=draws, order=DUE)
    return TrainingPolicy(
        title="andreas",
        rules=TrainingRules(
            costs=costs,
            draws=draws,
            effort=TrainingEffort(
                passes=settings.passes, attempts=settings.attempts, seed=settings.seed
            ),
            interval_ns=ns_from_s(settings.interval_s),
        ),
        then=TrainingPolicy(title="edf", rules=plain),
    )


DESCRIPTION = Description(
    name="andreas",
    title="GPU training jobs by due dates and energy costs, with preemption and migration",
    audience="sites with GPU nodes for training jobs that have due dates",
    fallback="edf, then in-turn",
    citation=(
        "F. Filippini, D. Ardagna, M. Lattuada, E. Amaldi, M. Ciavotta, M. Riedl, K. Materka, P. "
        "Skrzypek, F. Magugliani, M. Cicala: ANDREAS, Artificial intelligence traiNing scheDuler "
        "foR accElerAted resource clusterS. FiCloud 2021. Ruin and recreate, variable prices and "
        "GPU limits are additions."
    ),
    variants=(
        PolicyVariant(
            name="andreas",
            title="randomised greedy search with ruin and recreate, over all training jobs",
            service=_made,
            trains=True,
        ),
    ),
    settings_class=AndreasSettings,
)
