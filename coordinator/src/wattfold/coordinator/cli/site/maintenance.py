"""`wattfold-coordinator backup | restore`: the journal of a coordinator that need not run."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from wattfold.coordinator.adapters.config import ConfigError, load
from wattfold.coordinator.adapters.journal_backup import Restored, Verified, back_up, restore
from wattfold.coordinator.adapters.journal_file import JournalError

EXIT_FAILED = 2
JOURNAL = "journal.sqlite"


def _where(command: Any) -> Any:
    """The options that say whose journal is meant; also taken before the command."""
    command = click.option(
        "--config", type=click.Path(path_type=Path), help="TOML file of the coordinator."
    )(command)
    return click.option("--state-dir", help="Directory of the journal.")(command)


@click.command("backup")
@_where
@click.option("--force", is_flag=True, help="Write over an existing file.")
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def backup(
    context: click.Context, config: Path | None, state_dir: str | None, force: bool, target: Path
) -> None:
    """Write a verified copy of the journal to FILE, also while the coordinator runs."""
    journal = _journal(context, config, state_dir)
    try:
        found = back_up(journal, target, force)
    except JournalError as error:
        _fail(error)
    click.echo(f"{target}: {_told(found)}")


@click.command("restore")
@_where
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def restore_command(
    context: click.Context, config: Path | None, state_dir: str | None, source: Path
) -> None:
    """Put the backup FILE in the place of the journal of a coordinator that is stopped.

    The journal of before is kept. Jobs that waited are held, as they may have run since.
    """
    journal = _journal(context, config, state_dir)
    try:
        done = restore(source, journal, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    except JournalError as error:
        _fail(error)
    for line in _restored_lines(journal, done):
        click.echo(line)


def _restored_lines(journal: Path, done: Restored) -> list[str]:
    lines = [f"{journal}: {_told(done.found)}"]
    if done.aside is not None:
        lines.append(f"the journal of before is kept as {done.aside}")
    lines.append(f"the next start begins epoch {done.first_epoch}, jobs go on at {done.first_job}")
    if done.found.waiting:
        held = ", ".join(done.found.waiting[:20]) + (", ..." if done.found.waiting[20:] else "")
        lines.append(
            f"held, as they may have run since: {held}; see `wattfold queue`, then release or "
            "cancel them"
        )
    lines.append(
        "jobs submitted since are not known: what runs of them goes on, on cores nobody else gets"
    )
    return lines


def _told(found: Verified) -> str:
    last = datetime.fromtimestamp(found.last_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{found.events} events up to number {found.last} of {last}, verified"


def _journal(context: click.Context, config: Path | None, state_dir: str | None) -> Path:
    outer: dict[str, Any] = context.obj or {}
    chosen = state_dir or outer.get("state_dir")
    flags = {"state_dir": chosen} if chosen else {}
    try:
        return load(config or outer.get("config"), flags).state_dir / JOURNAL
    except ConfigError as error:
        _fail(error)


def _fail(error: Exception) -> NoReturn:
    click.echo(f"wattfold-coordinator: {error}", err=True)
    sys.exit(EXIT_FAILED)
