"""`wattfold reproduce slowdown-driven`: the experiments of D'Amico et al. (ICPP 2019).

They are simulated and, as experiment d, run on real programs of this machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError, NotFoundError
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    Experiment,
    ExperimentParts,
    Rerun,
    all_option,
    assumption_options,
    place_options,
    quick_option,
    run_trials,
    seeds_option,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn
from wattfold.simulator.papers.slowdown_driven.case import (
    CHOSEN_ON,
    SOURCES,
    WORKLOADS,
)
from wattfold.simulator.papers.slowdown_driven.settings import SEEDS, SlowdownAssumptions

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import Section
    from wattfold.simulator.papers.slowdown_driven.case import SlowdownLog, SlowdownPlan

MEASURED = "measured.json"
_TRIAL = "wattfold.coordinator.demo.sharing"


def _experiments() -> list[str]:
    from wattfold.simulator.papers.slowdown_driven.evaluation import EXPERIMENTS
    from wattfold.simulator.papers.slowdown_driven.measured_claims import (
        NAME as REAL,
    )

    return [*EXPERIMENTS, REAL]


EXPERIMENT = Experiment(
    name="slowdown-driven",
    parts=ExperimentParts(word="experiment", names=_experiments),
    assumptions=SlowdownAssumptions,
    options=(
        all_option(help="Run all experiments."),
        seeds_option(
            help=f"Number of seeds of the generated workloads, and of the runs of experiment d. "
            f"Default: {SEEDS}."
        ),
        *place_options("slowdown-driven"),
        quick_option("Use only the first jobs of each workload"),
        click.Option(
            ["--workload", "only"],
            multiple=True,
            type=click.Choice(WORKLOADS),
            help="Workload of the paper to run, instead of all four. May be repeated.",
        ),
        click.Option(
            ["--logs"],
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Folder with the logs of Curie and RICC, and of KTH SP2 and Mira for the "
            "experiment gain. Default: WATTFOLD_WORKLOADS.",
        ),
        *assumption_options(SlowdownAssumptions, "looked", "every_s", "sharing_factor", "tested"),
        *assumption_options(SlowdownAssumptions, "least_gain"),
    ),
)


@EXPERIMENT.command
def slowdown_driven(call: Rerun[SlowdownAssumptions]) -> None:
    """Rerun the evaluation of SD-Policy (ICPP 2019).

    Experiment a varies MAX_SLOWDOWN on four workloads. Experiment b analyses the log of Curie by
    category and by day. Experiment c compares models of run times. These three compare with ideal
    EASY and with EASY limited as in Slurm, in both readings of the paper: a guest ends before its
    mates would without it, or before their delayed ends (slowdown-driven.mate_end). Experiment
    gain chooses the gain of our variant on other logs. Experiment d runs real programs on emulated
    nodes of this machine; its measurements stay in measured.json in the folder.

    Workloads 1 and 2 are generated. Workloads 3 and 4 need the logs of RICC and Curie, and are left
    out without them. A stopped run continues where it stopped.
    """
    from wattfold.simulator.papers.slowdown_driven.case import SlowdownPlan, quick_seeds
    from wattfold.simulator.papers.slowdown_driven.evaluation import EXPERIMENTS, evaluate
    from wattfold.simulator.papers.slowdown_driven.figures import draw
    from wattfold.simulator.papers.slowdown_driven.measured_claims import NAME as REAL
    from wattfold.simulator.papers.slowdown_driven.report import report_of
    from wattfold.simulator.papers.slowdown_driven.settings import stand_ins

    simulated = [name for name in call.names if name != REAL]
    only, logs, seeds = (call.options[key] for key in ("only", "logs", "seeds"))
    wanted = (only or WORKLOADS) if simulated else ()
    plan = SlowdownPlan(
        settings=call.settings,
        logs=_logs(logs, wanted, named=bool(only or logs))
        | _logs(logs, CHOSEN_ON if "gain" in simulated else (), named=False),
        only=only,
        seeds=tuple(range(seeds)) if seeds else quick_seeds(call.quick),
        quick=call.quick,
    )
    _check(plan, simulated)
    real = [_measured(call.folder, quick=call.quick, seeds=seeds)] if REAL in call.names else []
    known = stand_ins(call.settings, quick=call.quick)
    call.finish(
        partial(evaluate, plan, [EXPERIMENTS[name] for name in simulated]),
        lambda found: report_of(found, known, draw, real),
    )


def _measured(folder: Path, *, quick: bool, seeds: int | None) -> Section:
    """Return experiment d; seeds without a result are measured now."""
    from wattfold.simulator.papers.slowdown_driven.measured import load
    from wattfold.simulator.papers.slowdown_driven.measured_claims import (
        SHARED,
        section,
    )
    from wattfold.simulator.papers.slowdown_driven.measured_figures import draw_shared

    path = folder / MEASURED
    with expected_failures():
        found = load(path) if path.is_file() else None
        wanted = seeds or (1 if quick else SEEDS)
        if found is None or (found.quick and not quick) or len(found.of(SHARED)) < wanted:
            folder.mkdir(parents=True, exist_ok=True)
            options = [f"{name}={value}" for name, value in _built().items()]
            options += ["--quick"] if quick else []
            options += [f"--seeds={seeds}"] if seeds else []
            run_trials(_TRIAL, path, folder / "real", options)
            found = load(path)
    return section(found, draw_shared)


def _built() -> dict[str, Path]:
    """Return the paths of the trial's programs. Raises NotFoundError."""
    from wattfold.shims.locate import find_omp_shim

    shim = find_omp_shim()
    if shim is None or not (shim.parent / "examples").is_dir():
        raise NotFoundError(
            "experiment d needs the OpenMP shim and the example programs; build them with "
            "scripts/build_shims in a checkout"
        )
    return {"--shim": shim, "--examples": shim.parent / "examples"}


def _logs(folder: Path | None, wanted: Sequence[str], *, named: bool) -> dict[str, SlowdownLog]:
    """Return logs by workload. Missing logs are left out, unless the user named them."""
    from wattfold.simulator.papers.slowdown_driven.case import SlowdownLog

    found = {}
    place = folder or Path(os.environ.get("WATTFOLD_WORKLOADS", ""))
    for name in wanted:
        log_name = SOURCES[name].log_name
        if not log_name:
            continue
        # A folder of data may keep its logs in a subfolder.
        apart = place / "workloads" / log_name
        path = apart if apart.is_file() else place / log_name
        try:
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            if named:
                raise NotFoundError(
                    f"no log of {name} at {path}: {error.strerror or error}; download it from the "
                    "Parallel Workloads Archive, or give its folder with --logs DIR"
                ) from error
            warn(f"workload {name} is left out: no {log_name} in --logs or WATTFOLD_WORKLOADS")
            continue
        found[name] = SlowdownLog(path=path.absolute(), sha256=sha256)
    return found


def _check(plan: SlowdownPlan, chosen: Sequence[str]) -> None:
    """Refuse an experiment without its workload."""
    from wattfold.simulator.papers.slowdown_driven.evaluation import EXPERIMENTS

    for name in chosen:
        about = EXPERIMENTS[name].workload
        if about and about not in plan.workloads and len(chosen) == 1:
            raise BadRequestError(
                f"experiment {name} needs the workload {about}; give the folder of "
                f"{SOURCES[about].log_name} with --logs DIR or WATTFOLD_WORKLOADS"
            )
