"""`wattfold reproduce equipartition`: the experiments of Kale et al. (CCGrid 2002), simulated and,
with ``--all``, measured on Charm++ programs of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.simulation.reproduce_run import (
    finish,
    jobs_option,
    local_cores,
    out_option,
    run_trials,
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.coordinator.simulation.experiments.equipartition.settings import (
    LONG_SEEDS,
    SHORT_SEEDS,
    Settings,
)

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.experiments.report import Section

_DEFAULTS = Settings()
MEASURED = "measured.json"
_TRIALS = "wattfold.coordinator.demo.charm"


@click.command("equipartition")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also measure real Charm++ jobs (charm4py) on a small site on this machine: resize times, "
    "residual load, interference, two jobs that share. Takes about ten minutes; what was measured "
    f"stays in {MEASURED} of the folder.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"Seeds of both experiments. Default: {SHORT_SEEDS} of the short runs, {LONG_SEEDS} of "
    "the long ones.",
)
@out_option("equipartition")
@jobs_option
@click.option(
    "--quick", is_flag=True, help="Short runs and few seeds, for a look. Everything is labelled so."
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
    help="Its coefficient of variation: 0 = linear up to its average parallelism.",
)
@click.option(
    "--stall",
    "stall_s",
    type=float,
    default=_DEFAULTS.stall_s,
    show_default=True,
    metavar="SECONDS",
    help="What a change of size costs a job, in the runs that count it.",
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
    """Run the evaluation of the adaptive job scheduler again (CCGrid 2002) and judge its claims.

    Malleable jobs under equipartition against rigid ones under first fit, at loads from 0.1 to 1,
    50 jobs and 10,000 jobs a run. A run that was stopped goes on where it was.
    """
    from wattfold.coordinator.figures.equipartition_evaluation import draw
    from wattfold.coordinator.simulation.experiments.equipartition.case import Plan
    from wattfold.coordinator.simulation.experiments.equipartition.evaluation import evaluate
    from wattfold.coordinator.simulation.experiments.equipartition.report import report_of
    from wattfold.coordinator.simulation.experiments.equipartition.settings import stand_ins
    from wattfold.coordinator.simulation.experiments.report import write_report
    from wattfold.coordinator.simulation.sweep.store import ResultStore

    real = _measured(folder, quick=quick) if everything else ()
    with expected_failures():
        settings = Settings(**options)
    plan = Plan(settings=settings, seeds=seeds or 0, quick=quick)
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
    """The sections about real programs, measured now unless they were before."""
    from wattfold.coordinator.figures.measured_maps import draw_residual, draw_resizes, draw_sharing
    from wattfold.coordinator.simulation.experiments.equipartition.measured import load
    from wattfold.coordinator.simulation.experiments.equipartition.measured_claims import sections

    path = folder / MEASURED
    with expected_failures():
        found = load(path) if path.is_file() else None
        if found is None or (found.quick and not quick):
            folder.mkdir(parents=True, exist_ok=True)
            run_trials(_TRIALS, path, folder / "real", ["--quick"] if quick else [])
            found = load(path)
    return sections(found, (draw_resizes, draw_residual, draw_sharing))
