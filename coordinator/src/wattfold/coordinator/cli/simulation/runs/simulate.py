"""`wattfold simulate`: simulation of policies on a log or a model, on a machine, under a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.simulation.ramp_options import ramp_options, with_ramp
from wattfold.coordinator.cli.simulation.runs.simulate_messages import (
    message_options,
    response_table,
    responses_of,
)
from wattfold.coordinator.cli.simulation.runs.simulate_options import (
    job_options,
    machine_options,
    nodes_option,
    policy_options,
    seed_options,
)
from wattfold.coordinator.cli.simulation.runs.simulate_unused import refuse_unused
from wattfold.coordinator.cli.simulation.sleep_options import sleep_options, with_defaults
from wattfold.coordinator.cli.workloads.workload_options import (
    LOG_FILE,
    expected_failures,
    odd_row_options,
    warn,
    write_odd_rows,
)

if TYPE_CHECKING:
    from wattfold.coordinator.cli.simulation.runs.simulate_check import StartCheck
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import FinishedSimulation
    from wattfold.simulator.runs.case import SimulationCase


@click.command()
@job_options
@odd_row_options
@nodes_option
@machine_options
@policy_options
@message_options
@ramp_options
@sleep_options
@seed_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for results: jobs, series, metrics and plots.",
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(["csv", "parquet", "both"]),
    default="csv",
    show_default=True,
    help="Format of the files of jobs and series.",
)
@click.option(
    "--figures/--no-figures",
    default=True,
    help="Draw plots into the folder of --out. Default: --figures.",
)
@click.option("--resume", is_flag=True, help="Resume a stopped run in the folder of --out.")
@click.option(
    "--check",
    "check_path",
    type=LOG_FILE,
    metavar="FILE",
    help="CSV file with the columns job_id,start to compare all starts with. The exit code is 1 "
    "if any start differs.",
)
@click.option(
    "--checkpoint-every",
    type=DURATION_NS,
    default="30s",
    show_default=True,
    help="Time between two checkpoints of a run with --out.",
)
@click.option(
    "--workers", type=click.IntRange(1), help="Number of processes. Default: the number of cores."
)
@click.option(
    "--dask", metavar="ADDRESS", help="Address of the scheduler of a Dask cluster to run on."
)
@session_command
def simulate(session: Session, **options: Any) -> None:
    """Simulate policies on a job log or a model.

    The machine and its power budget are options. The output has one column per policy. With --out,
    files of jobs and series and plots are written. Ctrl-C then leaves a checkpoint for --resume.

    \b
    wattfold simulate --log kth.swf.gz --nodes 100
    wattfold simulate --log mira.swf.gz --count 1000 --nodes 55248 --cut-sizes --idle 0 \\
        --budget 4751360W --policy easy --policy parm-wse --out runs
    """
    from wattfold.coordinator.cli.simulation.runs.simulate_cases import cases_of
    from wattfold.coordinator.cli.simulation.runs.simulate_check import (
        check_starts,
        read_starts,
    )
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import Stopped
    from wattfold.coordinator.cli.simulation.runs.simulate_run import run_cases

    folder: Path | None = options["out"]
    if options["resume"] and folder is None:
        raise BadRequestError("--resume needs the folder of the stopped run; add --out DIR")
    options = with_defaults(click.get_current_context(), options)
    refuse_unused(click.get_current_context(), options)
    if folder is not None and options["figures"]:
        require("matplotlib")
    if folder is not None and options["formats"] != "csv":
        require("pyarrow")
    formats = {"csv": ("csv",), "parquet": ("parquet",), "both": ("csv", "parquet")}
    with expected_failures(), simulation_failures():
        cases = with_ramp(cases_of(options, folder), options)
        _check_resumable(cases, resume=options["resume"])
        expected = read_starts(options["check_path"]) if options["check_path"] else None
        finished = run_cases(
            session,
            cases,
            resume=options["resume"],
            formats=formats[options["formats"]],
            workers=options["workers"],
            dask=options["dask"],
            checkpoint_every_s=options["checkpoint_every"] / NS_PER_S,
        )
        if isinstance(finished, Stopped):
            warn(f"wattfold: {finished.message}")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED)
        checks = [check_starts(run.record, expected) for run in finished if expected is not None]
        if options["odd_rows_path"]:
            write_odd_rows(finished[0].report, options["odd_rows_path"])
        pictures = _draw(finished, folder, cases[0].source.name) if options["figures"] else []
    _show(session, cases, finished, checks, pictures, folder)
    if any(not check.agrees for check in checks):
        raise click.exceptions.Exit(ExitCode.REFUSED)


def _check_resumable(cases: Sequence[SimulationCase], *, resume: bool) -> None:
    from wattfold.coordinator.cli.simulation.runs.simulate_elsewhere import OUTCOME
    from wattfold.simulator.runs.execute import CHECKPOINT

    folders = [case.folder for case in cases if case.folder is not None]
    left = (folder / name for folder in folders for name in (CHECKPOINT, OUTCOME))
    if resume and not any(path.exists() for path in left):
        raise BadRequestError(
            f"nothing to resume in {folders[0].parent}: no run with these options was stopped there"
        )


class simulation_failures:  # noqa: N801 - a context, used as a function
    """Context that converts failures of a simulation into the command's own."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from wattfold.simulator.engine.engine import SimulationError
        from wattfold.simulator.runs.execute import CheckpointError
        from wattfold.simulator.sweep.on_dask import DaskUnavailableError

        if isinstance(error, SimulationError | CheckpointError | DaskUnavailableError):
            raise CliError(str(error)) from error
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            where = f"{error.filename}: " if error.filename else ""
            raise CliError(f"{where}{error.strerror or error}") from error
        if isinstance(error, MemoryError):
            raise CliError("out of memory; use fewer jobs, nodes or workers") from error


