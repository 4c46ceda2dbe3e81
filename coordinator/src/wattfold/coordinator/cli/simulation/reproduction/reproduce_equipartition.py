"""`wattfold reproduce equipartition`: the experiments of Kale et al. (CCGrid 2002).

They are simulated and, with ``--all``, measured on Charm++ programs of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    Experiment,
    Rerun,
    all_option,
    assumption_options,
    place_options,
    quick_option,
    run_trials,
    seeds_option,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.simulator.papers.equipartition.settings import (
    LONG_SEEDS,
    SHORT_SEEDS,
    EquipartitionAssumptions,
)

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import Section

MEASURED = "measured.json"
_TRIALS = "wattfold.coordinator.demo.charm"


EXPERIMENT = Experiment(
    name="equipartition",
    assumptions=EquipartitionAssumptions,
    options=(
        all_option(
            help=f"Measure real Charm++ jobs (charm4py) as well, on a small site on this machine: "
            f"resize times, residual load, interference, and two jobs that share. Takes about ten "
            f"minutes. The measurements stay in {MEASURED} in the folder."
        ),
        seeds_option(
            help=f"Number of seeds of both experiments. Default: {SHORT_SEEDS} for short runs, "
            f"{LONG_SEEDS} for long runs."
        ),
        *place_options("equipartition"),
        quick_option("Use short runs and few seeds"),
        *assumption_options(EquipartitionAssumptions),
    ),
)


@EXPERIMENT.command
def equipartition(call: Rerun[EquipartitionAssumptions]) -> None:
    """Rerun the evaluation of equipartition (CCGrid 2002).

    Compares malleable jobs under equipartition with rigid jobs under first fit, at loads from 0.1
    to 1, with 50 and with 10,000 jobs per run. A stopped run continues where it stopped.
    """
    from wattfold.simulator.papers.equipartition.case import EquipartitionPlan
    from wattfold.simulator.papers.equipartition.evaluation import evaluate
    from wattfold.simulator.papers.equipartition.figures import draw
    from wattfold.simulator.papers.equipartition.report import report_of
    from wattfold.simulator.papers.equipartition.settings import stand_ins

    real = _measured(call.folder, quick=call.quick) if call.everything else ()
    known, seeds = stand_ins(call.settings), call.options["seeds"] or 0
    plan = EquipartitionPlan(settings=call.settings, seeds=seeds, quick=call.quick)
    call.finish(partial(evaluate, plan), lambda found: report_of(found, known, draw, real))


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
