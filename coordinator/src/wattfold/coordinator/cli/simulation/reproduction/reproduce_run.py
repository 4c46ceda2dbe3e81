"""Commands that rerun a published evaluation: each is made from a value, an `Experiment`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.parsed import LazyChoice
from wattfold.coordinator.cli.shared.texts.tables import PlainTable
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn

if TYPE_CHECKING:
    from wattfold.simulator.papers.report import EvaluationReport
    from wattfold.simulator.sweep.progress import SweepProgress
    from wattfold.simulator.sweep.run import Backend
    from wattfold.simulator.sweep.store import ResultStore

_INTERRUPTED = 130
_UNITS = {"_s": "SECONDS", "_w": "WATTS", "_mb": "MB"}
"""Units at the end of fields. An option states its unit as its metavariable."""

S = TypeVar("S")
E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class Evaluate(Protocol[E_co]):
    """Function that runs all cases without a result, and judges the claims."""

    def __call__(
        self, *, store: ResultStore, backend: Backend, progress: SweepProgress
    ) -> E_co: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentParts:
    """ExperimentParts of an evaluation that users name on the command line."""

    word: str
    """`family` or `experiment`."""
    names: Callable[[], Sequence[str]]

    def chosen(self, names: Iterable[str], *, everything: bool) -> list[str]:
        """Return the parts to run. Raises BadRequestError if there are none."""
        chosen = list(self.names() if everything else dict.fromkeys(names))
        if not chosen:
            known = ", ".join(self.names())
            raise BadRequestError(f"no {self.word} given; choose from {known}, or use --all")
        return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun(Generic[S]):
    """A call of the command of an evaluation. ``options`` are those of this evaluation alone."""

    session: Session
    folder: Path
    jobs: int | None
    quick: bool
    everything: bool
    names: Sequence[str]
    """Chosen parts."""
    settings: S
    options: Mapping[str, Any]

    def finish(
        self,
        evaluate: Evaluate[E],
        report_of: Callable[[E], EvaluationReport],
        tables: Callable[[E], Iterable[PlainTable]] = lambda _: (),
        backend: Backend | None = None,
    ) -> None:
        """Run the evaluation with visible progress, write its report, and show the results.

        Raises CliError, after everything else, if cases have no result.
        """
        from wattfold.simulator.papers.report import write_report
        from wattfold.simulator.sweep.local import LocalCores
        from wattfold.simulator.sweep.store import ResultStore

        folder = self.folder
        local = LocalCores(processes=self.jobs or len(os.sched_getaffinity(0)))
        with _running(self.session, folder) as progress:
            found = evaluate(
                store=ResultStore(folder / "cases"), backend=backend or local, progress=progress
            )
            report = report_of(found)
            written = write_report(report, folder)
        if not self.session.json:
            for table in tables(found):
                self.session.print(table)
                self.session.print("")
        _show(self.session, report, written, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[S]):
    """A published evaluation, from which its command is made."""

    name: str
    assumptions: type[S]
    """Dataclass; its fields made by `assumption` are options."""
    options: Sequence[click.Parameter]
    """Options in their order, with those from `assumption_options`."""
    parts: ExperimentParts | None = None
    convert: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Function that converts options to fields of the assumptions."""

    def command(self, run: Callable[[Rerun[S]], None]) -> click.Command:
        """Return the command that calls ``run``, whose docstring is its help."""
        keys = {one.name for one in fields(cast("Any", self.assumptions))}

        @session_command
        def callback(
            session: Session,
            folder: Path,
            jobs: int | None,
            quick: bool,
            everything: bool,
            names: tuple[str, ...] = (),
            **options: Any,
        ) -> None:
            chosen = self.parts.chosen(names, everything=everything) if self.parts else ()
            stated = self.convert(options)
            with expected_failures():
                settings = self.assumptions(**{key: stated[key] for key in keys})
            run(
                Rerun(
                    session=session,
                    folder=folder,
                    jobs=jobs,
                    quick=quick,
                    everything=everything,
                    names=chosen,
                    settings=settings,
                    options=stated,
                )
            )

        made = click.command(self.name, help=run.__doc__)(callback)
        argument = []
        if self.parts:
            word, names = self.parts.word, self.parts.names
            choice = LazyChoice(word, names)
            argument = [
                click.Argument(["names"], metavar=f"[{word.upper()}]...", nargs=-1, type=choice)
            ]
        made.params = [*argument, *self.options, *made.params]
        return made


