"""The options of `wattfold simulate`, and the cases they amount to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.cli.shared.errors import BadRequestError
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
    of_policy,
    refuse_unmeant,
)
from wattfold.coordinator.cli.simulation.queue_waits import parse_queue_wait
from wattfold.coordinator.cli.simulation.simulate_messages import message_level, restarts_of
from wattfold.coordinator.cli.simulation.training_options import (
    OF_LOGS,
    OF_TRAINING,
    check_training,
    prices_of,
    training_options,
)
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE, policy_of
from wattfold.coordinator.models.forecast import METHODS, USER
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.descriptions import Pool
from wattfold.coordinator.simulation.pool.budget import Budget, read_budget
from wattfold.coordinator.simulation.pool.machine import Machine
from wattfold.coordinator.simulation.pool.machine_file import read_machine
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.progress import Preemption
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel
from wattfold.coordinator.simulation.runs.case import (
    MODELS,
    PolicyChoice,
    SimulationCase,
    WorkloadSource,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetText:
    """A power, or the name of a file of steps."""

    text: str

    def read(self, full_uw: int) -> Budget:
        """The budget; ``full_uw`` where none was given. Raises ValueError."""
        if not self.text:
            return Budget.constant(full_uw)
        path = Path(self.text)
        try:
            return Budget.constant(parse_power_uw(self.text))
        except ValueError:
            if path.suffix == ".csv" or path.exists():
                return read_budget(path)
            raise ValueError(
                f"budget: neither a power nor a file: {self.text!r}; expected for example 4.75MW "
                "or budget.csv"
            ) from None


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
AT_ONE_CAP = {Pool.EASY, Pool.FCFS, Pool.CONSERVATIVE}


def refuse_unused(context: click.Context, options: dict[str, Any]) -> None:
    """Refuses options that none of the policies or models chosen would look at."""
    names = options["policies"] or ("easy",)
    pools = {entry.variant.pool for entry in map(registry.find, names) if entry is not None}
    chosen = ", ".join(names)
    if Pool.PARM not in pools:
        _refuse_given(context, OF_PARM, f"is for PARM, and not for {chosen}")
    if not pools & {*AT_ONE_CAP, Pool.EASY_UNIFORM}:
        _refuse_given(context, ("size",), f"is for backfilling, and not for {chosen}")
    if not pools & AT_ONE_CAP:
        _refuse_given(context, ("cap",), f"is for backfilling, and not for {chosen}")
    refuse_other_machine(context, options)
    if options["level"] == "pool" and Pool.PARM not in pools:
        _refuse_given(context, ("restarts",), f"in a pool is for PARM, and not for {chosen}")
    if options["level"] == "pool" and options["restarts"] is not None:
        _refuse_given(context, ("free_resizes",), "does not go with --restarts")
    refuse_unmeant(options["settings"], names)
    refuse_unused_jobs(context, options)


def refuse_other_machine(context: click.Context, options: dict[str, Any]) -> None:
    """Refuses options of nodes that are counted beside a file of classes, and the other way."""
    if options["machine_file"] is not None:
        _refuse_given(
            context, OF_COUNTED, "is for like nodes; --machine FILE says it of each class"
        )
    else:
        _refuse_given(context, OF_CLASSES, "needs --machine FILE")


def refuse_unused_jobs(context: click.Context, options: dict[str, Any]) -> None:
    """Refuses options of other sources of jobs than the one chosen."""
    if options["training"] is not None:
        _refuse_given(context, OF_LOGS, "is nothing to --training, whose files say it all")
        check_training(options)
    else:
        _refuse_given(context, OF_TRAINING, "needs --training FILE")
    if options["model"] != "poisson":
        _refuse_given(context, ("load",), "is for --model poisson")
    if options["log"] is not None:
        _refuse_given(context, ("jobs",), "is for models; --count takes so many jobs of a log")


def _refuse_given(context: click.Context, names: Sequence[str], why: str) -> None:
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and given:
            raise BadRequestError(f"{parameter.opts[0]} {why}")


def cases_of(options: dict[str, Any], folder: Path | None) -> list[SimulationCase]:
    """One case a policy and seed. Raises BadRequestError and ValueError."""
    check_one_source(options)
    names: Sequence[str] = list(dict.fromkeys(options["policies"])) or ["easy"]
    if options["placement"] == "cuboid" and not options["torus"]:
        raise BadRequestError("--placement cuboid needs the --torus that it finds cuboids in")
    run_times = RunTimeModel(options["run_times"]) if options["run_times"] else None
    choices = [_policy(name, options) for name in names]
    source = source_of(options, choices, run_times)
    machine = machine_of(options)
    if isinstance(machine, Machine):
        _check_caps(machine, options)
    budget = BudgetText(text=options["budget_text"]).read(machine.full_uw)
    if options["seeds"] > 1 and not source.profiles and options["model"] is None:
        raise BadRequestError("nothing is drawn from a seed here: every run would be the same")
    messages, restarts = message_level(options), restarts_of(options)
    cases = []
    for choice, predict in product(choices, predictors_of(options)):
        for seed in range(options["seed"], options["seed"] + options["seeds"]):
            case = SimulationCase(
                source=source,
                machine=machine,
                budget=budget,
                policy=choice,
                seed=seed,
                model=run_times,
                placement=options["placement"],
                resize_costs=not options["free_resizes"],
                preemption=preemption_of(options),
                restarts=restarts,
                messages=messages,
                predict=predict,
                prices=prices_of(options),
            )
            cases.append(_in_folder(case, folder))
    return cases


def check_one_source(options: dict[str, Any]) -> None:
    """Raises BadRequestError unless the jobs are named, once."""
    named = [name for name in ("log", "model", "training") if options[name] is not None]
    if len(named) != 1:
        raise BadRequestError("name the jobs: either --log FILE or --model NAME or --training FILE")


def predictors_of(options: dict[str, Any]) -> Sequence[str]:
    """As `SimulationCase.predict`, each once; users' words where nothing is said."""
    named = dict.fromkeys(options["predictors"])
    return ["" if one == USER else one for one in named] or [""]