def _draw(finished: Sequence[FinishedSimulation], folder: Path | None, workload: str) -> list[Path]:
    if folder is None:
        return []
    # matplotlib loads slowly.
    from wattfold.simulator.figures.heat_maps import save_heat_maps
    from wattfold.simulator.figures.overview import save_overview

    made = []
    first = {run.record.policy: run.record for run in reversed(finished)}
    records = [first[policy] for policy in dict.fromkeys(run.record.policy for run in finished)]
    overview = folder / "overview.png"
    save_overview(overview, records, workload)
    made.append(overview)
    for record in records:
        path = folder / f"categories-{record.policy}.png"
        save_heat_maps(path, record, workload)
        made.append(path)
    return made


def _show(
    session: Session,
    cases: Sequence[SimulationCase],
    finished: Sequence[FinishedSimulation],
    checks: Sequence[StartCheck],
    pictures: Sequence[Path],
    folder: Path | None,
) -> None:
    from wattfold.coordinator.cli.workloads.odd_row_tables import odd_row_table
    from wattfold.simulator.results.table import metrics_document, metrics_table
    from wattfold.simulator.runs.notes import (
        by_name_note,
        profile_document,
        profile_notes,
    )

    report = finished[0].report
    if session.json:
        session.print_json(
            {
                "runs": [
                    metrics_document(run.metrics)
                    | profile_document(case)
                    | {"lowered_budgets": responses_of(run.record) or None}
                    for case, run in zip(cases, finished, strict=True)
                ],
                "odd_rows": len(report.rows),
                "checks": [check.document() for check in checks],
                "folder": str(folder) if folder else None,
                "figures": [str(path) for path in pictures],
            }
        )
        return
    seeds = len({run.record.seed for run in finished}) > 1
    names = [
        f"{run.record.policy} #{run.record.seed}" if seeds else run.record.policy
        for run in finished
    ]
    session.print(metrics_table([run.metrics for run in finished], names=names))
    named = [by_name_note(case, run.record.jobs) for case, run in zip(cases, finished, strict=True)]
    click.echo()
    for note in dict.fromkeys([*profile_notes(cases), *filter(None, named)]):
        click.echo(note)
    for run in finished:
        if answers := responses_of(run.record):
            click.echo()
            session.print(response_table(answers))
    if report.rows:
        click.echo()
        session.print(odd_row_table(report))
    for check in checks:
        click.echo()
        click.echo(check.sentence())
    if folder is not None:
        click.echo()
        click.echo(f"Files in {folder}" + (f", plots: {len(pictures)}" if pictures else ""))
