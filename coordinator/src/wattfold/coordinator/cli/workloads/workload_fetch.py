"""`wattfold workload fetch`: download logs from the Parallel Workloads Archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, NotFoundError
from wattfold.coordinator.cli.shared.parsing import Parsed
from wattfold.coordinator.cli.shared.texts.tables import add_row, flexible, left, plain_table
from wattfold.coordinator.cli.workloads.workload_options import expected_failures, warn
from wattfold.simulator.workloads.archive import BASE_URL

if TYPE_CHECKING:
    from wattfold.simulator.workloads.archive import ArchivedLog
    from wattfold.simulator.workloads.download import Fetched


def parse_sum(text: str) -> str:
    """Parse a SHA-256 sum. Raises ValueError."""
    clean = text.strip().lower()
    if len(clean) != 64 or set(clean) - set("0123456789abcdef"):
        raise ValueError(f"not a SHA-256 sum: {text!r}; expected 64 hexadecimal digits")
    return clean


@click.command()
@click.argument("name", required=False)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path),
    envvar="WATTFOLD_WORKLOADS",
    metavar="DIR",
    help="Folder for the log. Default: WATTFOLD_WORKLOADS.",
)
@click.option("--mirror", default=BASE_URL, metavar="URL", help="Address of a copy of the archive.")
@click.option(
    "--checksum",
    "expected",
    type=Parsed("sum", parse_sum),
    metavar="SUM",
    help="Expected SHA-256 sum of the log, 64 hexadecimal digits.",
)
@session_command
def fetch(
    session: Session, name: str | None, folder: Path | None, mirror: str, expected: str | None
) -> None:
    """Download a log of the Parallel Workloads Archive.

    Without a name, the known logs are listed. An interrupted download resumes where it stopped. The
    archive publishes no checksums. The SHA-256 sum of a log is stored next to it at the first
    download, and checked from then on.
    """
    from wattfold.simulator.workloads.archive import ARCHIVE

    if name is None:
        _list(session, mirror)
        return
    log = ARCHIVE.get(name.lower())
    if log is None:
        raise NotFoundError(
            f"no log with the name {name!r}; `wattfold workload fetch` lists the known logs"
        )
    if folder is None:
        raise BadRequestError("no folder for the log; give it with --to DIR or WATTFOLD_WORKLOADS")
    if not folder.is_dir():
        raise BadRequestError(f"no such folder: {folder}")
    fetched = _fetched(session, log, folder, mirror, expected)
    if session.json:
        session.print_json(
            {
                "name": log.name,
                "file": str(fetched.path),
                "sha256": fetched.sha256,
                "bytes": fetched.size,
                "was_there": fetched.was_there,
                "checksum_learnt": fetched.learnt,
            }
        )
        return
    if fetched.learnt:
        warn(f"no checksum of {log.name} was known; stored {fetched.sha256}")
    done = "already exists" if fetched.was_there else "downloaded"
    click.echo(f"{fetched.path} {done}: {fetched.size} bytes, SHA-256 {fetched.sha256}")


def _fetched(
    session: Session, log: ArchivedLog, folder: Path, mirror: str, expected: str | None
) -> Fetched:
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from wattfold.simulator.workloads.download import fetch as download

    console = session.console(stderr=True)
    bar = Progress(
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar, expected_failures():
        task = bar.add_task(log.name, total=None)

        def show(there: int, total: int | None) -> None:
            bar.update(task, completed=there, total=total)

        url = log.url(mirror)
        return download(url, folder / log.file_name, expected or log.sha256, show)


def _list(session: Session, mirror: str) -> None:
    from wattfold.simulator.workloads.archive import ARCHIVE

    if session.json:
        session.print_json(
            {
                "logs": [
                    {
                        "name": log.name,
                        "about": log.about,
                        "url": log.url(mirror),
                        "sha256": log.sha256,
                    }
                    for log in ARCHIVE.values()
                ]
            }
        )
        return
    table = plain_table(left("NAME"), left("LOG"), flexible("ADDRESS"))
    for log in ARCHIVE.values():
        add_row(table, log.name, log.about, log.url(mirror))
    session.print(table)
