"""Options of `wattfold simulate`, and the parsers of their values."""

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
from wattfold.coordinator.cli.simulation.limits_file import limits_option
from wattfold.coordinator.cli.simulation.policy_settings import POLICY, SETTING
from wattfold.coordinator.cli.simulation.site_queue.queue_waits import parse_queue_wait
from wattfold.coordinator.cli.simulation.training_options import training_options
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE
from wattfold.coordinator.models.forecast import METHODS
from wattfold.simulator.choices import MODELS, RunTimeModel

F = TypeVar("F", bound=Callable[..., Any])

MAX_JOBS = 10_000_000
MAX_CHOICES = 1000
"""Maximum number of sizes or caps per job. The time of a planning round grows with their product.
"""
MAX_SEEDS = 10_000


class Real(click.FloatRange):
    """A finite number within a range; click itself accepts NaN in every range."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or raise click's own failure."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def parse_torus(text: str) -> tuple[int, ...]:
    """Parse `8x8x16`. Raises ValueError."""
    parts = text.lower().split("x")
    if not all(part.isdecimal() and 0 < int(part) < 10**6 for part in parts):
        raise ValueError(f"not the dimensions of a torus: {text!r}; expected for example 8x8x16")
    return tuple(int(part) for part in parts)


def parse_priority(text: str) -> tuple[int, float]:
    """Parse `12=2.5`: a user's number and weight. Raises ValueError."""
    user, _, weight = text.partition("=")
    try:
        found = int(user), float(weight)
    except ValueError:
        found = 0, 0.0
    if not 0 < found[1] < 1e6:
        raise ValueError(f"not a user and a weight above zero: {text!r}; expected for example 7=2")
    return found


def parse_snapshots(text: str) -> int:
    """Parse `end`, `none` or a duration; return nanoseconds as in `Preemption`.

    Raises ValueError.
    """
    words = {"end": 0, "none": -1}
    if text in words:
        return words[text]
    every_ns = parse_duration_ns(text)
    if not every_ns:
        raise ValueError(
            "a snapshot interval of 0 s is not possible; give end, none or a time above zero"
        )
    return every_ns


def parse_watts(text: str) -> float:
    """Parse `38` or `1.5kW`; zero is allowed. Raises ValueError."""
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
    click.option(
        "--log",
        type=LOG_FILE,
        metavar="FILE",
        help="Job log in the Standard Workload Format, plain or gzip.",
    ),
    click.option(
        "--model",
        type=click.Choice(MODELS),
        help="Model that generates the jobs, instead of --log.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(1, MAX_JOBS),
        default=1000,
        show_default=True,
        help="Number of jobs to generate with --model.",
    ),
    click.option(
        "--load",
        type=Real(0, min_open=True),
        default=1.0,
        show_default=True,
        help="Load, for --model poisson: arrival rate times mean service time.",
    ),
    click.option(
        "--first",
        type=click.IntRange(0),
        default=0,
        help="Number of jobs to skip at the start. Default: 0.",
    ),
    click.option("--count", type=click.IntRange(1), help="Maximum number of jobs. Default: all."),
    click.option(
        "--gamma",
        type=Real(0),
        default=1.0,
        show_default=True,
        help="Factor for the times between arrivals.",
    ),
    click.option(
        "--procs-per-node",
        type=click.IntRange(1, MAX_SIZE),
        default=1,
        show_default=True,
        help="Number of processors of the log per node.",
    ),
    click.option(
        "--cut-sizes",
        is_flag=True,
        help="Cut sizes to the largest job that the machine and the budget allow at full power.",
    ),
    click.option(
        "--end-at-limit",
        is_flag=True,
        help="Treat the requested time as a time limit: jobs that reach it are ended and counted.",
    ),
    click.option(
        "--exact-estimates",
        is_flag=True,
        help="Set the requested time of every job to its run time.",
    ),
    click.option(
        "--annotations",
        type=LOG_FILE,
        metavar="FILE",
        help="CSV file with sizes and profiles of the jobs, as `wattfold workload` writes it. "
        "Default: drawn from the seed under a budget, and for policies that choose sizes.",
    ),
    click.option(
        "--priority",
        "priorities",
        type=Parsed("priority", parse_priority),
        multiple=True,
        metavar="USER=WEIGHT",
        help="Weight of the jobs of a user, by number, such as 7=2. Default: 1 for every user. "
        "May be repeated.",
    ),
    click.option(
        "--queue-wait",
        "queue_waits",
        type=Parsed("wait", parse_queue_wait),
        multiple=True,
        metavar="QUEUE=[EXPECTED,]MAX",
        help="Expected and maximum wait of a queue of the log, by its number, such as 2=24h or "
        "2=6h,24h. Policies may use them. The results show how well they were met. May be "
        "repeated.",
    ),
    limits_option,
    click.option(
        "--malleable",
        type=Real(0, 1),
        default=1.0,
        show_default=True,
        metavar="SHARE",
        help="Fraction of the jobs that may be resized while they run. It counts for jobs with "
        "profiles, or for all jobs if nodes are shared by cores.",
    ),
)

classes_options = _options(
    click.option(
        "--machine",
        "machine_file",
        type=LOG_FILE,
        metavar="FILE",
        help="TOML file of [[class]] tables for heterogeneous nodes, which jobs may share. "
        "Replaces --nodes.",
    ),
    click.option(
        "--requests",
        type=LOG_FILE,
        metavar="FILE",
        help="CSV file with the requests of jobs per node: job_id and any of cores, memory_mib, "
        "gpus, features. Needs --machine.",
    ),
)

