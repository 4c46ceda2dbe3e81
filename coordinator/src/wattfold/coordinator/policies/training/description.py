"""Description of the policy `andreas`."""

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


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.training.policy import DUE, TrainingPolicy, TrainingRules
    from wattfold.coordinator.policies.training.problem import Costs
    from wattfold.coordinator.solvers.training.building import Weighing
    from wattfold.coordinator.solvers.training.planner import TrainingEffort

    interval_s = float(values["interval_s"])
    costs = Costs(
        tariff=tariff(values),
        late_eur_h=float(values["late_eur_per_h"]),
        weighing=Weighing(
            rho=float(values["rho"]),
            interval_s=interval_s,
            others=float(values["others"]),
            nodes=values["energy"] == "nodes",
            haste=float(values["haste"]),
            worst_case=values["postponed"] == "worst",
        ),
        restart_s=float(values["restart_s"]),
        slack=float(values["slack"]),
    )
    plain = TrainingRules(costs=costs, draws=draws(values), order=DUE)
    return TrainingPolicy(
        title="andreas",
        rules=TrainingRules(
            costs=costs,
            draws=draws(values),
            effort=TrainingEffort(
                passes=int(values["passes"]),
                attempts=int(values["attempts"]),
                seed=int(values["seed"]),
            ),
            interval_ns=round(interval_s * 1e9),
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
    settings=(
        *COST_SETTINGS,
        PolicySetting(
            key="rho",
            default=100.0,
            low=0.0,
            high=1e6,
            help="weight of the worst-case tardiness of postponed jobs, relative to other "
            "tardiness; not used if postponed = next",
        ),
        PolicySetting(
            key="postponed",
            default="next",
            choices=("next", "worst"),
            help="tardiness of a postponed job: worst = of its slowest run after H, times rho, "
            "as in the paper; next = of its fastest run after H, with normal weight",
        ),
        PolicySetting(
            key="interval_s",
            default=300.0,
            low=1.0,
            high=86_400.0,
            unit="s",
            help="maximum time between two plans if no event occurs (H)",
        ),
        PolicySetting(
            key="energy",
            default="nodes",
            choices=("nodes", "jobs"),
            help="energy in the objective: nodes = each node until its last job ends, and what "
            "its jobs add; jobs = each job as if alone on its node, as in the paper",
        ),
        PolicySetting(
            key="others",
            default=1.0,
            low=0.0,
            high=1.0,
            help="with energy = jobs: fraction of the energy costs that counts for jobs that are "
            "not the first to end on their node; 0 in the paper",
        ),
        PolicySetting(
            key="haste",
            default=0.001,
            low=0.0,
            high=1.0,
            help="cost of each second until a job ends, late or not, as a fraction of its "
            "tardiness cost, so that GPUs are free early for later jobs; 0 in the paper",
        ),
        PolicySetting(
            key="restart_s",
            default=60.0,
            low=0.0,
            high=86_400.0,
            unit="s",
            help="cost of a preemption for a job whose restart time has not been learnt",
        ),
        PolicySetting(
            key="gpu_levels",
            default=1,
            low=1,
            high=8,
            help="number of GPU limits to choose from, from half of the maximum up; 1 = the "
            "maximum only",
        ),
        PolicySetting(
            key="passes",
            default=100,
            low=1,
            high=100_000,
            help="number of greedy passes (MaxIt; 1000 in the paper)",
        ),
        PolicySetting(
            key="attempts",
            default=10_000,
            low=0,
            high=1_000_000,
            help="number of ruin-and-recreate steps after the greedy passes; 0 = the search of "
            "the paper",
        ),
        PolicySetting(
            key="seed",
            default=1,
            low=0,
            high=1_000_000,
            help="seed of the search",
        ),
    ),
)
