"""`wattfold-coordinator backup` and `restore`: the journal, without a running coordinator."""

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
        "--config",
        type=click.Path(path_type=Path),
        help="TOML file with the configuration of the coordinator.",
    )(command)
    return click.option(
        "--state-dir",
        help="Directory of the journal. Default: the state directory of the configuration.",
    )(command)


@click.command("backup")
@_where
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def backup(
    context: click.Context, config: Path | None, state_dir: str | None, force: bool, target: Path
) -> None:
    """Write a verified copy of the journal to FILE. The coordinator may keep running."""
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
    """Replace the journal of a stopped coordinator with the backup FILE.

    The previous journal is retained under another name. Jobs that were waiting are held, because
    they may have run after the backup.
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
        lines.append(f"the previous journal is retained as {done.aside}")
    lines.append(
        f"the next start uses epoch {done.first_epoch} and continues with job ID {done.first_job}"
    )
    if done.found.waiting:
        held = ", ".join(done.found.waiting[:20]) + (", ..." if done.found.waiting[20:] else "")
        lines.append(
            f"held, because they may have run after the backup: {held}; check them with `wattfold "
            "queue`, then release or cancel them"
        )
    lines.append(
        "jobs submitted after the backup are unknown; those that run continue, and no other job "
        "gets their cores"
    )
    return lines


def _told(found: Verified) -> str:
    last = datetime.fromtimestamp(found.last_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{found.events} events verified, the last is number {found.last} of {last}"


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
