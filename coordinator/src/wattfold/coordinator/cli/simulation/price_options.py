"""The option of `compare` to hold jobs back for cheaper hours, and the runs that it adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS

if TYPE_CHECKING:
    from wattfold.simulator.runs.case import SimulationCase

F = TypeVar("F", bound=Callable[..., Any])


def price_hold_option(command: F) -> F:
    """Add `--price-hold`."""
    return click.option(
        "--price-hold",
        type=DURATION_NS,
        metavar="DURATION",
        help="Hold each job back for at most this time until its energy is cheapest, as queues "
        "with price_hold_max_s do. Each policy runs without and with holds (+held). Needs "
        "--energy-price with a table or a file.",
    )(command)


def check_price_hold(options: dict[str, Any]) -> None:
    """Raise BadRequestError if the prices do not change, or jobs train."""
    if not options["price_hold"]:
        return
    if options["training"] is not None:
        raise BadRequestError(
            "--price-hold is not for training jobs: andreas, edf and priority plan with prices "
            "themselves (--set andreas.price_file=FILE)"
        )
    from wattfold.coordinator.cli.simulation.training_options import price_of

    if not price_of(options["energy_price"]).changes:
        raise BadRequestError(
            "--price-hold needs prices that change; add --energy-price with a table of the day "
            "such as '0:00 0.12, 7:00 0.24', or with a CSV file"
        )


def with_holds(cases: Sequence[SimulationCase], options: dict[str, Any]) -> list[SimulationCase]:
    """Return each case without and with holds."""
    hold_ns = options["price_hold"] or 0
    kinds = (0, hold_ns) if hold_ns else (0,)
    return [replace(case, price_hold_ns=kind) for case in cases for kind in kinds]
