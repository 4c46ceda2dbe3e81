"""The options of `wattfold simulate`, and how their values are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared.parsing import (
    DURATION_NS,
    MAX_SIZE,
    POWERS_UW,
    Parsed,
    parse_duration_ns,
    parse_power_uw,
)
from wattfold.coordinator.cli.simulation.policy_settings import (
    POLICY,
    SETTING,
)
from wattfold.coordinator.cli.simulation.queue_waits import parse_queue_wait
from wattfold.coordinator.cli.simulation.training_options import (
    training_options,
)
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE
from wattfold.coordinator.models.forecast import METHODS
from wattfold.coordinator.simulation.choices import MODELS, RunTimeModel

F = TypeVar("F", bound=Callable[..., Any])

MAX_JOBS = 10_000_000
MAX_CHOICES = 1000
"""Sizes or caps a job; the time of a planning round grows with their product."""
MAX_SEEDS = 10_000


class Real(click.FloatRange):
    """A finite number within a range; click itself takes NaN for one of every range."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or click's own failure."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def parse_torus(text: str) -> tuple[int, ...]:
    """Reads `8x8x16`. Raises ValueError."""
    parts = text.lower().split("x")
    if not all(part.isdecimal() and 0 < int(part) < 10**6 for part in parts):
        raise ValueError(f"not the sides of a torus: {text!r}; expected for example 8x8x16")
    return tuple(int(part) for part in parts)


def parse_priority(text: str) -> tuple[int, float]:
    """Reads `12=2.5`: a user's number and weight. Raises ValueError."""
    user, _, weight = text.partition("=")
    try:
        found = int(user), float(weight)
    except ValueError:
        found = 0, 0.0
    if not 0 < found[1] < 1e6:
        raise ValueError(f"not a user and a weight above zero: {text!r}; expected for example 7=2")
    return found


def parse_snapshots(text: str) -> int:
    """Reads `end`, `none` or a duration; nanoseconds as in `Preemption`. Raises ValueError."""
    words = {"end": 0, "none": -1}
    if text in words:
        return words[text]
    every_ns = parse_duration_ns(text)
    if not every_ns:
        raise ValueError("snapshots every 0 s: give end, none or a time above zero")
    return every_ns


def parse_watts(text: str) -> float:
    """Reads `38` or `1.5kW`; zero is allowed. Raises ValueError."""
    return 0.0 if text.strip() in ("0", "0W", "0.0") else w_from_uw(parse_power_uw(text))


TORUS = Parsed("sides", parse_torus)
WATTS = Parsed("watts", parse_watts)


