"""What `policies.andreas` says of itself."""

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


def _made(values: Values) -> Policy:
    from wattfold.coordinator.policies.andreas import DUE, TrainingPolicy, TrainingRules
    from wattfold.coordinator.policies.training_problem import Costs
    from wattfold.coordinator.solvers.training.building import Weighing
    from wattfold.coordinator.solvers.training.planner import Effort

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
            effort=Effort(
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
    title="GPU training jobs by due dates and energy costs, pre-empted and moved as that pays",
    audience="sites whose GPU nodes train models for people who want them by a date",
    citation=(
        "F. Filippini, D. Ardagna, M. Lattuada, E. Amaldi, M. Ciavotta, M. Riedl, K. Materka, P. "
        "Skrzypek, F. Magugliani, M. Cicala: ANDREAS, Artificial intelligence traiNing scheDuler "
        "foR accElerAted resource clusterS. FiCloud 2021. Ruin and recreate, prices that change "
        "and levels of GPUs are not theirs."
    ),
    variants=(
        Variant(
            name="andreas",
            title="randomised greedy, then ruin and recreate, over all training jobs at a time",
            service=_made,
        ),
    ),
    settings=(
        *COST_SETTINGS,
        PolicySetting(
            key="rho",
            default=100.0,
            low=0.0,
            high=1e6,
            help="worst-case tardiness of jobs that are postponed, in times of other tardiness; "
            "where postponed = next it does not count",
        ),
        PolicySetting(
            key="postponed",
            default="next",
            choices=("next", "worst"),
            help="what counts of a job that is postponed: worst = its slowest run after H, times "
            "rho, as in the paper; next = its fastest run after H, as all "
            "other tardiness",
        ),
        PolicySetting(
            key="interval_s",
            default=300.0,
            low=1.0,
            high=86_400.0,
            unit="s",
            help="all is planned anew so long after the last time, if nothing happens before (H)",
        ),
        PolicySetting(
            key="energy",
            default="nodes",
            choices=("nodes", "jobs"),
            help="what energy counts: nodes = of each node until its last job ends, and what jobs "
            "add to it; jobs = of each job as if it had its node to itself, as in the paper",
        ),
        PolicySetting(
            key="others",
            default=1.0,
            low=0.0,
            high=1.0,
            help="with energy = jobs: the share of its energy costs that counts of a job that is "
            "not the first to end on its node; 0 in the paper",
        ),
        PolicySetting(
            key="haste",
            default=0.001,
            low=0.0,
            high=1.0,
            help="share of the cost of its tardiness that every second until its end counts, late "
            "or not: what is done early leaves GPUs to those that come; 0 in the paper",
        ),
        PolicySetting(
            key="restart_s",
            default=60.0,
            low=0.0,
            high=86_400.0,
            unit="s",
            help="what a pre-emption costs a job of which nothing was learnt",
        ),
        PolicySetting(
            key="gpu_levels",
            default=1,
            low=1,
            high=8,
            help="limits of GPUs to choose among, from half of the greatest up; 1 = the greatest",
        ),
        PolicySetting(
            key="passes",
            default=100,
            low=1,
            high=100_000,
            help="greedy passes (MaxIt; 1000 in the paper)",
        ),
        PolicySetting(
            key="attempts",
            default=10_000,
            low=0,
            high=1_000_000,
            help="plans that are ruined and recreated after that; 0 = the search of the paper",
        ),
        PolicySetting(
            key="seed",
            default=1,
            low=0,
            high=1_000_000,
            help="what the search draws its changes from",
        ),
    ),
)
