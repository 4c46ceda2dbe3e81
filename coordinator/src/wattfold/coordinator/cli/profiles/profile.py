"""`profile`: measure an application at several sizes and caps, fit PASS, store the result."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.jobs.submission import job_request as request
from wattfold.coordinator.cli.profiles.probing import (
    MeasuredProgram,
    Probe,
    check_sizes,
    default_caps_uw,
    default_sizes,
    plan_probes,
    run_probe,
)
from wattfold.coordinator.cli.profiles.profile_tables import misfit, parameter_sheet, point_table
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsing import POWERS_UW, SIZES
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from rich.console import Console

    from wattfold.coordinator.cli.profiles.profile_fit import Fitted
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient


@click.command(
    context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]"
)
@click.option(
    "--cores",
    "sizes",
    type=SIZES,
    metavar="N,N,...",
    help="Sizes to measure, in cores. Default: powers of two up to the cores of a node.",
)
@click.option(
    "--nodes",
    "node_counts",
    type=SIZES,
    metavar="N,N,...",
    help="Sizes to measure, in whole nodes with one process each, instead of --cores.",
)
@click.option(
    "--caps",
    "caps_uw",
    type=POWERS_UW,
    metavar="W,W,...",
    help="Package caps to measure, in watts. Default: --levels caps over the range of the nodes.",
)
@click.option(
    "--levels",
    type=click.IntRange(1, 16),
    default=4,
    show_default=True,
    metavar="N",
    help="Number of caps to measure if --caps is not given.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of runs at each size and cap.",
)
@click.option(
    "--app",
    default="",
    metavar="NAME",
    help="Name of the profile. Default: the name of the program.",
)
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.png",
    help="File for a plot of the fit, in PNG format.",
)
@click.option("--no-store", is_flag=True, help="Show the result without storing it.")
@click.option(
    "--no-check", is_flag=True, help="Skip the check that the command exists on this machine."
)
@click.argument("argv", metavar="COMMAND [ARGS]...", nargs=-1, required=True)
@session_command
def profile(
    session: Session,
    /,
    *,
    sizes: Sequence[int] | None,
    node_counts: Sequence[int] | None,
    caps_uw: Sequence[int] | None,
    levels: int,
    repeat: int,
    app: str,
    plot_path: Path | None,
    no_store: bool,
    no_check: bool,
    argv: Sequence[str],
) -> None:
    """Measure an application and fit its model.

    Runs the command once at every size and cap, alone on a node, as jobs of the cluster. A short
    run is enough, for example one iteration. Ctrl-C cancels the current run; nothing is stored
    then.
    """
    if sizes and node_counts:
        raise BadRequestError("--cores and --nodes exclude each other; give only one option")
    require("numpy", "scipy")
    program = program_of(app, argv, no_check)
    _check_plot(plot_path)
    unit = pb.SIZE_UNIT_NODES if node_counts else pb.SIZE_UNIT_CORES
    with session.connect() as client:
        nodes = client.list_nodes().nodes
        counts = node_counts or sizes or default_sizes(nodes)
        check_sizes(counts, nodes, unit)
        caps = caps_uw or default_caps_uw(nodes, levels)
        probes = plan_probes(counts, caps, repeat, unit)
        points = _measure(session.console(stderr=True), client, program, probes)
        fitted = _fit(program.app, points, nodes, unit)
        failure = None if no_store else _store(client, fitted)
    _plot(fitted, plot_path)
    _show(session, fitted, plot_path, stored=not no_store and failure is None)
    if failure is not None:
        raise failure


def _store(client: CoordinatorClient, fitted: Fitted) -> CliError | None:
    """Store the profile; return the failure if it could not be stored.

    The points are shown anyway.
    """
    try:
        client.put_profile(fitted.profile)
    except CliError as error:
        return error
    return None


def program_of(app: str, argv: Sequence[str], no_check: bool) -> MeasuredProgram:
    """Return the program to run and the name of its profile. Raises BadRequestError."""
    request.check_name("--app", app)
    name = app or request.program_name(argv[0])
    if not name:
        raise BadRequestError(
            f"{argv[0]!r} is not a valid profile name; give a name with --app NAME"
        )
    cwd = request.directory(None)
    environment = request.environment_of(os.environ, export_all=True, settings=())
    if not no_check:
        request.check_command(argv, cwd, environment)
    return MeasuredProgram(app=name, argv=argv, cwd=str(cwd), environment=environment)


def _check_plot(path: Path | None) -> None:
    """Refuse a plot that cannot be written, before hours of runs."""
    if path is None:
        return
    require("matplotlib")
    if path.suffix.lower() != ".png":
        raise BadRequestError(f"--plot {path}: the name must end in .png")
    if not path.absolute().parent.is_dir():
        raise BadRequestError(f"--plot {path}: no such directory: {path.absolute().parent}")


def _measure(
    console: Console, client: CoordinatorClient, program: MeasuredProgram, probes: Sequence[Probe]
) -> list[pb.ProfilePoint]:
    """Run the probes with a progress bar; without a terminal, one line each on standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    points = []
    bar = Progress(
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=len(probes))
        for number, probe in enumerate(probes, start=1):
            what = f"{probe.size} {probe.unit_name} at {probe.cap_uw / 1e6:.1f} W"

            def notice(line: str, what: str = what) -> None:
                bar.update(task, description=f"{what}: {line}"[: max(10, console.width - 40)])

            point = run_probe(client, program, probe, notice)
            points.append(point)
            bar.advance(task)
            if not console.is_terminal:
                click.echo(f"{number}/{len(probes)} {what}: {point.seconds:.3f} s", err=True)
    return points


def _fit(
    app: str,
    points: Sequence[pb.ProfilePoint],
    nodes: Sequence[pb.Node],
    unit: pb.SizeUnit,
) -> Fitted:
    from wattfold.coordinator.cli.profiles.profile_fit import fit_points, node_curve

    try:
        return fit_points(app, points, time.time(), node_curve(nodes), unit)
    except ValueError as error:
        raise CliError(f"the model does not fit the {len(points)} points: {error}") from error


def _plot(fitted: Fitted, path: Path | None) -> None:
    if path is None:
        return
    from wattfold.coordinator.cli.profiles.profile_fit import plot

    try:
        plot(fitted, path)
    except OSError as error:
        raise CliError(f"cannot write the plot {path}: {error}") from error


def _show(session: Session, fitted: Fitted, plot_path: Path | None, stored: bool) -> None:
    if session.json:
        session.print_json(
            {
                "profile": as_dict(fitted.profile),
                "notes": list(fitted.result.notes),
                "warning": misfit(fitted.profile) or None,
                "stored": stored,
                "plot_path": str(plot_path) if plot_path else None,
            }
        )
        return
    warning = misfit(fitted.profile)
    if warning:
        click.echo(f"warning: {warning}", err=True)
    session.print(parameter_sheet(fitted.profile))
    session.print(point_table(fitted.profile))
    for note in fitted.result.notes:
        click.echo(f"note: {note}")
    if stored:
        click.echo(f"Stored as {fitted.profile.app!r}.")
