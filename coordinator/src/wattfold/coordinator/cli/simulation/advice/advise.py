"""`wattfold advise`: the past of a site under other policies and budgets, and which to take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import DURATION_NS, MOMENT
from wattfold.coordinator.cli.simulation.compare import check_plot
from wattfold.coordinator.cli.simulation.compare_budgets import save_sweep, sweep_points
from wattfold.coordinator.cli.simulation.policy_settings import (
    POLICIES,
    SETTING,
    GivenSetting,
    of_policy,
    refuse_unmeant,
)
from wattfold.coordinator.cli.simulation.runs.simulate import simulation_failures
from wattfold.coordinator.cli.workloads.workload_options import LOG_FILE, expected_failures
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.simulation.advice.past_jobs import PastReading
    from wattfold.coordinator.cli.simulation.site_queue.site_reading import SiteReading
    from wattfold.coordinator.policies.description import Value
    from wattfold.simulator.results.budget_sweep import SweepPoint
    from wattfold.simulator.runs.case import PolicyChoice
    from wattfold.simulator.runs.past import Segments

HISTORY_MAX = 100_000
"""Maximum number of ended jobs that the coordinator returns."""
SHARES = "80,90,100,110"
GOAL_WORDS = ("completion", "wait", "slowdown", "energy")


def parse_shares(text: str) -> tuple[int, ...]:
    """Parse `80,90,110`, percentages of a budget; 100 is always included. Raises ValueError."""
    try:
        shares = {int(part.strip().removesuffix("%")) for part in text.split(",")}
    except ValueError:
        raise ValueError(f"not percentages: {text!r}; expected for example 80,90,110") from None
    if not all(1 <= share <= 1000 for share in shares):
        raise ValueError(f"percentages must be between 1 and 1000, got {text!r}")
    return tuple(sorted(shares | {100}))


PERCENTAGES = Parsed("percentages", parse_shares)


@click.command()
@click.option(
    "--history",
    "since",
    type=MOMENT,
    default="30d",
    show_default=True,
    metavar="TIME",
    help="Earliest end of a job: 30d for 30 days ago, or a date such as 2026-11-22.",
)
@click.option(
    "--policies",
    type=POLICIES,
    metavar="NAME,NAME,...",
    help="Policies to compare with the current policy (see `wattfold policies`). Default: the "
    "first suitable policy of each family.",
)
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    metavar="POLICY.KEY=VALUE",
    help="Setting of another policy, such as parm.alpha=0.5. May be repeated.",
)
@click.option(
    "--budgets",
    "shares",
    type=PERCENTAGES,
    default=SHARES,
    show_default=True,
    metavar="PERCENT,...",
    help="Budgets in percent of the current budget.",
)
@click.option(
    "--goal",
    type=click.Choice(GOAL_WORDS),
    default="completion",
    show_default=True,
    help="Mean that should be small: completion time, wait, bounded slowdown, or energy.",
)
@click.option(
    "--segment",
    "segment_ns",
    type=DURATION_NS,
    metavar="DURATION",
    help="Length of the segments. Default: a week, or a day if the history is short.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed for missing profiles.",
)
@click.option(
    "--workers", type=click.IntRange(1), help="Number of processes. Default: the number of cores."
)
@click.option(
    "--plot",
    type=LOG_FILE,
    metavar="FILE",
    help="File for a plot, in PNG, SVG or PDF format by its name.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the log and the profiles of each segment, for `wattfold compare`.",
)
@session_command
def advise(session: Session, **options: Any) -> None:
    """Simulate past jobs under other policies and budgets.

    The command reads the history of the coordinator and changes nothing. It cuts the past into
    segments and simulates each of them under each policy and budget. RATIO compares with the
    current policy under the current budget. Its interval shows how sure it is: an interval that
    contains 1 shows no difference.

    \b
    wattfold advise --history 90d
    wattfold advise --goal energy --budgets 70,80,90 --plot advice.png
    """
    check_plot(options["plot"])
    # The simulator and its packages load slowly.
    from wattfold.coordinator.cli.simulation.advice.past_jobs import read_past
    from wattfold.coordinator.cli.simulation.site_queue.site_reading import ask, read_site

    with session.connect() as client:
        reading = read_site(ask(client))
        answer = client.list_history(
            pb.ListHistoryRequest(since_s=options["since"], limit=HISTORY_MAX, sort="end")
        )
    choices = policy_choices(reading, options["policies"], options["settings"])
    with expected_failures(), simulation_failures():
        past = read_past(reading, answer.jobs)
        inputs = _Inputs(
            reading=reading,
            past=past,
            choices=choices,
            segments=segments_of(past, options["since"], options["segment_ns"]),
            cut=answer.more,
        )
        _advise(session, inputs, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    reading: SiteReading
    past: PastReading
    choices: tuple[PolicyChoice, ...]
    """The current policy first."""
    segments: Segments
    cut: bool
    """Whether the history has more jobs than one answer."""


def policy_choices(
    reading: SiteReading, names: Sequence[str] | None, settings: Sequence[GivenSetting]
) -> tuple[PolicyChoice, ...]:
    """Return the current policy with its settings, and the others. Raises CliError."""
    from wattfold.coordinator.policies import registry
    from wattfold.simulator.runs.case import PolicyChoice

    current = registry.find(reading.policy)
    if current is None or current.variant.pool is None:
        raise CliError(
            f"the current policy {reading.policy!r} cannot be simulated over a history; try "
            "`wattfold what-if`"
        )
    first = current.variant.simulator_name
    by_family: dict[str, str] = {}
    for entry in registry.entries():
        if entry.variant.service is not None and entry.variant.pool is not None:
            by_family.setdefault(entry.family.name, entry.variant.simulator_name)
    suitable = list(by_family.values())
    others = [name for name in names or suitable if name != first]
    refuse_unmeant(tuple(settings), others)
    choices = [PolicyChoice(name=name, settings=of_policy(name, settings)) for name in others]
    return (PolicyChoice(name=first, settings=_stated(reading, first)), *choices)


def _stated(reading: SiteReading, name: str) -> tuple[tuple[str, Value], ...]:
    """Return the settings of the site for its policy."""
    from wattfold.coordinator.policies import registry

    entry = registry.find(name)
    assert entry is not None, "it was found by another name"
    start = f"{entry.family.name}."
    found = []
    for path, text in reading.settings:
        setting = entry.family.setting(path.removeprefix(start)) if path.startswith(start) else None
        if setting is not None:
            found.append((setting.key, setting.parse(text)))
    return tuple(found)


def segments_of(past: PastReading, since_s: float, segment_ns: int | None) -> Segments:
    """Return the segments. Raises BadRequestError for a history that is too short."""
    from wattfold.simulator.runs import past as parts

    segments = parts.segments_of(past.jobs, segment_ns / NS_PER_S if segment_ns else None)
    if segments.suffice:
        return segments
    length = "days" if segment_ns is None else "segments"
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(since_s))
    raise BadRequestError(
        f"too little history: {len(past.jobs)} jobs ran since {since}, with at least "
        f"{parts.JOBS_MIN} jobs on {len(segments.found)} {length}; advice needs "
        f"{parts.SEGMENTS_MIN} such {length}, so at least "
        f"{parts.JOBS_MIN * parts.SEGMENTS_MIN} jobs; a longer --history may find more"
    )


def _advise(session: Session, inputs: _Inputs, options: dict[str, Any]) -> None:
    from wattfold.coordinator.cli.simulation.advice.advice_report import document, show
    from wattfold.simulator.results.advice import advice_of, goal_of
    from wattfold.simulator.runs.past import cases_of, machine_of, write_segment

    past, current_uw = inputs.past, inputs.reading.queue.budget_uw
    machine = machine_of(past.classes, past.jobs)
    shares: tuple[int, ...] = options["shares"]
    budgets_uw = [current_uw * share // 100 for share in shares]
    out: Path | None = options["out"]
    with nullcontext(str(out)) if out else tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        logs = [
            write_segment(one, folder, past.procs_per_node, past.profiles, options["seed"] + place)
            for place, one in enumerate(inputs.segments.found)
        ]
        cases = cases_of(logs, machine, past.procs_per_node, inputs.choices, budgets_uw)
        points, _runs = sweep_points(session, cases, options["workers"])
    current = inputs.choices[0].name
    try:
        advice = advice_of(points, w_from_uw(current_uw), current, goal_of(options["goal"]))
    except ValueError as error:
        raise CliError(str(error)) from error
    notes = _notes(inputs)
    if options["plot"] is not None:
        _plot(options["plot"], points, inputs, notes)
    if session.json:
        session.print_json(document(advice, points, inputs.segments, notes, options["plot"]))
    else:
        show(session, advice, points, inputs.segments, notes)
        if options["plot"] is not None:
            click.echo(f"\nPlot: {options['plot']}")


def _notes(inputs: _Inputs) -> list[str]:
    segments = inputs.segments
    notes = list(inputs.past.notes)
    if segments.sparse:
        notes.append(f"{segments.sparse} segments with too few jobs are left out.")
    if inputs.cut:
        notes.append(f"Only the last {HISTORY_MAX} jobs of the history count.")
    return notes


def _plot(plot: Path, points: Sequence[SweepPoint], inputs: _Inputs, notes: Sequence[str]) -> None:
    policies = [one.name for one in inputs.choices]
    title = f"{inputs.segments.jobs:,} past jobs in {len(inputs.segments.found)} segments"
    save_sweep(plot, points, policies, title=title, notes=notes)
