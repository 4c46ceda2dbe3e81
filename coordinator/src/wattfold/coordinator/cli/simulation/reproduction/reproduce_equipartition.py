"""`wattfold reproduce equipartition`: the experiments of Kale et al. (CCGrid 2002).

They are simulated and, with ``--all``, measured on Charm++ programs of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    finish,
    jobs_option,
    local_cores,
    out_option,
    run_trials,
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.simulator.papers.equipartition.settings import (
    LONG_SEEDS,
    SHORT_SEEDS,
    EquipartitionSettings,
)

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import Section

_DEFAULTS = EquipartitionSettings()
MEASURED = "measured.json"
_TRIALS = "wattfold.coordinator.demo.charm"


@click.command("equipartition")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help=f"Measure real Charm++ jobs (charm4py) as well, on a small site on this machine: resize "
    f"times, residual load, interference, and two jobs that share. Takes about ten minutes. The "
    f"measurements stay in {MEASURED} in the folder.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"Number of seeds of both experiments. Default: {SHORT_SEEDS} for short runs, "
    f"{LONG_SEEDS} for long runs.",
)
@out_option("equipartition")
@jobs_option
@click.option(
    "--quick",
    is_flag=True,
    help="Use short runs and few seeds, for a quick look. The report is marked as quick.",
)
@click.option(
    "--parallelism",
    type=float,
    default=_DEFAULTS.parallelism,
    show_default=True,
    metavar="A",
    help="Average parallelism of the program (Downey).",
)
@click.option(
    "--sigma",
    type=float,
    default=_DEFAULTS.sigma,
    show_default=True,
    metavar="S",
    help="Coefficient of variation of the parallelism (Downey): 0 = linear speed-up up to the "
    "average parallelism.",
)
@click.option(
    "--stall",
    "stall_s",
    type=float,
    default=_DEFAULTS.stall_s,
    show_default=True,
    metavar="SECONDS",
    help="Time that a change of size costs a job, in runs with resize costs.",
)
@session_command
def equipartition(
    session: Session,
    folder: Path,
    jobs: int | None,
    seeds: int | None,
    quick: bool,
    everything: bool,
    **options: Any,
) -> None:
    """Rerun the evaluation of equipartition (CCGrid 2002).

    Compares malleable jobs under equipartition with rigid jobs under first fit, at loads from 0.1
    to 1, with 50 and with 10,000 jobs per run. A stopped run continues where it stopped.
    """
    from wattfold.simulator.papers.equipartition.case import EquipartitionPlan
    from wattfold.simulator.papers.equipartition.evaluation import evaluate
    from wattfold.simulator.papers.equipartition.figures import draw
    from wattfold.simulator.papers.equipartition.report import report_of
    from wattfold.simulator.papers.equipartition.settings import stand_ins
    from wattfold.simulator.papers.report import write_report
    from wattfold.simulator.sweep.store import ResultStore

    real = _measured(folder, quick=quick) if everything else ()
    with expected_failures():
        settings = EquipartitionSettings(**options)
    plan = EquipartitionPlan(settings=settings, seeds=seeds or 0, quick=quick)
    known = stand_ins(settings)
    with running(session, folder) as progress:
        evaluation = evaluate(
            plan,
            store=ResultStore(folder / "cases"),
            backend=local_cores(jobs),
            progress=progress,
        )
        report = report_of(evaluation, known, draw, real)
        written = write_report(report, folder)
    finish(session, report, written, folder)


def _measured(folder: Path, *, quick: bool) -> Sequence[Section]:
    """Return the sections on real programs, measured now unless results exist."""
    from wattfold.simulator.papers.equipartition.measured import load
    from wattfold.simulator.papers.equipartition.measured_claims import sections
    from wattfold.simulator.papers.equipartition.measured_figures import (
        draw_residual,
        draw_resizes,
        draw_sharing,
    )

    path = folder / MEASURED
    with expected_failures():
        found = load(path) if path.is_file() else None
        if found is None or (found.quick and not quick):
            folder.mkdir(parents=True, exist_ok=True)
            run_trials(_TRIALS, path, folder / "real", ["--quick"] if quick else [])
            found = load(path)
    return sections(found, (draw_resizes, draw_residual, draw_sharing))
