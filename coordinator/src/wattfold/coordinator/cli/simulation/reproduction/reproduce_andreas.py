"""`wattfold reproduce andreas`: rerun and extension of the evaluation of ANDREAS.

It simulates the evaluation of Filippini et al. (FiCloud 2021) and runs its small cluster live, on
emulated nodes of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    left,
    plain_table,
    right,
)
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
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.simulator.papers.andreas.case import FAMILIES
from wattfold.simulator.papers.andreas.settings import (
    CLUSTER,
    NODES,
    SEEDS,
    AndreasAssumptions,
)

if TYPE_CHECKING:
    from wattfold.simulator.papers.andreas.evaluation import Findings
    from wattfold.simulator.papers.report import Section

_NAMES = (*FAMILIES, CLUSTER)
_TRIAL = "wattfold.coordinator.demo.trainings"
"""Run as a program, because it and its site are above the command in the import order."""
SCALE, QUICK_SCALE, QUICK_JOBS = 60.0, 300.0, 3


EXPERIMENT = Experiment(
    name="andreas",
    parts=ExperimentParts(word="family", names=lambda: _NAMES),
    assumptions=AndreasAssumptions,
    options=(
        all_option(help="Run all families, and the cluster."),
        *place_options("andreas"),
        quick_option("Use small machines and few seeds"),
        click.Option(
            ["--nodes"],
            type=click.IntRange(2, 1000),
            multiple=True,
            metavar="N",
            help=f"Number of nodes of the machines in the scenarios. May be repeated. Default: "
            f"{NODES[0]}, {NODES[1]} .. {NODES[-1]}.",
        ),
        seeds_option(help=f"Number of seeds of the simulations. Default: {SEEDS}."),
        *assumption_options(AndreasAssumptions, "workload"),
        click.Option(
            ["--scale"],
            type=click.FloatRange(1, 1000),
            metavar="N",
            help=f"Speed of the cluster: seconds of the paper per second of the run. Default: "
            f"{SCALE:g}, which takes about five minutes, or {QUICK_SCALE:g} and {QUICK_JOBS} jobs "
            f"with --quick.",
        ),
        *assumption_options(AndreasAssumptions, "iterations", "restart_s", "snapshot_epochs"),
        *assumption_options(AndreasAssumptions, "host_idle_w", "host_work_w"),
    ),
)


@EXPERIMENT.command
def andreas(call: Rerun[AndreasAssumptions]) -> None:
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

    options, quick = call.options, call.quick
    plan = AndreasPlan(
        settings=call.settings,
        seeds=options["seeds"] or 0,
        nodes=tuple(sorted(set(options["nodes"]))),
        quick=quick,
    )
    live = _cluster(call.folder, options["scale"], quick=quick) if CLUSTER in call.names else ()
    known = stand_ins(call.settings)
    call.finish(
        partial(evaluate, plan, [name for name in call.names if name != CLUSTER]),
        lambda found: report_of(found, known, draw, live),
        lambda found: [_costs(one) for one in found.findings if one.family != GAP],
    )


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
