"""`wattfold reproduce parm`: the five experiments of Sarood et al. (SC14)."""

from __future__ import annotations

import hashlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError, NotFoundError
from wattfold.coordinator.cli.shared.parsing import Parsed
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    Experiment,
    ExperimentParts,
    Rerun,
    all_option,
    assumption_options,
    place_options,
    quick_option,
    seeds_option,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, parse_range
from wattfold.simulator.papers.parm.settings import CLUSTER_SIZES, ParmAssumptions

if TYPE_CHECKING:
    from wattfold.simulator.papers.parm.case import ParmLog
    from wattfold.simulator.papers.parm.outcomes import ParmPlan

LOG_NAME = "mira_2018.swf.gz"
SEEDS = 3
CLUSTER_SEEDS = 30
"""Sets of ten jobs differ much and cost almost no time."""
QUICK_SEEDS = 2


def _experiments() -> list[str]:
    from wattfold.simulator.papers.parm.evaluation import EXPERIMENTS

    return list(EXPERIMENTS)


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    least, most = options["cluster_sizes"]
    return options | {"cluster_size_least": least, "cluster_size_most": most}


EXPERIMENT = Experiment(
    name="parm",
    parts=ExperimentParts(word="experiment", names=_experiments),
    assumptions=ParmAssumptions,
    options=(
        all_option(help="Run all five experiments."),
        seeds_option(
            help=f"Number of seeds of each experiment. Default: {SEEDS}, or {CLUSTER_SEEDS} for "
            f"the cluster."
        ),
        *place_options("parm"),
        click.Option(
            ["--dask"],
            metavar="ADDRESS",
            help="Address of the scheduler of a Dask cluster to run on.",
        ),
        quick_option(f"Use fewer settings, {QUICK_SEEDS} seeds and shorter sets"),
        click.Option(
            ["--log", "log_path"],
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help=f"Job log for the large machine. Default: {LOG_NAME} in WATTFOLD_WORKLOADS.",
        ),
        *assumption_options(ParmAssumptions, "nodes", "alpha", "parallelism_factor"),
        *assumption_options(ParmAssumptions, "memory_mb", "link_mb_per_s"),
        click.Option(
            ["--cluster-sizes"],
            type=Parsed("range", parse_range),
            default="{}-{}".format(*CLUSTER_SIZES),
            show_default=True,
            metavar="MIN-MAX",
            help="Range of the maximum sizes of jobs on the cluster.",
        ),
        *assumption_options(ParmAssumptions, "estimates"),
    ),
    convert=_fields,
)


@EXPERIMENT.command
def parm(call: Rerun[ParmAssumptions]) -> None:
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
    from wattfold.simulator.sweep.on_dask import DaskCluster, DaskUnavailableError

    options, settings = call.options, call.settings
    chosen = [EXPERIMENTS[name] for name in call.names]
    log = _log(options["log_path"]) if any(one.needs_log for one in chosen) else None
    plans = [
        (one, _plan(name, options["seeds"], call.quick, settings, log))
        for name, one in zip(call.names, chosen, strict=True)
    ]
    known = stand_ins(settings, log.path.name if log else None)
    try:
        call.finish(
            partial(evaluate, plans),
            lambda found: report_of(found, known, draw),
            backend=DaskCluster(address=options["dask"]) if options["dask"] else None,
        )
    except DaskUnavailableError as error:
        raise CliError(str(error)) from error


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
