"""Description of `policies.fifo.pbs`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.policies.description import (
    PATIENCE,
    Description,
    PolicySetting,
    PolicyVariant,
    Values,
)

DEPTH_MAX = 5_000


def _made(order: str, values: Values) -> Policy:
    from wattfold.coordinator.policies.fifo.pbs import Pbs

    return Pbs(
        order=order,
        reading=str(values["reading"]),
        depth=int(values["depth"]),
        size=str(values["size"]),
        patience=float(values["patience"]),
    )


DESCRIPTION = Description(
    name="pbs",
    title="order of submission or of requested time, reserved resources for blocked jobs",
    audience="researchers who need the baselines of the literature for heterogeneous clusters",
    fallback="pbs-walltime: pbs-fifo; then in-turn",
    citation=(
        "T. Bridi, M. Lombardi, A. Bartolini, L. Benini, M. Milano: A CP Scheduler for "
        "High-Performance Computers (its baselines)."
    ),
    variants=(
        PolicyVariant(
            name="pbs-fifo",
            title="order of submission, reserved resources for 10 blocked jobs",
            service=partial(_made, "fifo"),
            starves_nobody=True,
        ),
        PolicyVariant(
            name="pbs-walltime",
            title="shortest requested time first, reserved resources for 400 blocked jobs",
            service=partial(_made, "walltime"),
        ),
    ),
    settings=(
        replace(PATIENCE, help=f"pbs-walltime: {PATIENCE.help}"),
        PolicySetting(
            key="reading",
            default="reserve",
            choices=("reserve", "look"),
            help="reserve: blocked jobs at the head of the queue get reserved resources and "
            "other jobs start next to them; look: jobs behind them are not considered",
        ),
        PolicySetting(
            key="depth",
            default=0,
            low=0,
            high=DEPTH_MAX,
            help="number of blocked jobs with reserved resources; 0 = 10, or 400 in order of "
            "requested time",
        ),
        PolicySetting(
            key="size",
            default="max",
            choices=("min", "max"),
            help="end of the size range that a job gets",
        ),
    ),
)
