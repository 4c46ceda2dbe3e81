"""Refusal of options that no chosen policy or model uses, for `wattfold simulate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.simulation.policy_settings import refuse_unmeant
from wattfold.coordinator.cli.simulation.training_options import (
    OF_LOGS,
    OF_PRICES,
    OF_TRAINING,
    check_training,
)
from wattfold.coordinator.policies.description import Pool

OF_PARM = (
    "alpha",
    "sizes_count",
    "levels_count",
    "caps",
    "resize_interval",
    "gap",
    "solver",
    "dram_levels",
    "price_resizes",
)
OF_COUNTED = ("nodes", "base", "dram", "cap_min", "cap_max", "idle", "torus", "placement")
OF_CLASSES = ("requests", "share_nodes", "snapshots", "restart_cost")


def refuse_unused(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that none of the chosen policies or models uses."""
    from wattfold.coordinator.policies import registry

    names = options["policies"] or ("easy",)
    pools = {entry.variant.pool for entry in map(registry.find, names) if entry is not None}
    chosen = ", ".join(names)
    if Pool.PARM not in pools:
        _refuse_given(context, OF_PARM, f"applies to PARM only, not to {chosen}")
    if not pools & {Pool.BACKFILL, Pool.EASY_UNIFORM}:
        _refuse_given(context, ("size",), f"applies to backfilling only, not to {chosen}")
    if Pool.BACKFILL not in pools:
        _refuse_given(context, ("cap",), f"applies to backfilling only, not to {chosen}")
    refuse_other_machine(context, options)
    if options["level"] == "pool" and Pool.PARM not in pools:
        _refuse_given(
            context, ("restarts",), f"with --level pool applies to PARM only, not to {chosen}"
        )
    if options["level"] == "pool" and options["restarts"] is not None:
        _refuse_given(context, ("free_resizes",), "cannot be combined with --restarts")
    refuse_unmeant(options["settings"], names)
    refuse_unused_jobs(context, options)


def refuse_other_machine(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options of counted nodes together with a file of classes, and vice versa."""
    if options["machine_file"] is not None:
        _refuse_given(
            context,
            OF_COUNTED,
            "applies to identical nodes; with --machine FILE, set it in each class",
        )
    else:
        _refuse_given(context, OF_CLASSES, "needs --machine FILE")


def refuse_unused_jobs(context: click.Context, options: dict[str, Any]) -> None:
    """Refuse options of other sources of jobs than the chosen source."""
    if options["training"] is not None:
        _refuse_given(context, OF_LOGS, "cannot be combined with --training")
        check_training(options)
    else:
        _refuse_given(context, OF_TRAINING, "needs --training FILE")
        if not options.get("price_hold"):
            or_hold = " or --price-hold" if "price_hold" in options else ""
            _refuse_given(context, OF_PRICES, f"needs --training FILE{or_hold}")
    if options["model"] != "poisson":
        _refuse_given(context, ("load",), "applies to --model poisson only")
    if options["log"] is not None:
        _refuse_given(context, ("jobs",), "applies to --model only; use --count with a log")


def _refuse_given(context: click.Context, names: Sequence[str], why: str) -> None:
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and given:
            raise BadRequestError(f"{parameter.opts[0]} {why}")
