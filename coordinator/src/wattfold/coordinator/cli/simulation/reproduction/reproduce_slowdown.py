"""`wattfold reproduce slowdown-driven`: the experiments of D'Amico et al. (ICPP 2019).

They are simulated and, as experiment d, run on real programs of this machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, NotFoundError
from wattfold.coordinator.cli.shared.parsed import LazyChoice
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    finish,
    jobs_option,
    local_cores,
    out_option,
    run_trials,
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn
from wattfold.simulator.papers.slowdown_driven.case import (
    CHOSEN_ON,
    SOURCES,
    WORKLOADS,
)
from wattfold.simulator.papers.slowdown_driven.settings import SEEDS, SlowdownSettings

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import Section
    from wattfold.simulator.papers.slowdown_driven.case import SlowdownLog, SlowdownPlan

_DEFAULTS = SlowdownSettings()
MEASURED = "measured.json"
_TRIAL = "wattfold.coordinator.demo.sharing"


def _experiments() -> list[str]:
    from wattfold.simulator.papers.slowdown_driven.evaluation import EXPERIMENTS
    from wattfold.simulator.papers.slowdown_driven.measured_claims import (
        NAME as REAL,
    )

    return [*EXPERIMENTS, REAL]


@click.command("slowdown-driven")
@click.argument(
    "names", metavar="[EXPERIMENT]...", nargs=-1, type=LazyChoice("experiment", _experiments)
)
@click.option("--all", "everything", is_flag=True, help="Run all experiments.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"Number of seeds of the generated workloads, and of the runs of experiment d. Default: "
    f"{SEEDS}.",
)
@out_option("slowdown-driven")
@jobs_option
@click.option(
    "--quick",
    is_flag=True,
    help="Use only the first jobs of each workload, for a quick look. The report is marked as "
    "quick.",
)
@click.option(
    "--workload",
    "only",
    multiple=True,
    type=click.Choice(WORKLOADS),
    help="Workload of the paper to run, instead of all four. May be repeated.",
)
@click.option(
    "--logs",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder with the logs of Curie and RICC, and of KTH SP2 and Mira for the experiment "
    "gain. Default: WATTFOLD_WORKLOADS.",
)
@click.option(
    "--looked",
    type=int,
    default=_DEFAULTS.looked,
    show_default=True,
    metavar="N",
    help="Number of jobs that a pass of the limited scheduler considers.",
)
@click.option(
    "--every",
    "every_s",
    type=float,
    default=_DEFAULTS.every_s,
    show_default=True,
    metavar="SECONDS",
    help="Time between two passes of the limited scheduler.",
)
@click.option(
    "--sharing-factor",
    type=float,
    default=_DEFAULTS.sharing_factor,
    show_default=True,
    metavar="F",
    help="Maximum fraction of the cores of a mate that a guest may borrow.",
)
@click.option(
    "--tested",
    type=int,
    default=_DEFAULTS.tested,
    show_default=True,
    metavar="N",
    help="Number of waiting jobs for which mates are searched, if passes are not limited.",
)
@click.option(
    "--least-gain",
    type=float,
    default=_DEFAULTS.least_gain,
    show_default=True,
    metavar="G",
    help="Predicted slowdown that a job must gain by sharing, in the variant that is not from "
    "the paper.",
)
@session_command
def slowdown_driven(
    session: Session,
    names: tuple[str, ...],
    everything: bool,
    folder: Path,
    jobs: int | None,
    seeds: int | None,
    quick: bool,
    only: tuple[str, ...],
    logs: Path | None,
    **options: Any,
) -> None:
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
    from wattfold.simulator.papers.report import write_report
    from wattfold.simulator.papers.slowdown_driven.case import SlowdownPlan, quick_seeds
    from wattfold.simulator.papers.slowdown_driven.evaluation import (
        EXPERIMENTS,
        evaluate,
    )
    from wattfold.simulator.papers.slowdown_driven.figures import draw
    from wattfold.simulator.papers.slowdown_driven.measured_claims import (
        NAME as REAL,
    )
    from wattfold.simulator.papers.slowdown_driven.report import report_of
    from wattfold.simulator.papers.slowdown_driven.settings import stand_ins
    from wattfold.simulator.sweep.store import ResultStore

    chosen = _experiments() if everything else list(dict.fromkeys(names))
    if not chosen:
        raise BadRequestError(
            f"no experiment given; choose from {', '.join(_experiments())}, or use --all"
        )
    simulated = [name for name in chosen if name != REAL]
    with expected_failures():
        settings = SlowdownSettings(**options)
    wanted = (only or WORKLOADS) if simulated else ()
    plan = SlowdownPlan(
        settings=settings,
        logs=_logs(logs, wanted, named=bool(only or logs))
        | _logs(logs, CHOSEN_ON if "gain" in simulated else (), named=False),
        only=only,
        seeds=tuple(range(seeds)) if seeds else quick_seeds(quick),
        quick=quick,
    )
    _check(plan, simulated)
    real = [_measured(folder, quick=quick, seeds=seeds)] if REAL in chosen else []
    known = stand_ins(settings, quick=quick)
    with running(session, folder) as progress:
        evaluation = evaluate(
            plan,
            [EXPERIMENTS[name] for name in simulated],
            store=ResultStore(folder / "cases"),
            backend=local_cores(jobs),
            progress=progress,
        )
        report = report_of(evaluation, known, draw, real)
        written = write_report(report, folder)
    finish(session, report, written, folder)


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
