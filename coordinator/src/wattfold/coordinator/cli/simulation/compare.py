"""`wattfold compare`: policies on the same jobs and machine, in one table and one plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsing import MAX_SIZE
from wattfold.coordinator.cli.simulation.compare_budgets import BUDGETS
from wattfold.coordinator.cli.simulation.limits_file import limits_of
from wattfold.coordinator.cli.simulation.policy_settings import (
    POLICIES,
    SETTING,
    of_policy,
    refuse_unmeant,
)
from wattfold.coordinator.cli.simulation.price_options import (
    check_price_hold,
    price_hold_option,
    with_holds,
)
from wattfold.coordinator.cli.simulation.ramp_options import ramp_options, with_ramp
from wattfold.coordinator.cli.simulation.runs.simulate import simulation_failures
from wattfold.coordinator.cli.simulation.runs.simulate_options import (
    MAX_SEEDS,
    classes_options,
    job_options,
    machine_options,
    predict_option,
)
from wattfold.coordinator.cli.simulation.runs.simulate_unused import (
    refuse_other_machine,
    refuse_unused_jobs,
)
from wattfold.coordinator.cli.simulation.sleep_options import (
    compared_sleep_options,
    with_defaults,
    with_policies,
    with_sleep,
)
from wattfold.coordinator.cli.simulation.training_options import prices_of
from wattfold.coordinator.cli.workloads.workload_options import (
    LOG_FILE,
    expected_failures,
    odd_row_options,
    policy_of,
    warn,
    write_odd_rows,
)

if TYPE_CHECKING:
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import FinishedSimulation
    from wattfold.simulator.engine.record import RunRecord
    from wattfold.simulator.runs.case import SimulationCase

DEFAULT = "easy,easy-uniform,parm-wse"
PICTURES = (".png", ".svg", ".pdf")


@click.command()
@job_options
@odd_row_options
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_SIZE),
    help="Number of nodes of the machine. Default: the number in the header of the log, or else "
    "the size of the largest job.",
)
@classes_options
@machine_options
@click.option(
    "--policies",
    type=POLICIES,
    default=DEFAULT,
    show_default=True,
    metavar="NAME,NAME,...",
    help="Policies to compare (see `wattfold policies`). Results are relative to the first policy.",
)
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    metavar="POLICY.KEY=VALUE",
    help="Setting of a policy, such as parm.alpha=0.5 (see `wattfold policies NAME`). May be "
    "repeated.",
)
@predict_option
@compared_sleep_options
@price_hold_option
@ramp_options
@click.option(
    "--budgets",
    type=BUDGETS,
    metavar="LOW..HIGH|W,W,...",
    help="Several power budgets instead of --budget: 8kW..12kW (5 budgets), 8kW..12kW:9 (9 "
    "budgets), 8kW..12kW/500W (by step) or 8kW,10kW,12kW. The plot has a line for each policy.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed for profiles, and for the jobs of a model.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, MAX_SEEDS),
    default=1,
    help="Number of seeds to run, starting at --seed. The results are means, and 95 % confidence "
    "intervals of the ratios. Default: 1.",
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
@session_command
def compare(session: Session, **options: Any) -> None:
    """Compare policies on the same jobs, machine and budgets.

    Under a budget, jobs have profiles: lower caps and other sizes slow a job under every policy.
    Without --annotations, profiles are drawn from the seed. Without a budget, caps stay at the
    maximum, and jobs run as long as the log states.

    \b
    wattfold compare --log kth.swf.gz --count 1000 --nodes 100 --idle 30 --budget 8kW \\
        --cut-sizes
    wattfold compare --model lublin --jobs 300 --nodes 32 --budgets 2.8kW..4kW --cut-sizes \\
        --seeds 3 --plot policies.png
    """
    from wattfold.coordinator.cli.simulation.runs.simulate_cases import check_one_source

    context = click.get_current_context()
    options = with_defaults(context, with_policies(context, options))
    check_plot(options["plot"])
    check_one_source(options)
    if options["budgets"] and options["budget_text"]:
        raise BadRequestError("--budgets replaces --budget; give one of them")
    refuse_unused_jobs(click.get_current_context(), options)
    refuse_other_machine(click.get_current_context(), options)
    refuse_unmeant(options["settings"], options["policies"])
    check_price_hold(options)
    with expected_failures(), simulation_failures():
        cases = with_ramp(with_holds(with_sleep(_cases(options), options), options), options)
        if options["budgets"]:
            _sweep(session, cases, options)
        else:
            _compare(session, cases, options)


def _compare(session: Session, cases: Sequence[SimulationCase], options: dict[str, Any]) -> None:
    """Show one budget: a table of all metrics."""
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import Stopped
    from wattfold.coordinator.cli.simulation.runs.simulate_run import run_cases
    from wattfold.simulator.results.comparison import (
        Compared,
        compared,
        comparison_document,
        comparison_table,
        mean_run,
    )
    from wattfold.simulator.runs.notes import profile_document

    plot: Path | None = options["plot"]
    finished = run_cases(
        session, cases, resume=False, formats=(), workers=options["workers"], dask=None
    )
    if isinstance(finished, Stopped):
        warn("wattfold: stopped")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    by_policy: dict[str, list[Compared]] = {}
    for case, run in zip(cases, finished, strict=True):
        by_policy.setdefault(case.name, []).append(replace(compared(run.record), policy=case.name))
    runs = list(by_policy.values())
    notes = _notes(cases, finished, options)
    if plot is not None:
        # matplotlib loads slowly.
        from wattfold.simulator.figures.policy_comparison import save_policy_comparison
        from wattfold.simulator.figures.style import machine_title

        title = machine_title([run.record for run in finished], cases[0].source.name)
        save_policy_comparison(plot, [mean_run(one) for one in runs], title)
    budget = cases[0].budget
    if session.json:
        known = {case.name: profile_document(case) for case in cases}
        documents = zip(known.values(), comparison_document(runs), strict=True)
        session.print_json(
            {
                **_document(cases, finished, options),
                "budget_w": w_from_uw(budget.steps[0].budget_uw),
                "budget_w_least": w_from_uw(budget.least_uw),
                "runs": [{**document, **profiles} for profiles, document in documents],
            }
        )
        return
    least_w = w_from_uw(budget.least_uw)
    power = f"{least_w:,.0f} W" if budget.is_constant else f"a budget down to {least_w:,.0f} W"
    click.echo(f"{_jobs(cases, finished)} under {power}\n")
    session.print(comparison_table(runs))
    click.echo(_decision_times(cases, finished))
    _end(session, notes, finished, plot)


def _decision_times(cases: Sequence[SimulationCase], finished: Sequence[FinishedSimulation]) -> str:
    from wattfold.simulator.results.comparison import decision_s
    from wattfold.simulator.results.scales import Quantity, scale_for

    records: dict[str, list[RunRecord]] = {}
    for case, run in zip(cases, finished, strict=True):
        records.setdefault(case.name, []).append(run.record)
    times = {name: decision_s(runs) for name, runs in records.items()}
    scale = scale_for(Quantity.TIME, times.values())
    shown = ", ".join(f"{name} {scale.text(time)}" for name, time in times.items())
    return f"\nTime per simulated decision on this machine, {scale.unit}: {shown}"


def _sweep(session: Session, cases: Sequence[SimulationCase], options: dict[str, Any]) -> None:
    """Show several budgets: a table per metric."""
    from wattfold.coordinator.cli.simulation.compare_budgets import (
        save_sweep,
        show_sweep,
        sweep_points,
        under_budgets,
    )
    from wattfold.simulator.results.budget_sweep import sweep_document
    from wattfold.simulator.runs.notes import profile_document

    plot: Path | None = options["plot"]
    swept = under_budgets(cases, options["budgets"])
    points, finished = sweep_points(session, swept, options["workers"])
    policies = list(dict.fromkeys(case.name for case in cases))
    notes = _notes(swept, finished, options)
    jobs = _jobs(cases, finished)
    if plot is not None:
        save_sweep(plot, points, policies, title=jobs, notes=notes)
    if session.json:
        session.print_json(
            {
                **_document(cases, finished, options),
                "budgets": sweep_document(points),
                "profiles": {case.name: profile_document(case)["profiles"] for case in cases},
            }
        )
        return
    click.echo(f"{jobs}\n")
    show_sweep(session, points, policies)
    _end(session, notes, finished, plot)


def _document(
    cases: Sequence[SimulationCase], finished: Sequence[FinishedSimulation], options: dict[str, Any]
) -> dict[str, Any]:
    return {
        "nodes": cases[0].machine.nodes,
        "seed": options["seed"],
        "seeds": options["seeds"],
        "odd_rows": len(finished[0].report.rows),
        "figure": str(options["plot"]) if options["plot"] else None,
    }


def _jobs(cases: Sequence[SimulationCase], finished: Sequence[FinishedSimulation]) -> str:
    case, jobs = cases[0], finished[0].metrics.jobs
    return f"{jobs:,} jobs of {case.source.name} on {case.machine.nodes:,} nodes"


def _notes(
    cases: Sequence[SimulationCase], finished: Sequence[FinishedSimulation], options: dict[str, Any]
) -> list[str]:
    from wattfold.simulator.results.comparison import interval_sentence
    from wattfold.simulator.runs.notes import by_name_note, profile_notes

    if options["odd_rows_path"]:
        write_odd_rows(finished[0].report, options["odd_rows_path"])
    named = dict.fromkeys(by_name_note(case, finished[0].record.jobs) for case in cases)
    said = [interval_sentence(options["seeds"], options["seed"]), *profile_notes(cases), *named]
    return [note for note in said if note]


def _end(
    session: Session,
    notes: Sequence[str],
    finished: Sequence[FinishedSimulation],
    plot: Path | None,
) -> None:
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_table

    if notes:
        click.echo()
    for note in notes:
        click.echo(note)
    report = finished[0].report
    if report.rows:
        click.echo()
        session.print(odd_row_table(report))
    if plot is not None:
        click.echo(f"\nPlot: {plot}")


def check_plot(plot: Path | None) -> None:
    """Check the plot's path before the runs, which may take long."""
    if plot is None:
        return
    require("matplotlib")
    if plot.suffix not in PICTURES:
        raise BadRequestError(f"--plot {plot}: the name must end in {', '.join(PICTURES)}")
    if not plot.absolute().parent.is_dir():
        raise BadRequestError(f"--plot {plot}: no such folder: {plot.absolute().parent}")


