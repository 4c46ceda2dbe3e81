"""Settings of `constraint` and `constraint-cp`."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.policies.description import (
    PolicySettings,
    patience_setting,
    same_setting,
    setting,
    size_setting,
)


@dataclass(frozen=True, kw_only=True)
class ListSettings(PolicySettings):
    """Settings of `constraint`."""

    patience: float = patience_setting()
    size: str = size_setting()
    evaluations: int = setting(
        32,
        help="number of plans that a search evaluates with up to 100 waiting jobs; with more "
        "jobs, fewer",
        within=(0, 2000),
    )
    seed: int = setting(1, help="seed of the search", within=(0, 1_000_000))
    depth: int = setting(
        10,
        help="number of blocked jobs with reserved resources when a list is scheduled",
        within=(0, 1000),
    )
    lateness_weight: float = setting(
        1.0,
        help="weight of lateness, in expected waits, relative to the wait itself",
        within=(0.0, 1000.0),
    )
    late_weight: float = setting(
        0.2, help="cost of each late job, in expected waits", within=(0.0, 1000.0)
    )
    wait_s: float = setting(
        86_400.0,
        help="expected wait of jobs whose queue does not state an expected wait",
        within=(1.0, 1e9),
        unit="s",
    )
    caps: int = setting(
        3,
        help="number of caps that a job may be planned with if power is short; 1 = the maximum "
        "only",
        within=(1, 4),
    )
    power_margin: float = setting(
        0.1,
        help="margin of the cap above the predicted power of the job, as a fraction",
        within=(0.0, 10.0),
    )
    ratios: str = setting(
        "plan",
        help="use of predicted run times: plan = in the whole plan; order = only for the "
        "order of the list",
        choices=("plan", "order"),
    )
    repair: str = setting(
        "hard",
        help="plans of up to 100 waiting jobs that CP-SAT repairs, which needs OR-Tools "
        "(wattfold[cp]): hard = plans with units placed together, reserved nodes or a choice "
        "of caps",
        choices=("never", "hard", "always"),
    )
    repair_s: float = setting(
        0.5,
        help="maximum time for repairing a plan; limits of the search may end it earlier",
        within=(0.05, 60.0),
        unit="s",
    )


@dataclass(frozen=True, kw_only=True)
class CpSettings(PolicySettings):
    """Settings of `constraint-cp`."""

    patience: float = same_setting(ListSettings, "patience")
    size: str = same_setting(ListSettings, "size")
    seed: int = same_setting(ListSettings, "seed")
    depth: int = same_setting(ListSettings, "depth")
    wait_s: float = same_setting(ListSettings, "wait_s")
    caps: int = same_setting(ListSettings, "caps")
    power_margin: float = same_setting(ListSettings, "power_margin")
    ratios: str = same_setting(ListSettings, "ratios")
    jobs: int = setting(
        100,
        help="maximum number of waiting jobs in the model; of more jobs, those that lists start "
        "first",
        within=(1, 2000),
    )
    search_s: float = setting(
        2.0,
        help="maximum time of a search; limits of the search may end it earlier",
        within=(0.05, 600.0),
        unit="s",
    )


PlanSettings = ListSettings | CpSettings
