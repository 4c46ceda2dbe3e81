"""`wattfold reproduce parm`: the five experiments of Sarood et al. (SC14)."""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError, NotFoundError
from wattfold.coordinator.cli.shared.parsed import LazyChoice
from wattfold.coordinator.cli.shared.parsing import Parsed
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    finish,
    jobs_option,
    local_cores,
    out_option,
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, parse_range
from wattfold.simulator.papers.parm.settings import ParmAssumptions

if TYPE_CHECKING:
    from wattfold.simulator.papers.parm.case import ParmLog
    from wattfold.simulator.papers.parm.outcomes import ParmPlan

LOG_NAME = "mira_2018.swf.gz"
SEEDS = 3
CLUSTER_SEEDS = 30
"""Sets of ten jobs differ much and cost almost no time."""
QUICK_SEEDS = 2
_DEFAULTS = SimpleNamespace(**{field.name: field.default for field in fields(ParmAssumptions)})
"""Not checked, because the check needs numpy."""


def _experiments() -> list[str]:
    from wattfold.simulator.papers.parm.evaluation import EXPERIMENTS

    return list(EXPERIMENTS)


@click.command()
@click.argument(
    "names", metavar="[EXPERIMENT]...", nargs=-1, type=LazyChoice("experiment", _experiments)
)
@click.option("--all", "everything", is_flag=True, help="Run all five experiments.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"Number of seeds of each experiment. Default: {SEEDS}, or {CLUSTER_SEEDS} for the "
    f"cluster.",
)
@out_option("parm")
@jobs_option
@click.option(
    "--dask", metavar="ADDRESS", help="Address of the scheduler of a Dask cluster to run on."
)
@click.option(
    "--quick",
    is_flag=True,
    help=f"Use fewer settings, {QUICK_SEEDS} seeds and shorter sets, for a quick look. The "
    f"report is marked as quick.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"Job log for the large machine. Default: {LOG_NAME} in WATTFOLD_WORKLOADS.",
)
@click.option(
    "--nodes",
    type=int,
    default=_DEFAULTS.nodes,
    show_default=True,
    metavar="N",
    help="Number of nodes of the large machine.",
)
@click.option(
    "--alpha",
    type=float,
    default=_DEFAULTS.alpha,
    show_default=True,
    metavar="A",
    help="Weight of waiting in the objective.",
)
@click.option(
    "--parallelism-factor",
    type=float,
    default=_DEFAULTS.parallelism_factor,
    show_default=True,
    metavar="F",
    help="Range of the average parallelism A: maximum size / F to maximum size * F.",
)
@click.option(
    "--memory",
    "memory_mb",
    type=float,
    default=_DEFAULTS.memory_mb,
    show_default=True,
    metavar="MB",
    help="Data of a job on a node, which a resize moves.",
)
@click.option(
    "--link",
    "link_mb_per_s",
    type=float,
    default=_DEFAULTS.link_mb_per_s,
    show_default=True,
    metavar="MB/S",
    help="Bandwidth of a network link.",
)
@click.option(
    "--cluster-sizes",
    type=Parsed("range", parse_range),
    default=f"{_DEFAULTS.cluster_size_least}-{_DEFAULTS.cluster_size_most}",
    show_default=True,
    metavar="MIN-MAX",
    help="Range of the maximum sizes of jobs on the cluster.",
)
@click.option(
    "--estimates",
    type=click.Choice(["exact", "log"]),
    default=_DEFAULTS.estimates,
    show_default=True,
    help="Run times that the baseline knows. exact: the real run times. log: the requested times "
    "of the log.",
)
@session_command
def parm(
    session: Session,
    names: tuple[str, ...],
    everything: bool,
    folder: Path,
    jobs: int | None,
    dask: str | None,
    **options: Any,
) -> None:
    """Rerun the evaluation of PARM (SC14) and check its claims.

    EXPERIMENT is cluster (section VI), large, naive, fairness or levels (section VII). The
    experiments run on virtual time with the policies of the service. The report lists the
    assumptions for values that the paper does not state; most of them have an option. A stopped run
    continues where it stopped.
    """
    from wattfold.simulator.papers.parm.evaluation import EXPERIMENTS, evaluate
    from wattfold.simulator.papers.parm.figures import draw
    from wattfold.simulator.papers.parm.report import report_of
    from wattfold.simulator.papers.parm.settings import stand_ins
    from wattfold.simulator.papers.report import write_report
    from wattfold.simulator.sweep.on_dask import DaskCluster, DaskUnavailableError
    from wattfold.simulator.sweep.store import ResultStore

    chosen = list(EXPERIMENTS) if everything else list(dict.fromkeys(names))
    if not chosen:
        raise BadRequestError(
            f"no experiment given; choose from {', '.join(EXPERIMENTS)}, or use --all"
        )
    with expected_failures():
        settings = _settings(options)
    log = _log(options["log_path"]) if any(EXPERIMENTS[n].needs_log for n in chosen) else None
    plans = [
        (EXPERIMENTS[name], _plan(name, options["seeds"], options["quick"], settings, log))
        for name in chosen
    ]
    backend = DaskCluster(address=dask) if dask else local_cores(jobs)
    try:
        with running(session, folder) as progress:
            evaluation = evaluate(
                plans, store=ResultStore(folder / "cases"), backend=backend, progress=progress
            )
            known = stand_ins(settings, log.path.name if log else None)
            report = report_of(evaluation, known, draw)
            written = write_report(report, folder)
    except DaskUnavailableError as error:
        raise CliError(str(error)) from error
    finish(session, report, written, folder)


