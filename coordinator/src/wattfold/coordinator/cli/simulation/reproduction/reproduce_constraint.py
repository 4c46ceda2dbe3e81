"""`wattfold reproduce constraint`: the evaluation of Bridi et al.'s CP scheduler."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.shared.errors import NotFoundError
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
)
from wattfold.simulator.papers.constraint.case import FAMILIES
from wattfold.simulator.papers.constraint.settings import ConstraintAssumptions

if TYPE_CHECKING:
    from wattfold.simulator.papers.constraint.case import Folder
    from wattfold.simulator.papers.constraint.evaluation import Findings

_FOLDER = "eurora"


EXPERIMENT = Experiment(
    name="constraint",
    parts=ExperimentParts(word="family", names=lambda: list(FAMILIES)),
    assumptions=ConstraintAssumptions,
    options=(
        all_option(help="Run all families."),
        *place_options("constraint"),
        quick_option("Use few instances of each family"),
        click.Option(
            ["--cp/--no-cp", "cp"],
            default=None,
            help="Run the constraint model on every instance, or on none. With hundreds of waiting "
            "jobs it takes two seconds per decision, and an hour or more per instance. Default: "
            "only on raw traces.",
        ),
        click.Option(
            ["--traces"],
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help=f"Folder with the traces, nodes and queues of Eurora. Default: {_FOLDER} in "
            f"WATTFOLD_WORKLOADS.",
        ),
        *assumption_options(ConstraintAssumptions),
    ),
)


@EXPERIMENT.command
def constraint(call: Rerun[ConstraintAssumptions]) -> None:
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

    settings, cp, folder = call.settings, call.options["cp"], _traces(call.options["traces"])
    plan = ConstraintPlan(settings=settings, folder=folder, quick=call.quick, cp=cp)
    known = stand_ins(settings)
    call.finish(
        partial(evaluate, plan, call.names),
        lambda found: report_of(found, known, draw),
        lambda found: [_published(), *map(_instances, found.findings)],
    )


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
