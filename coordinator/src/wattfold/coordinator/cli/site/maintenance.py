"""`wattfold-coordinator backup`, `restore` and `check`: commands without a running coordinator."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from wattfold.coordinator.adapters.config.settings import load, place_of
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.door.access_settings import AccessError, looked_up
from wattfold.coordinator.adapters.door.serving import StartError, check_settings
from wattfold.coordinator.adapters.journal.backup import Restored, Verified, back_up, restore
from wattfold.coordinator.adapters.journal.file import JournalError
from wattfold.coordinator.cli.shared.connection.address import default_address

EXIT_FAILED = 2
JOURNAL = "journal.sqlite"


def where(command: Any) -> Any:
    """Add the options that locate the journal; they are also accepted before the command."""
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
@where
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def backup(
    context: click.Context, config: Path | None, state_dir: str | None, force: bool, target: Path
) -> None:
    """Write a verified copy of the journal to FILE. The coordinator may keep running."""
    journal = journal_path(context, config, state_dir)
    try:
        found = back_up(journal, target, force)
    except JournalError as error:
        fail(error)
    click.echo(f"{target}: {_told(found)}")


@click.command("restore")
@where
@click.argument("source", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_context
def restore_command(
    context: click.Context, config: Path | None, state_dir: str | None, source: Path
) -> None:
    """Replace the journal of a stopped coordinator with the backup FILE.

    The previous journal is retained under another name. Jobs that were waiting are held, because
    they may have run after the backup.
    """
    journal = journal_path(context, config, state_dir)
    try:
        done = restore(source, journal, datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))
    except JournalError as error:
        fail(error)
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


def journal_path(context: click.Context, config: Path | None, state_dir: str | None) -> Path:
    """Return the journal of the options, which come before or after the command."""
    outer: dict[str, Any] = context.find_root().obj or {}
    chosen = state_dir or outer.get("flags", {}).get("state_dir")
    flags = {"state_dir": chosen} if chosen else {}
    try:
        return load(config or outer.get("config"), flags).state_dir / JOURNAL
    except ConfigError as error:
        fail(error)


@click.command("check")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="TOML file with the configuration of the coordinator.",
)
@click.pass_context
def check(context: click.Context, config: Path | None) -> None:
    """Check the configuration and its files. The coordinator may keep running.

    The command changes nothing and contacts no node. It prints the first fault with its line.
    Options of the coordinator before `check` take precedence over the file. Exit status: 0 if the
    configuration is valid, 2 if it is not.
    """
    outer: dict[str, Any] = context.obj or {}
    path, flags = config or outer.get("config"), outer.get("flags", {})
    try:
        found = load(path, flags)
        try:
            looked_up(found.access)
            check_settings(found, found.listen or default_address())
        except (AccessError, StartError) as error:
            fail(f"{place_of(path, error.setting, flags)}: {error}")
    except ConfigError as error:
        fail(error)
    budget = f"{found.budget_uw / 1e6:.1f} W" if found.budget_uw else "from the journal"
    metrics = f", metrics on {found.metrics_listen}" if found.metrics_listen else ""
    click.echo(
        f"valid: policy {found.policy.name}, budget {budget}, nodes: {len(found.nodes)}, "
        f"queues: {len(found.queues)}{metrics}"
    )


def fail(error: Exception | str) -> NoReturn:
    """End the command with a message."""
    click.echo(f"wattfold-coordinator: {error}", err=True)
    sys.exit(EXIT_FAILED)
