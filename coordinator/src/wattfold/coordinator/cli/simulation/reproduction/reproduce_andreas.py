"""`wattfold reproduce andreas`: rerun and extension of the evaluation of ANDREAS.

It simulates the evaluation of Filippini et al. (FiCloud 2021) and runs its small cluster live, on
emulated nodes of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.simulation.reproduction.reproduce_run import (
    finish,
    jobs_option,
    local_cores,
    out_option,
    run_trials,
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.simulator.papers.andreas.case import FAMILIES
from wattfold.simulator.papers.andreas.settings import (
    CLUSTER,
    NODES,
    SEEDS,
    WORKLOADS,
    AndreasSettings,
)

if TYPE_CHECKING:
    from wattfold.simulator.papers.andreas.evaluation import Findings
    from wattfold.simulator.papers.report import Section

_DEFAULTS = AndreasSettings()
_NAMES = (*FAMILIES, CLUSTER)
_TRIAL = "wattfold.coordinator.demo.trainings"
"""Run as a program, because it and its site are above the command in the import order."""
SCALE, QUICK_SCALE, QUICK_JOBS = 60.0, 300.0, 3


@click.command("andreas")
@click.argument("names", metavar="[FAMILY]...", nargs=-1, type=click.Choice(_NAMES))
@click.option("--all", "everything", is_flag=True, help="Run all families, and the cluster.")
@out_option("andreas")
@jobs_option
@click.option(
    "--quick",
    is_flag=True,
    help="Use small machines and few seeds, for a quick look. The report is marked as quick.",
)
@click.option(
    "--nodes",
    type=click.IntRange(2, 1000),
    multiple=True,
    metavar="N",
    help=f"Number of nodes of the machines in the scenarios. May be repeated. Default: "
    f"{NODES[0]}, {NODES[1]} .. {NODES[-1]}.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help=f"Number of seeds of the simulations. Default: {SEEDS}.",
)
@click.option(
    "--workload",
    type=click.Choice(WORKLOADS),
    default=_DEFAULTS.workload,
    show_default=True,
    help="Jobs of scenarios and prices. measured: as the authors measured them on their nodes. "
    "composed: from figures of other authors, with a higher load.",
)
@click.option(
    "--scale",
    type=click.FloatRange(1, 1000),
    metavar="N",
    help=f"Speed of the cluster: seconds of the paper per second of the run. Default: {SCALE:g}, "
    f"which takes about five minutes, or {QUICK_SCALE:g} and {QUICK_JOBS} jobs with --quick.",
)
@click.option(
    "--iterations",
    type=int,
    default=_DEFAULTS.iterations,
    show_default=True,
    help="Maximum number of iterations of the randomised greedy search of the paper.",
)
@click.option(
    "--restart",
    "restart_s",
    type=float,
    default=_DEFAULTS.restart_s,
    show_default=True,
    metavar="SECONDS",
    help="Time without progress when a job resumes from a snapshot.",
)
@click.option(
    "--snapshot-epochs",
    type=int,
    default=_DEFAULTS.snapshot_epochs,
    show_default=True,
    metavar="N",
    help="Number of epochs between two snapshots.",
)
@click.option(
    "--host-idle",
    "host_idle_w",
    type=float,
    default=_DEFAULTS.host_idle_w,
    show_default=True,
    metavar="WATTS",
    help="Power of an idle node without its GPUs.",
)
@click.option(
    "--host-work",
    "host_work_w",
    type=float,
    default=_DEFAULTS.host_work_w,
    show_default=True,
    metavar="WATTS",
    help="Additional power of a node, without its GPUs, when all GPUs are in use.",
)
@session_command
def andreas(
    session: Session,
    names: tuple[str, ...],
    everything: bool,
    folder: Path,
    jobs: int | None,
    quick: bool,
    nodes: tuple[int, ...],
    seeds: int | None,
    scale: float | None,
    **options: Any,
) -> None:
    """Rerun and extend the evaluation of ANDREAS (FiCloud 2021).

    The family scenarios has both scenarios of the paper with all baselines, by number of nodes. The
    family prices has a daily price table and day-ahead series. The family caps has GPU limits under
    a power budget. The family gap compares plans of small problems with the optimal plans.

    The family cluster is the small cluster of the paper, with three nodes and eight jobs, live. It
    runs real training jobs with numpy on EMULATED nodes and GPUs of this machine, and compares
    predictions with measurements. Its measurements stay in the folder.

    A stopped run continues where it stopped.
    """
    from wattfold.simulator.papers.andreas.case import GAP, AndreasPlan
    from wattfold.simulator.papers.andreas.evaluation import evaluate
    from wattfold.simulator.papers.andreas.figures import draw
    from wattfold.simulator.papers.andreas.report import report_of
    from wattfold.simulator.papers.andreas.settings import stand_ins
    from wattfold.simulator.papers.report import write_report
    from wattfold.simulator.sweep.store import ResultStore

    named = list(_NAMES) if everything else list(dict.fromkeys(names))
    if not named:
        raise BadRequestError(f"no family given; choose from {', '.join(_NAMES)}, or use --all")
    chosen = [name for name in named if name != CLUSTER]
    with expected_failures():
        settings = AndreasSettings(**options)
    sizes = tuple(sorted(set(nodes)))
    plan = AndreasPlan(settings=settings, seeds=seeds or 0, nodes=sizes, quick=quick)
    live = _cluster(folder, scale, quick=quick) if CLUSTER in named else ()
    with running(session, folder) as progress:
        evaluation = evaluate(
            plan,
            chosen,
            store=ResultStore(folder / "cases"),
            backend=local_cores(jobs),
            progress=progress,
        )
        report = report_of(evaluation, stand_ins(settings), draw, live)
        written = write_report(report, folder)
    if not session.json:
        for findings in evaluation.findings:
            if findings.family != GAP:
                session.print(_costs(findings))
                session.print("")
    finish(session, report, written, folder)


def _cluster(folder: Path, scale: float | None, *, quick: bool) -> Sequence[Section]:
    """Return the section on the small cluster; it runs unless a result of this scale exists."""
    from wattfold.simulator.papers.andreas.cluster import TABLE_V, load
    from wattfold.simulator.papers.andreas.cluster_claims import cluster_section
    from wattfold.simulator.papers.andreas.cluster_figures import draw_cluster

    jobs = QUICK_JOBS if quick else len(TABLE_V)
    wanted = scale or (QUICK_SCALE if quick else SCALE)
    path = folder / f"{CLUSTER}-{jobs}-{wanted:g}.json"
    with expected_failures():
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            words = [f"--scale={wanted:g}", f"--jobs={jobs}"]
            run_trials(_TRIAL, path, folder / "real", words)
        return [cluster_section(load(path), TABLE_V[:jobs], draw_cluster)]


def _costs(findings: Findings) -> PlainTable:
    """Return means over the seeds, a line per group."""
    from wattfold.simulator.papers.andreas.report import grouped

    table = plain_table(
        left(findings.family.upper()),
        right("NODES"),
        left("POLICY"),
        right("TOTAL"),
        right("ENERGY"),
        right("LATE"),
        right("CALL"),
    )
    for what, nodes, policy, values in grouped(findings):
        add_row(
            table,
            what,
            str(nodes),
            policy,
            f"{values['total_eur']:.2f} EUR",
            f"{values['energy_eur']:.2f} EUR",
            f"{values['jobs_late']:.1f}",
            f"{values['call_s'] * 1e3:.3g} ms",
        )
    return table
