"""`wattfold compare`: policies on the same jobs and machine, in one table and one plot."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.parsing import MAX_SIZE
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.simulation.policy_settings import (
    POLICIES,
    SETTING,
    of_policy,
    refuse_unmeant,
)
from wattfold.coordinator.cli.simulation.simulate import simulation_failures
from wattfold.coordinator.cli.simulation.simulate_options import (
    classes_options,
    job_options,
    machine_options,
    predict_option,
)
from wattfold.coordinator.cli.simulation.simulate_unused import (
    refuse_other_machine,
    refuse_unused_jobs,
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
    from wattfold.coordinator.simulation.runs.case import SimulationCase

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
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seed for profiles, and for the jobs of a model.",
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
    """Compare policies on the same jobs, machine and budget.

    Run times follow the profiles of the jobs, so a lower cap slows a job under every policy.
    Without --annotations, profiles are drawn from the seed. With --machine, jobs have no profiles
    and run as long as the log states.

    \b
    wattfold compare --log kth.swf.gz --count 1000 --nodes 100 --idle 30 --budget 8kW \\
        --cut-sizes
    wattfold compare --log kth.swf.gz --nodes 100 --idle 30 --budget 8kW --cut-sizes \\
        --policies easy,easy-uniform,parm-wse --set parm.alpha=0.5 --plot policies.png
    """
    from wattfold.coordinator.cli.simulation.simulate_cases import check_one_source
    from wattfold.coordinator.cli.simulation.simulate_outcome import Stopped
    from wattfold.coordinator.cli.simulation.simulate_run import run_cases
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_table
    from wattfold.coordinator.simulation.results.comparison import (
        compared,
        comparison_document,
        comparison_table,
    )

    plot: Path | None = options["plot"]
    _check_plot(plot)
    check_one_source(options)
    refuse_unused_jobs(click.get_current_context(), options)
    refuse_other_machine(click.get_current_context(), options)
    refuse_unmeant(options["settings"], options["policies"])
    with expected_failures(), simulation_failures():
        cases = _cases(options)
        finished = run_cases(
            session, cases, resume=False, formats=(), workers=options["workers"], dask=None
        )
        if isinstance(finished, Stopped):
            warn("wattfold: stopped")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED)
        if options["odd_rows_path"]:
            write_odd_rows(finished[0].report, options["odd_rows_path"])
        runs = [compared(run.record) for run in finished]
        if plot is not None:
            # matplotlib takes its time to load.
            from wattfold.coordinator.figures.policy_comparison import save_policy_comparison
            from wattfold.coordinator.figures.simulation_style import machine_title

            records = [run.record for run in finished]
            save_policy_comparison(plot, runs, machine_title(records, cases[0].source.name))
    machine, budget = cases[0].machine, cases[0].budget
    report = finished[0].report
    if session.json:
        session.print_json(
            {
                "nodes": machine.nodes,
                "budget_w": w_from_uw(budget.steps[0].budget_uw),
                "budget_w_least": w_from_uw(budget.least_uw),
                "seed": options["seed"],
                "runs": comparison_document(runs),
                "odd_rows": len(report.rows),
                "figure": str(plot) if plot else None,
            }
        )
        return
    click.echo(_heading(cases[0], runs[0].jobs))
    session.print(comparison_table(runs))
    if report.rows:
        click.echo()
        session.print(odd_row_table(report))
    if plot is not None:
        click.echo(f"\nPlot: {plot}")


def _heading(case: SimulationCase, jobs: int) -> str:
    budget = case.budget
    least_w = w_from_uw(budget.least_uw)
    power = f"{least_w:,.0f} W" if budget.is_constant else f"a budget down to {least_w:,.0f} W"
    return f"{jobs:,} jobs of {case.source.name} on {case.machine.nodes:,} nodes under {power}\n"


def _check_plot(plot: Path | None) -> None:
    """Before the runs, which may take long, and not after them."""
    if plot is None:
        return
    if plot.suffix not in PICTURES:
        raise BadRequestError(f"--plot {plot}: the name must end in {', '.join(PICTURES)}")
    if not plot.absolute().parent.is_dir():
        raise BadRequestError(f"--plot {plot}: no such folder: {plot.absolute().parent}")


def _cases(options: dict[str, Any]) -> list[SimulationCase]:
    from wattfold.coordinator.cli.simulation.simulate_cases import (
        BudgetText,
        machine_of,
        predictors_of,
        source_of,
    )
    from wattfold.coordinator.simulation.pool.run_times import RunTimeModel
    from wattfold.coordinator.simulation.runs.case import PolicyChoice, SimulationCase

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
    budget = BudgetText(text=options["budget_text"]).read(machine.full_uw)
    model = RunTimeModel.PASS if counted else None
    source = source_of(options, choices, model)
    return [
        SimulationCase(
            source=source,
            machine=machine,
            budget=budget,
            policy=choice,
            seed=options["seed"],
            model=model,
            placement=options["placement"],
            predict=predict,
            prices=prices_of(options),
        )
        for choice, predict in product(choices, predictors_of(options))
    ]


def _nodes_of_log(options: dict[str, Any]) -> int:
    """The nodes of the machine that a log was taken on, by its header, else its largest job."""
    from wattfold.coordinator.simulation.workloads.log_reader import read_log

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