nodes_option = _options(
    click.option(
        "--nodes", type=click.IntRange(1, MAX_SIZE), help="Number of nodes of the machine."
    ),
    classes_options,
    click.option(
        "--snapshots",
        type=Parsed("snapshots", parse_snapshots),
        metavar="end|none|DURATION",
        help="Progress that a job keeps when it is ended to start again. end: all. none: "
        "nothing. DURATION: the state of its last snapshot, with snapshots at this interval. "
        "Default: end.",
    ),
    click.option(
        "--restart-cost",
        type=DURATION_NS,
        help="Time without progress when a job that was ended starts again, such as 60s. "
        "Default: none.",
    ),
    click.option(
        "--share-nodes",
        is_flag=True,
        help="Let jobs with fewer than --procs-per-node processors share nodes: each uses that "
        "number of cores of one node. Needs --machine.",
    ),
)

machine_options = _options(
    click.option(
        "--base",
        type=WATTS,
        default="38",
        show_default=True,
        help="Base power of a node in use, outside packages and DRAM, in watts.",
    ),
    click.option(
        "--dram", type=WATTS, default="18", show_default=True, help="DRAM cap of a node, in watts."
    ),
    click.option(
        "--cap-min",
        type=WATTS,
        default="25",
        show_default=True,
        help="Minimum package cap of a node, in watts. It is also the floor.",
    ),
    click.option(
        "--cap-max",
        type=WATTS,
        default="60",
        show_default=True,
        help="Maximum package cap of a node, in watts.",
    ),
    click.option(
        "--idle",
        type=WATTS,
        help="Charge of an idle node, in watts. Default: base power, DRAM cap and minimum "
        "package cap.",
    ),
    click.option(
        "--torus",
        type=TORUS,
        metavar="XxYxZ",
        help="Dimensions of the torus network, such as 8x8x16.",
    ),
    click.option(
        "--placement",
        type=click.Choice(["any", "first", "compact", "cuboid"]),
        default="any",
        show_default=True,
        help="Strategy that selects the nodes of a job.",
    ),
    click.option(
        "--budget",
        "budget_text",
        default="",
        metavar="WATTS|FILE",
        help="Power budget: watts such as 4.75MW, or a CSV file with "
        "time_s,budget_w[,deadline_s][,notice_s]. Default: enough for all nodes at full power.",
    ),
)

predict_option = click.option(
    "--predict",
    "predictors",
    type=click.Choice(METHODS),
    multiple=True,
    help="Source of run times for planning: the user's request, or a prediction from similar "
    "earlier jobs. May be repeated: each policy runs with each source. Default: user.",
)

policy_options = _options(
    predict_option,
    click.option(
        "--policy",
        "policies",
        type=POLICY,
        multiple=True,
        metavar="NAME",
        help="Policy to simulate (see `wattfold policies`). May be repeated to run several "
        "policies side by side. Default: easy.",
    ),
    click.option(
        "--set",
        "settings",
        type=SETTING,
        multiple=True,
        metavar="POLICY.KEY=VALUE",
        help="Setting of a policy, such as parm.alpha=0.5 (see `wattfold policies NAME`). May be "
        "repeated.",
    ),
    click.option(
        "--run-times",
        type=click.Choice([model.value for model in RunTimeModel]),
        help="Model of run times. pass: the profile of the job. ideal: work divided by nodes or "
        "cores. worst-case: the node with the fewest cores limits the job. Default: pass if jobs "
        "have profiles, or else ideal.",
    ),
    click.option(
        "--alpha",
        type=Real(0, 10),
        default=0.28,
        show_default=True,
        help="PARM: weight of waiting (Eq. 8).",
    ),
    click.option(
        "--sizes",
        "sizes_count",
        type=click.IntRange(1, MAX_CHOICES),
        default=8,
        show_default=True,
        help="PARM: maximum number of sizes to choose from for a job.",
    ),
    click.option(
        "--levels",
        "levels_count",
        type=click.IntRange(1, MAX_CHOICES),
        default=6,
        show_default=True,
        help="PARM: maximum number of caps to choose from for a job.",
    ),
    click.option(
        "--caps",
        type=POWERS_UW,
        metavar="W,W,...",
        help="PARM: caps to choose from for every job, in watts, instead of --levels.",
    ),
    click.option(
        "--resize-interval",
        type=DURATION_NS,
        default="500s",
        show_default=True,
        help="PARM: minimum time between two resizes of a job.",
    ),
    click.option(
        "--gap",
        type=Real(0),
        default=1e-3,
        show_default=True,
        help="PARM: relative distance from the optimum that is accepted.",
    ),
    click.option(
        "--solver",
        type=click.Choice(["lagrangian", "glpk", "highs", "greedy"]),
        default="lagrangian",
        show_default=True,
        help="PARM: solver. lagrangian calls glpk if it cannot prove the gap.",
    ),
    click.option(
        "--dram-levels",
        type=POWERS_UW,
        metavar="W,W,...",
        help="PARM: DRAM caps to choose from, in watts. Default: only the default DRAM cap.",
    ),
    click.option("--price-resizes", is_flag=True, help="PARM: consider the cost of resizes."),
    click.option("--free-resizes", is_flag=True, help="Make resizes free of cost."),
    click.option(
        "--size",
        type=click.Choice(["max", "min"]),
        default="max",
        show_default=True,
        help="Backfilling: end of its size range that a job gets.",
    ),
    click.option(
        "--cap", type=WATTS, help="Backfilling: cap of all jobs, in watts. Default: the maximum."
    ),
)

seed_options = _options(
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Seed of everything random in a run.",
    ),
    click.option(
        "--seeds",
        type=click.IntRange(1, MAX_SEEDS),
        default=1,
        help="Number of seeds to run, starting at --seed. Default: 1.",
    ),
)
