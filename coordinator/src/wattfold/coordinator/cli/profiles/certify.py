"""`certify`: test whether a program tolerates changes of its thread count, and store the result.

The test itself is `wattfold.shims.certify`, on this machine and without a coordinator. This module
has its options, its progress and the storage of the certificate. Only here the command imports the
shims.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.units import s_from_ns
from wattfold.coordinator.cli.jobs.submission import job_request as request
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError, UnreachableError
from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts.native_text import printed_text

if TYPE_CHECKING:
    from rich.console import Console

    from wattfold.coordinator.cli.shared.connection.certificates import Certified
    from wattfold.shims.certify import Certificate
    from wattfold.shims.certify_run import Program

FOLDER_BYTES_MAX = 1 << 30
FOLDER_FILES_MAX = 10_000
THREADS_MAX = 8


@click.command(
    context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [--]"
)
@click.option(
    "--threads",
    type=click.IntRange(2, 1024),
    metavar="N",
    help="Number of threads at the start. The team size then changes between 1 and this number. "
    "Default: the cores of this machine, 2 to 8.",
)
@click.option(
    "--runs",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of runs with resizes. Up to ten times as many runs are made until --resizes is "
    "reached.",
)
@click.option(
    "--resizes",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Number of acknowledged team changes to reach in all runs together.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Seed for the random team sizes and times.",
)
@click.option(
    "--compare",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Output file that belongs to the result, relative to the folder of the program. May be "
    "repeated.",
)
@click.option("--no-stdout", is_flag=True, help="Exclude standard output from the result.")
@click.option(
    "--relative",
    type=click.FloatRange(0),
    default=0.0,
    metavar="NUMBER",
    help="Relative tolerance: two numbers agree if they differ by at most this times the larger "
    "number. Default: 0.",
)
@click.option(
    "--absolute",
    type=click.FloatRange(0),
    default=0.0,
    metavar="NUMBER",
    help="Absolute tolerance: two numbers agree if they differ by at most this. Default: 0. With "
    "both tolerances 0, results must agree bit by bit.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="REGEX",
    help="Regular expression for output lines to exclude, such as times. May be repeated.",
)
@click.option(
    "--check",
    metavar="COMMAND",
    help="Command that compares results instead. It gets two folders with results and must exit "
    "with 0 if they agree.",
)
@click.option(
    "--limit",
    "limit_ns",
    type=DURATION_NS,
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="Time limit of a run without resizes. A run with resizes may take five times as long as "
    "the first run, and 10 s more.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder in which the program starts. Runs use a copy, which is restored before each run. "
    "Sockets and pipes are not copied. Default: the current folder.",
)
@click.option(
    "--shim",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="OpenMP shim (libwattfold_omp.so). Default: WATTFOLD_OMP_SHIM, or else the installed "
    "shim.",
)
@click.option(
    "--app",
    default="",
    metavar="NAME",
    help="Name of the profile. Default: the name of the program.",
)
@click.option(
    "--store/--no-store",
    default=None,
    help="Store the certificate at the coordinator. Default: store it if a coordinator answers.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File to write the certificate to.",
)
@click.option(
    "--put",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with a certificate to store. No program is run.",
)
@click.argument("argv", metavar="PROGRAM [ARGS]...", nargs=-1)
@session_command
def certify(
    session: Session,
    /,
    *,
    app: str,
    store: bool | None,
    output: Path | None,
    put: Path | None,
    argv: Sequence[str],
    **options: Any,
) -> None:
    """Test if a program tolerates changes of its thread count.

    Runs the program on this machine, without resizes and with random resizes, and compares the
    results. A program that passes is certified for mode team, any other program for mode mask.
    `wattfold submit` uses the certificate.

    Exit codes: 0 fit, 5 not fit, 1 and 2 no verdict, 3 not stored.
    """
    from wattfold.coordinator.cli.shared.connection.certificates import Certified

    request.check_name("--app", app)
    if put is not None:
        _put(session, put, app, store, argv)
        return
    if not argv:
        raise BadRequestError(
            "no program given; run `wattfold certify [OPTIONS] -- PROGRAM [ARGS]...`"
        )
    name = app or request.program_name(argv[0])
    if not name:
        raise BadRequestError(
            f"{argv[0]!r} is not a valid profile name; give a name with --app NAME"
        )
    trial = _trial(argv, **options)
    _check_output(output)
    stores = _will_store(session, store)
    with _ended_by_sigterm():
        made = _try(session, trial)
        words = tuple(map(printed_text, made.argv))
        made = replace(made, program=printed_text(made.program), argv=words)
        certified = Certified(app=name, evidence=made.as_dict())
    _write(output, certified)
    # Shown in any case: a certificate that took an hour must not be lost with the connection.
    failure = _stored(session, certified) if stores else None
    _show(session, certified, stores and failure is None, output)
    if failure is not None:
        raise failure
    if not certified.fit:
        click.get_current_context().exit(ExitCode.UNFIT)


Trial = Callable[[Callable[[str], None]], "Certificate"]


def _trial(
    argv: Sequence[str],
    *,
    outputs: Sequence[str],
    no_stdout: bool,
    relative: float,
    absolute: float,
    ignore: Sequence[str],
    check: str | None,
    limit_ns: int,
    folder: Path | None,
    shim: Path | None,
    threads: int | None,
    runs: int,
    resizes: int,
    seed: int,
) -> Trial:
    """Check all inputs before the first run."""
    from wattfold.shims.certify import Effort, command_check
    from wattfold.shims.certify import certify as try_program
    from wattfold.shims.certify_compare import Comparison

    if no_stdout and not outputs:
        raise BadRequestError("--no-stdout leaves nothing to compare; give files with --compare")
    library = _shim(shim)
    program = _program(argv, folder, outputs, no_stdout, threads)
    try:
        comparison = Comparison(relative=relative, absolute=absolute, ignore=tuple(ignore))
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    effort = Effort(
        resized_runs=runs,
        resizes_min=resizes,
        runs_max=10 * runs,
        limit_s=s_from_ns(limit_ns),
        seed=seed,
    )
    _check_folder(program.folder)
    checks = command_check(_check_command(check), s_from_ns(limit_ns)) if check else None
    return lambda progress: try_program(
        program,
        library,
        check=checks,
        comparison=comparison,
        effort=effort,
        progress=progress,
        now_s=time.time(),
    )


def _shim(given: Path | None) -> Path:
    from wattfold.shims.locate import find_omp_shim

    found = given.absolute() if given else find_omp_shim()
    if found is None:
        raise CliError(
            "the OpenMP shim is not installed; install wattfold-shims (in a checkout: run "
            "scripts/build_shims), or give libwattfold_omp.so with --shim or WATTFOLD_OMP_SHIM"
        )
    if any(character in str(found) for character in " :"):
        raise CliError(
            f"{found} cannot be preloaded because its path contains a space or a colon; move it"
        )
    return found


def _program(
    argv: Sequence[str],
    folder: Path | None,
    outputs: Sequence[str],
    no_stdout: bool,
    threads: int | None,
) -> Program:
    from wattfold.shims.certify_run import Program

    here = request.directory(None)
    request.check_command(argv, here, os.environ)
    # Runs start in a copy of the folder, where a relative path would lead elsewhere.
    first = str((here / argv[0]).resolve()) if os.sep in argv[0] else argv[0]
    for name in outputs:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BadRequestError(
                f"--compare {name}: the path must be relative to the folder of the program "
                "and inside it"
            )
    place = folder.absolute() if folder else here
    return Program(
        argv=(first, *argv[1:]),
        folder=place,
        outputs=tuple(outputs),
        compare_stdout=not no_stdout,
        threads=threads or min(THREADS_MAX, max(2, len(os.sched_getaffinity(0)))),
    )


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is too large to be copied, such as a home directory."""
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            files += 1
            path = Path(place, name)
            size += path.lstat().st_size if not path.is_symlink() else 0
            if files > FOLDER_FILES_MAX or size > FOLDER_BYTES_MAX:
                raise BadRequestError(
                    f"{folder} has more than {FOLDER_FILES_MAX} files or "
                    f"{FOLDER_BYTES_MAX >> 20} MiB, too much to copy; put the input of "
                    "the program into a separate folder and give it with --folder DIR"
                )


