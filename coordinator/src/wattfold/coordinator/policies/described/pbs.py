"""What `policies.pbs` says of itself."""

from __future__ import annotations

from functools import partial

from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.descriptions import Description, PolicySetting, Values, Variant

DEPTH_MAX = 5_000


def _made(order: str, values: Values) -> Policy:
    from wattfold.coordinator.policies.pbs import Pbs

    return Pbs(
        order=order,
        reading=str(values["reading"]),
        depth=int(values["depth"]),
        size=str(values["size"]),
    )


DESCRIPTION = Description(
    name="pbs",
    title="in order of submission or of time asked for, with room kept for the first that wait",
    audience="researchers: the baselines that schedulers for unlike nodes are compared with",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers (its baselines)."
    ),
    variants=(
        Variant(
            name="pbs-fifo",
            title="in order of submission, room kept for the first 10 that wait",
            service=partial(_made, "fifo"),
            starves_nobody=True,
        ),
        Variant(
            name="pbs-walltime",
            title="the shortest time asked for first, room kept for the first 400",
            service=partial(_made, "walltime"),
        ),
    ),
    settings=(
        PolicySetting(
            key="reading",
            default="reserve",
            choices=("reserve", "look"),
            help="reserve: room is kept for the first that do not fit, others start beside it; "
            "look: those behind them are not looked at",
        ),
        PolicySetting(
            key="depth",
            default=0,
            low=0,
            high=DEPTH_MAX,
            help="for so many jobs that do not fit room is kept; 0: 10, or 400 by time asked for",
        ),
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="which end of a range counts as asked for",
        ),
    ),
)