def all_option(*, help: str) -> click.Option:  # noqa: A002
    """Return the option that runs everything."""
    return click.Option(["--all", "everything"], is_flag=True, help=help)


def seeds_option(*, help: str) -> click.Option:  # noqa: A002
    """Return the option for the number of seeds."""
    return click.Option(["--seeds"], type=click.IntRange(1, 1000), metavar="N", help=help)


def place_options(paper: str) -> tuple[click.Option, click.Option]:
    """Return the options for the output folder and the number of processes."""
    return (
        click.Option(
            ["--out", "folder"],
            type=click.Path(path_type=Path, file_okay=False),
            default=Path(f"reproduce-{paper}"),
            show_default=True,
            metavar="DIR",
            help="Folder for the report, the plots and the results of all cases.",
        ),
        click.Option(
            ["--jobs"],
            type=click.IntRange(1, 4096),
            metavar="N",
            help="Number of processes. Default: the number of cores.",
        ),
    )


def quick_option(shortened: str) -> click.Option:
    """Return the option for a quick look. ``shortened`` says what it shortens."""
    return click.Option(
        ["--quick"],
        is_flag=True,
        help=f"{shortened}, for a quick look. The report is marked as quick.",
    )


def assumption_options(assumptions: type[Any], *keys: str) -> Iterator[click.Option]:
    """Yield options for fields of assumptions: these, or all of them."""
    known = {one.name: one for one in fields(assumptions) if one.metadata}
    for key in keys or known:
        default, about = known[key].default, known[key].metadata
        unit = next((end for end in _UNITS if key.endswith(end)), "")
        name = about["option"] or f"--{key.removesuffix(unit).replace('_', '-')}"
        yield click.Option(
            [name, key],
            type=click.Choice(about["choices"]) if about["choices"] else type(default),
            default=default,
            show_default=True,
            metavar=about["metavar"] or _UNITS.get(unit),
            help=about["help"],
        )


@contextmanager
def _running(session: Session, folder: Path) -> Iterator[SweepProgress]:
    """Run cases and write their report with visible progress; convert failures for people."""
    from wattfold.simulator.sweep.progress import progress_on

    require("matplotlib")
    progress = progress_on(session.console(stderr=True))
    try:
        with progress, expected_failures():
            yield progress
    except KeyboardInterrupt:
        warn(f"stopped; the same command continues with the results in {folder}/cases")
        raise
    except OSError as error:
        raise CliError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _show(
    session: Session, report: EvaluationReport, written: Sequence[Path], folder: Path
) -> None:
    from wattfold.coordinator.cli.simulation.reproduction.reproduce_tables import print_report
    from wattfold.simulator.papers.report import document

    if session.json:
        session.print_json({**document(report), "files": [str(path) for path in written]})
    else:
        print_report(session, report, folder)
    totals = report.totals
    if totals.failures:
        first = totals.failures[0]
        raise CliError(
            f"{len(totals.failures)} of {totals.cases} cases failed, the first of them "
            f"{first.label}: {first.reason}"
        )


def run_trials(module: str, out: Path, work: Path, options: Sequence[str] = ()) -> None:
    """Run trials of real programs that write their measurements to a file, in a work folder.

    ``module`` runs as a program, because it and its site are above the command in the import order.
    Its progress is on standard error. Raises CliError, KeyboardInterrupt.
    """
    places = (f"--out={out.absolute()}", f"--work={work.absolute()}")
    # Ctrl-C goes to the trials, which must end their site first.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run([sys.executable, "-m", module, *places, *options], check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode == _INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        raise CliError("the trials with real programs failed; see the messages above")