def _check_command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequestError(f"--check {text!r}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise BadRequestError(f"--check {text!r}: no such command")
    return (str(Path(words[0]).absolute()) if os.sep in words[0] else words[0], *words[1:])


def _check_output(path: Path | None) -> None:
    if path is not None and not path.absolute().parent.is_dir():
        raise BadRequestError(f"--output {path}: no such directory: {path.absolute().parent}")


def _will_store(session: Session, store: bool | None) -> bool:
    """Whether to store the certificate; checks the connection before the runs."""
    if store is False:
        return False
    try:
        with session.connect() as client:
            client.power()
    except UnreachableError as error:
        if store:
            raise
        click.echo(f"wattfold: the certificate will not be stored: {error}", err=True)
        return False
    return True


def _try(session: Session, trial: Trial) -> Certificate:
    from wattfold.shims.certify import NoResultError

    try:
        with _progress(session.console(stderr=True)) as progress:
            return trial(progress)
    except NoResultError as error:
        raise CliError(f"no verdict: {error}") from error
    except OSError as error:
        raise CliError(f"no verdict: the program cannot be run: {error}") from error


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress: a changing line, or lines without a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not console.is_terminal:
        yield lambda line: click.echo(line, err=True)
        return
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda line: bar.update(task, description=line)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the programs too, which run in their own sessions."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(path: Path | None, certified: Certified) -> None:
    from wattfold.coordinator.cli.shared.connection import certificates

    if path is None:
        return
    try:
        certificates.write_file(path, certified)
    except OSError as error:
        click.echo(f"wattfold: cannot write {path}: {error.strerror or error}", err=True)


def _show(session: Session, certified: Certified, stored: bool, output: Path | None) -> None:
    from wattfold.coordinator.cli.shared.connection import certificates

    if session.json:
        session.print_json(
            {
                "app": certified.app,
                "certificate": dict(certified.evidence),
                "stored": stored,
                "output": str(output) if output else None,
            }
        )
        return
    session.print(certificates.evidence_sheet(certified))
    if stored:
        click.echo(f"Stored as {certified.app!r}.")


def _stored(session: Session, certified: Certified) -> CliError | None:
    """Store the certificate; return the failure if it could not be stored."""
    try:
        with session.connect() as client:
            client.put_profile(certified.profile())
    except CliError as error:
        return error
    return None


def _put(session: Session, path: Path, app: str, store: bool | None, argv: Sequence[str]) -> None:
    from wattfold.coordinator.cli.shared.connection import certificates

    if argv or store is False:
        raise BadRequestError(
            "--put cannot be combined with a program or --no-store; it only stores a certificate"
        )
    certified = certificates.read_file(path, app)
    if (failure := _stored(session, certified)) is not None:
        raise failure
    if session.json:
        session.print_json({"app": certified.app, "stored": True})
    else:
        click.echo(f"Stored as {certified.app!r}.")