def _settings(options: dict[str, Any]) -> ParmAssumptions:
    least, most = options["cluster_sizes"]
    return ParmAssumptions(
        nodes=options["nodes"],
        alpha=options["alpha"],
        parallelism_factor=options["parallelism_factor"],
        memory_mb=options["memory_mb"],
        link_mb_per_s=options["link_mb_per_s"],
        cluster_size_least=least,
        cluster_size_most=most,
        estimates=options["estimates"],
    )


def _plan(
    name: str, seeds: int | None, quick: bool, settings: ParmAssumptions, log: ParmLog | None
) -> ParmPlan:
    from wattfold.simulator.papers.parm.outcomes import ParmPlan

    usual = QUICK_SEEDS if quick else SEEDS
    if name == "cluster":
        usual = CLUSTER_SEEDS if not quick else SEEDS
    return ParmPlan(seeds=tuple(range(seeds or usual)), settings=settings, quick=quick, log=log)


def _log(path: Path | None) -> ParmLog:
    """Return the log and its digest, which is part of the keys of results."""
    from wattfold.simulator.papers.parm.case import ParmLog
    from wattfold.simulator.workloads.swf_reader import read_swf

    if path is None:
        folder = os.environ.get("WATTFOLD_WORKLOADS")
        if not folder:
            raise BadRequestError(
                "the large machine needs a job log; give it with --log FILE, or set "
                f"WATTFOLD_WORKLOADS to the folder of {LOG_NAME}; `wattfold workload fetch "
                "anl-intrepid --to DIR` downloads the log of the machine of the paper"
            )
        # A folder of data may keep its logs in a subfolder.
        apart = Path(folder) / "workloads" / LOG_NAME
        path = apart if apart.is_file() else Path(folder) / LOG_NAME
    try:
        log = ParmLog(path=path.absolute(), sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError as error:
        raise NotFoundError(
            f"no job log at {path}: {error.strerror or error}; download a log with `wattfold "
            "workload fetch NAME --to DIR` and give it with --log FILE"
        ) from error
    with expected_failures():
        # Once here, instead of in each of hundreds of simulations.
        if not len(read_swf(path).workload):
            raise BadRequestError(f"{path} has no jobs; give another log with --log FILE")
    return log
