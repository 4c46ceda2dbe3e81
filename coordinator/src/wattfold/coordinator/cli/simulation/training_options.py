"""Options of `simulate` and `compare` for training jobs, and for the cost of energy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE

if TYPE_CHECKING:
    from wattfold.coordinator.models.energy_price import EnergyPrice
    from wattfold.simulator.engine.prices import Prices

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PUE = 1.0
OF_PRICES = ("energy_price", "pue")
OF_TRAINING = ("epoch_times", "late_cost")
OF_LOGS = (
    "jobs",
    "load",
    "first",
    "count",
    "gamma",
    "procs_per_node",
    "cut_sizes",
    "end_at_limit",
    "exact_estimates",
    "annotations",
    "priorities",
    "queue_waits",
    "limits",
    "malleable",
    "requests",
    "share_nodes",
    "snapshots",
    "run_times",
    "predictors",
)
"""Options without effect on training jobs."""


def training_options(command: F) -> F:
    """Add `--training`, `--epoch-times` and the options for prices to a command."""
    from wattfold.simulator.choices import LATE_EUR_H

    for option in (
        click.option(
            "--pue",
            type=click.FloatRange(1.0, 9.9),
            default=DEFAULT_PUE,
            show_default=True,
            help="Power usage effectiveness: factor for the energy of the nodes.",
        ),
        click.option(
            "--late-cost",
            type=click.FloatRange(0),
            default=LATE_EUR_H,
            show_default=True,
            metavar="EUR",
            help="Cost of one hour of tardiness of a job of weight 1.",
        ),
        click.option(
            "--energy-price",
            default="0",
            show_default=True,
            metavar="EUR|TABLE|FILE",
            help="Price of a kWh: a number in EUR, a daily table in UTC ('0:00 0.12, 7:00 "
            "0.24'), or a CSV file of a series in EUR/MWh with lines such as "
            "2024-05-01T00:00Z,90.1. With a series, submissions count from 1970. Policies that "
            "use prices have their own settings for them.",
        ),
        click.option(
            "--epoch-times",
            type=LOG_FILE,
            metavar="FILE",
            help="CSV file with epoch times: app, gpu_model, gpus, epoch_s and, for lower "
            "limits, static_w, full_w, knee, beta. Needs --training.",
        ),
        click.option(
            "--training",
            type=LOG_FILE,
            metavar="FILE",
            help="CSV file of training jobs, instead of --log: job_id, submit_s, app, epochs and "
            "any of due_s, weight, gpus_min, gpus_max, gpu_model, snapshot_epochs, user. Needs "
            "--machine and --epoch-times.",
        ),
    ):
        command = option(command)
    return command


def check_training(options: dict[str, Any]) -> None:
    """Raise BadRequestError if the options of training jobs are incomplete."""
    if options["training"] is None:
        return
    if options["epoch_times"] is None:
        raise BadRequestError(
            "--training needs epoch times of its applications; add --epoch-times FILE"
        )
    if options["machine_file"] is None:
        raise BadRequestError("--training needs nodes with GPUs; add --machine FILE")


def prices_of(options: dict[str, Any]) -> Prices | None:
    """Return the prices for training jobs or holds; None otherwise. Raises BadRequestError."""
    from wattfold.coordinator.models.training_cost import Tariff
    from wattfold.simulator.engine.prices import Prices

    if options["training"] is None and not options.get("price_hold"):
        return None
    price = price_of(options["energy_price"])
    return Prices(tariff=Tariff(price=price, pue=options["pue"]), late_eur_h=options["late_cost"])


def price_of(text: str) -> EnergyPrice:
    """Return one price, a table of the day or the series of a file. Raises BadRequestError."""
    from wattfold.coordinator.models.energy_price import (
        EnergyPrice,
        PriceError,
        parse_series,
        parse_table,
    )

    path = Path(text)
    try:
        if path.suffix == ".csv" or path.exists():
            return parse_series(path.read_text(encoding="utf-8"))
        return parse_table(text) if ":" in text else EnergyPrice.constant(float(text))
    except (OSError, UnicodeDecodeError, PriceError) as error:
        raise BadRequestError(f"--energy-price {text}: {error}") from error
    except ValueError:
        raise BadRequestError(
            f"--energy-price {text!r} is neither a price, a daily table nor a file; expected "
            "for example 0.172, '0:00 0.12, 7:00 0.24' or prices.csv"
        ) from None
