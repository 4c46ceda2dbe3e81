"""`wattfold reproduce constraint`: the evaluation of Bridi et al.'s CP scheduler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, NotFoundError
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
    running,
)
from wattfold.coordinator.cli.workloads.workload_options import expected_failures
from wattfold.simulator.papers.constraint.case import FAMILIES
from wattfold.simulator.papers.constraint.settings import ConstraintSettings

if TYPE_CHECKING:
    from wattfold.simulator.papers.constraint.case import Folder
    from wattfold.simulator.papers.constraint.evaluation import Findings

_DEFAULTS = ConstraintSettings()
_FOLDER = "eurora"


@click.command("constraint")
@click.argument("names", metavar="[FAMILY]...", nargs=-1, type=click.Choice(list(FAMILIES)))
@click.option("--all", "everything", is_flag=True, help="Run all families.")
@out_option("constraint")
@jobs_option
@click.option(
    "--quick",
    is_flag=True,
    help="Use few instances of each family, for a quick look. The report is marked as quick.",
)
@click.option(
    "--cp/--no-cp",
    "cp",
    default=None,
    help="Run the constraint model on every instance, or on none. With hundreds of waiting jobs "
    "it takes two seconds per decision, and an hour or more per instance. Default: only on raw "
    "traces.",
)
@click.option(
    "--traces",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help=f"Folder with the traces, nodes and queues of Eurora. Default: {_FOLDER} in "
    f"WATTFOLD_WORKLOADS.",
)
@click.option(
    "--budget-share",
    type=float,
    default=_DEFAULTS.budget_share,
    show_default=True,
    metavar="SHARE",
    help="Power budget of the family budget, as a fraction of the maximum power above idle.",
)
@click.option(
    "--week-factor",
    type=float,
    default=_DEFAULTS.week_factor,
    show_default=True,
    metavar="F",
    help="Factor for the times between submissions in generated weeks.",
)
@click.option(
    "--base",
    "base_w",
    type=float,
    default=_DEFAULTS.base_w,
    show_default=True,
    metavar="WATTS",
    help="Base power of a node.",
)
@click.option(
    "--cap-min",
    "cap_min_w",
    type=float,
    default=_DEFAULTS.cap_min_w,
    show_default=True,
    metavar="WATTS",
    help="Minimum package cap of a node.",
)
@click.option(
    "--cap-max",
    "cap_max_w",
    type=float,
    default=_DEFAULTS.cap_max_w,
    show_default=True,
    metavar="WATTS",
    help="Maximum package cap of a node.",
)
@session_command
def constraint(
    session: Session,
    names: tuple[str, ...],
    everything: bool,
    folder: Path,
    jobs: int | None,
    quick: bool,
    cp: bool | None,
    traces: Path | None,
    **options: Any,
) -> None:
    """Rerun the evaluation of the CP scheduler of Bridi et al.

    The family raw uses the traces of Eurora. The family pressed uses windows of 700 jobs of the
    traces, as a substitute for tests 1 and 2 of the paper, whose instances are lost. The family
    budget puts some of these windows under a power budget. The family weeks uses generated weeks.
    The family weights chooses the weights of lateness on the first half of the jobs and reports
    them on the second half.

    The policies are PBS in both readings, its variant by walltime, `constraint`, and the model of
    the paper. A stopped run continues where it stopped.
    """
    from wattfold.simulator.papers.constraint.case import ConstraintPlan
    from wattfold.simulator.papers.constraint.evaluation import evaluate
    from wattfold.simulator.papers.constraint.figures import draw
    from wattfold.simulator.papers.constraint.report import report_of
    from wattfold.simulator.papers.constraint.settings import stand_ins
    from wattfold.simulator.papers.report import write_report
    from wattfold.simulator.sweep.store import ResultStore

    chosen = list(FAMILIES) if everything else list(dict.fromkeys(names))
    if not chosen:
        raise BadRequestError(f"no family given; choose from {', '.join(FAMILIES)}, or use --all")
    with expected_failures():
        settings = ConstraintSettings(**options)
    plan = ConstraintPlan(settings=settings, folder=_traces(traces), quick=quick, cp=cp)
    known = stand_ins(settings)
    with running(session, folder) as progress:
        evaluation = evaluate(
            plan,
            chosen,
            store=ResultStore(folder / "cases"),
            backend=local_cores(jobs),
            progress=progress,
        )
        report = report_of(evaluation, known, draw)
        written = write_report(report, folder)
    if not session.json:
        session.print(_published())
        session.print("")
        for findings in evaluation.findings:
            session.print(_instances(findings))
            session.print("")
    finish(session, report, written, folder)


def _traces(folder: Path | None) -> Folder:
    from wattfold.simulator.papers.constraint.case import Folder, FolderError

    root = os.environ.get("WATTFOLD_WORKLOADS", "")
    if folder is None and not root:
        raise NotFoundError(
            "the traces of Eurora are missing; give their folder with --traces DIR, or set "
            f"WATTFOLD_WORKLOADS to the folder that contains {_FOLDER}"
        )
    try:
        return Folder.at(folder or Path(root) / _FOLDER)
    except FolderError as error:
        raise NotFoundError(str(error)) from error


def _published() -> PlainTable:
    from wattfold.simulator.papers.constraint.settings import PUBLISHED

    table = plain_table(
        left("PUBLISHED"), left("POLICY"), right("WQT"), right("NL"), right("TR"), right("AO")
    )
    for one in PUBLISHED:
        numbers = f"{one.wqt:g}", str(one.nl), f"{one.tr_s:.0f} s", f"{one.ao_s:g} s"
        add_row(table, one.test, one.policy, *numbers)
    return table


def _instances(findings: Findings) -> PlainTable:
    from wattfold.simulator.papers.constraint.case import short
    from wattfold.simulator.papers.constraint.report import found

    table = plain_table(
        left(findings.family.upper()),
        left("POLICY"),
        right("WQT"),
        right("NL"),
        right("TR"),
        right("AO"),
    )
    for instance, policy, values in found(findings):
        add_row(
            table,
            short(instance),
            policy,
            f"{values['wqt']:.4g}",
            f"{values['nl']:.0f}",
            f"{values['tr_s']:.0f} s",
            f"{values['ao_s'] * 1e3:.3g} ms",
        )
    return table