def _cases(options: dict[str, Any]) -> list[SimulationCase]:
    from wattfold.coordinator.cli.simulation.runs.simulate_cases import (
        BudgetText,
        machine_of,
        predictors_of,
        source_of,
    )
    from wattfold.simulator.runs.case import PolicyChoice, SimulationCase

    choices = [
        PolicyChoice(name=name, settings=of_policy(name, options["settings"]))
        for name in options["policies"]
    ]
    if options["placement"] == "cuboid" and not options["torus"]:
        raise BadRequestError(
            "--placement cuboid needs the dimensions of the network; add --torus XxYxZ"
        )
    counted = options["machine_file"] is None
    if counted and not options["nodes"]:
        options = options | {"nodes": _nodes_of_log(options)}
    machine = machine_of(options)
    if options["budgets"]:
        # Profiles and charges are the same as under a budget; `under_budgets` sets the budgets.
        options = options | {"budget_text": f"{w_from_uw(options['budgets'][-1])}W"}
    budget = BudgetText(text=options["budget_text"]).read(machine.full_uw)
    limits = limits_of(options)
    return [
        SimulationCase(
            source=source_of(options, choice),
            machine=machine,
            budget=budget,
            policy=choice,
            seed=seed,
            placement=options["placement"],
            predict=predict,
            prices=prices_of(options),
            limits=limits,
        )
        for seed in range(options["seed"], options["seed"] + options["seeds"])
        for choice, predict in product(choices, predictors_of(options))
    ]


def _nodes_of_log(options: dict[str, Any]) -> int:
    """Return the number of nodes of the machine of a log, by its header, else its largest job."""
    from wattfold.simulator.workloads.log_reader import read_log

    if options["log"] is None:
        raise BadRequestError("--model needs the size of the machine; add --nodes N")
    odd_rows = policy_of(options["on_odd"], options["exceptions"])
    workload = read_log(options["log"], odd_rows).workload
    header = workload.header
    if not len(workload):
        raise BadRequestError(f"{options['log']}: the log has no jobs")
    procs = header.max_procs or header.max_nodes or int(workload.sizes.max())
    procs_per_node: int = options["procs_per_node"]
    return max(-(-procs // procs_per_node), 1)