def _options(*options: Callable[[F], F]) -> Callable[[F], F]:
    def wear(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return wear


job_options = _options(
    training_options,
    click.option("--log", type=LOG_FILE, metavar="FILE", help="A log in SWF, plain or gzip."),
    click.option("--model", type=click.Choice(MODELS), help="Draw the jobs from a model instead."),
    click.option(
        "--jobs",
        type=click.IntRange(1, MAX_JOBS),
        default=1000,
        show_default=True,
        help="Jobs of a model.",
    ),
    click.option(
        "--load",
        type=Real(0, min_open=True),
        default=1.0,
        show_default=True,
        help="Of model poisson.",
    ),
    click.option("--first", type=click.IntRange(0), default=0, help="Leave out so many jobs."),
    click.option("--count", type=click.IntRange(1), help="Take at most so many jobs."),
    click.option(
        "--gamma",
        type=Real(0),
        default=1.0,
        show_default=True,
        help="Multiply the times between arrivals.",
    ),
    click.option(
        "--procs-per-node",
        type=click.IntRange(1, MAX_SIZE),
        default=1,
        show_default=True,
        help="Processors of the log that make a node.",
    ),
    click.option(
        "--cut-sizes",
        is_flag=True,
        help="Cut sizes to what the machine has and the budget feeds at full power.",
    ),
    click.option(
        "--end-at-limit",
        is_flag=True,
        help="What users asked for is a limit: jobs that reach it are ended, and counted.",
    ),
    click.option("--exact-estimates", is_flag=True, help="Users ask for just what jobs take."),
    click.option(
        "--annotations",
        type=LOG_FILE,
        metavar="FILE",
        help="Sizes and profiles of the jobs, as `wattfold workload` writes them. Default: drawn "
        "from the seed where a policy or --run-times needs them.",
    ),
    click.option(
        "--priority",
        "priorities",
        type=Parsed("priority", parse_priority),
        multiple=True,
        metavar="USER=WEIGHT",
        help="Weight of a user's jobs; 1 for all others. May be repeated.",
    ),
    click.option(
        "--queue-wait",
        "queue_waits",
        type=Parsed("wait", parse_queue_wait),
        multiple=True,
        metavar="QUEUE=[EXPECTED,]MAX",
        help="How long jobs of a queue of the log are to wait, by its number: 2=24h. Policies may "
        "go by it, and what was kept of it is told. May be repeated.",
    ),
    click.option(
        "--malleable",
        type=Real(0, 1),
        default=1.0,
        show_default=True,
        metavar="SHARE",
        help="Share of the jobs that may be resized while they run: those with profiles, and all "
        "where nodes are shared by cores.",
    ),
)

classes_options = _options(
    click.option(
        "--machine",
        "machine_file",
        type=LOG_FILE,
        metavar="FILE",
        help="A TOML file of [[class]] tables instead: nodes of several kinds, to be shared.",
    ),
    click.option(
        "--requests",
        type=LOG_FILE,
        metavar="FILE",
        help="What jobs ask of each of their nodes: a CSV file of job_id and any of cores, "
        "memory_mib, gpus, features. Needs --machine.",
    ),
)

nodes_option = _options(
    click.option("--nodes", type=click.IntRange(1, MAX_SIZE), help="Nodes of the machine."),
    classes_options,
    click.option(
        "--snapshots",
        type=Parsed("snapshots", parse_snapshots),
        metavar="end|none|DURATION",
        help="What a job keeps that is ended to start again: all that is done, nothing, or what it "
        "had at its last snapshot. Default: end.",
    ),
    click.option(
        "--restart-cost",
        type=DURATION_NS,
        help="Time without progress when such a job starts again. Default: none.",
    ),
    click.option(
        "--share-nodes",
        is_flag=True,
        help="Jobs of less than --procs-per-node processors ask for so many cores of one node. "
        "Needs --machine.",
    ),
)

machine_options = _options(
    click.option("--base", type=WATTS, default="38", show_default=True, help="Watts beside zones."),
    click.option("--dram", type=WATTS, default="18", show_default=True, help="DRAM cap of a node."),
    click.option("--cap-min", type=WATTS, default="25", show_default=True, help="Package floor."),
    click.option("--cap-max", type=WATTS, default="60", show_default=True, help="Greatest cap."),
    click.option("--idle", type=WATTS, help="Charge of an idle node. Default: as at its floor."),
    click.option("--torus", type=TORUS, metavar="XxYxZ", help="Sides of the network."),
    click.option(
        "--placement",
        type=click.Choice(["any", "first", "compact", "cuboid"]),
        default="any",
        show_default=True,
        help="Which nodes a job gets.",
    ),
    click.option(
        "--budget",
        "budget_text",
        default="",
        metavar="WATTS|FILE",
        help="4.75MW, or a CSV file with time_s,budget_w[,deadline_s][,notice_s]. "
        "Default: never binds.",
    ),
)

predict_option = click.option(
    "--predict",
    "predictors",
    type=click.Choice(METHODS),
    multiple=True,
    help="What plans take run times for: the user's word, or what runs like it took, which is "
    "learnt as jobs end. May be repeated: each policy with each. Default: user.",
)

policy_options = _options(
    predict_option,
    click.option(
        "--policy",
        "policies",
        type=POLICY,
        multiple=True,
        metavar="NAME",
        help="May be repeated: runs side by side. `wattfold policies` lists them. Default: easy.",
    ),
    click.option(
        "--set",
        "settings",
        type=SETTING,
        multiple=True,
        metavar="POLICY.KEY=VALUE",
        help="A setting of a policy, as parm.alpha=0.5; `wattfold policies NAME` lists them. "
        "May be repeated.",
    ),
    click.option(
        "--run-times",
        type=click.Choice([model.value for model in RunTimeModel]),
        help="What progress follows. Default: pass where jobs have profiles, else ideal.",
    ),
    click.option(
        "--alpha", type=Real(0, 10), default=0.28, show_default=True, help="Eq. 8 of PARM."
    ),
    click.option(
        "--sizes", "sizes_count", type=click.IntRange(1, MAX_CHOICES), default=8, show_default=True
    ),
    click.option(
        "--levels",
        "levels_count",
        type=click.IntRange(1, MAX_CHOICES),
        default=6,
        show_default=True,
    ),
    click.option("--caps", type=POWERS_UW, metavar="W,W,...", help="Caps of PARM for all jobs."),
    click.option(
        "--resize-interval",
        type=DURATION_NS,
        default="500s",
        show_default=True,
        help="A job is resized at most once in it.",
    ),
    click.option("--gap", type=Real(0), default=1e-3, show_default=True),
    click.option(
        "--solver",
        type=click.Choice(["lagrangian", "glpk", "highs", "greedy"]),
        default="lagrangian",
        show_default=True,
    ),
    click.option(
        "--dram-levels",
        type=POWERS_UW,
        metavar="W,W,...",
        help="PARM: DRAM caps to choose from. Default: the standing one.",
    ),
    click.option("--price-resizes", is_flag=True, help="PARM sees what a resize costs."),
    click.option("--free-resizes", is_flag=True, help="Resizes cost nothing."),
    click.option(
        "--size",
        type=click.Choice(["max", "min"]),
        default="max",
        show_default=True,
        help="Backfilling: which end of its range a job gets.",
    ),
    click.option("--cap", type=WATTS, help="Backfilling: one cap for all jobs."),
)

seed_options = _options(
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True),
    click.option(
        "--seeds", type=click.IntRange(1, MAX_SEEDS), default=1, help="So many seeds from --seed."
    ),
)