def _check_caps(machine: Machine, options: dict[str, Any]) -> None:
    """Caps that nodes cannot hold would be refused by each policy in its own words, or not."""
    caps = list(options["caps"] or ())
    if options["cap"] is not None:
        caps.append(uw_from_w(options["cap"]))
    least, most = w_from_uw(machine.cap_uw_min), w_from_uw(machine.cap_uw_max)
    for cap_uw in caps:
        if not machine.cap_uw_min <= cap_uw <= machine.cap_uw_max:
            raise BadRequestError(
                f"a cap of {w_from_uw(cap_uw):g} W is outside {least:g} to {most:g} W "
                "(--cap-min and --cap-max)"
            )


def _in_folder(case: SimulationCase, folder: Path | None) -> SimulationCase:
    return replace(case, folder=folder / case.label) if folder is not None else case


def source_of(
    options: dict[str, Any], choices: Sequence[PolicyChoice], run_times: RunTimeModel | None
) -> WorkloadSource:
    """The jobs that the options name; with profiles where a choice or the run times need them."""
    needs = any(
        choice.entry.family.needs_profiles or choice.values().get("size") == "min"
        for choice in choices
    )
    return WorkloadSource(
        log=options["log"],
        model=options["model"] or "",
        jobs=options["jobs"],
        load=options["load"],
        odd_rows=policy_of(options["on_odd"], options["exceptions"]),
        first=options["first"],
        count=options["count"],
        gamma=options["gamma"],
        procs_per_node=options["procs_per_node"],
        cut_sizes=options["cut_sizes"],
        exact_estimates=options["exact_estimates"],
        annotations=options["annotations"],
        profiles=needs or run_times is RunTimeModel.PASS or options["annotations"] is not None,
        malleable_share=options["malleable"],
        priorities=options["priorities"],
        queue_waits=options["queue_waits"],
        ends_at_limit=options["end_at_limit"],
        requests=options.get("requests"),
        share_nodes=options.get("share_nodes", False),
        training=options["training"],
        epoch_times=options["epoch_times"],
    )


def preemption_of(options: dict[str, Any]) -> Preemption | None:
    """What jobs keep that are ended to start again; None where nothing is said of it."""
    if options["snapshots"] is None and options["restart_cost"] is None:
        return None
    return Preemption(
        snapshot_ns=options["snapshots"] or 0, restart_ns=options["restart_cost"] or 0
    )


def machine_of(options: dict[str, Any]) -> Machine | NodeMachine:
    """The machine that the options describe. Raises BadRequestError and ValueError."""
    if options.get("machine_file") is not None:
        return read_machine(options["machine_file"])
    if options["nodes"] is None:
        raise BadRequestError("name the machine: either --nodes COUNT or --machine FILE")
    return Machine.of_watts(
        options["nodes"],
        base_w=options["base"],
        dram_w=options["dram"],
        cap_w_min=options["cap_min"],
        cap_w_max=options["cap_max"],
        idle_w=options["idle"],
        torus=options["torus"] or (),
    )


def _policy(name: str, options: dict[str, Any]) -> PolicyChoice:
    return PolicyChoice(
        name=name,
        settings=of_policy(name, options["settings"]),
        size=options["size"],
        cap_uw=uw_from_w(options["cap"]) if options["cap"] is not None else None,
        alpha=options["alpha"],
        sizes_count=options["sizes_count"],
        levels_count=options["levels_count"],
        caps_uw=options["caps"],
        resize_interval_s=options["resize_interval"] / 1e9,
        gap=options["gap"],
        solver=options["solver"],
        price_resizes=options["price_resizes"],
        dram_levels_uw=options["dram_levels"] or (),
    )
