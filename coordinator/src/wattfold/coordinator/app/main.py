"""Entry point of `wattfold-coordinator`: options, commands and exit statuses."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from pathlib import Path
from typing import Any

import click

from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.agents.calls import FencedError
from wattfold.coordinator.adapters.agents.step_keys import StepSecretError
from wattfold.coordinator.adapters.config.settings import load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.door.access_settings import AccessError
from wattfold.coordinator.adapters.door.serving import StartError
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.logs import start_logging
from wattfold.coordinator.app.serve import serve
from wattfold.coordinator.app.take_command import Orders
from wattfold.coordinator.app.wiring import EXIT_FENCED
from wattfold.coordinator.cli.site.journal import journal as journal_group
from wattfold.coordinator.cli.site.maintenance import backup, check, restore_command
from wattfold.coordinator.models.forecast import METHODS
from wattfold.coordinator.policies import registry

EXIT_CONFIG = 2


@click.group(invoke_without_command=True)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with the settings.")
@click.option("--listen", help="Address to listen on: unix:/path (default) or host:port.")
@click.option("--state-dir", help="Directory of the journal.")
@click.option(
    "--budget-w",
    type=float,
    help="Power budget in watts. Later changes with `wattfold budget` persist.",
)
@click.option(
    "--policy",
    help=f"Scheduling policy: {', '.join(registry.service_names())}. See `wattfold policies`.",
)
@click.option(
    "--predict", help=f"Source of run times for planning: {', '.join(METHODS)}. Default: user."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="ID=ADDRESS", help="Agent of a node; may be repeated."
)
@click.option(
    "--lease-s",
    type=float,
    help="Duration of a lease in seconds. Without renewal, caps fall to the floor after it.",
)
@click.option(
    "--token-file", help="File with the token that clients must send over TCP (mode 0600)."
)
@click.option("--token-account", metavar="NAME", help="Account of clients that send this token.")
@click.option("--agent-token-file", help="File with the token that the agents require (mode 0600).")
@click.option(
    "--first-epoch",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Minimum epoch of this start, for a new journal with nodes of an earlier coordinator.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start although the journal lacks acknowledged events, as after damage to its files.",
)
@click.option(
    "--moved",
    is_flag=True,
    help="Start although the state folder was moved or copied here, or is older than what the "
    "nodes know. No other coordinator may use the nodes from now on.",
)
@click.option(
    "--record", type=click.Path(path_type=Path), help="Record power and cores in this file."
)
@click.option("--verbose", is_flag=True, help="Log planning rounds as well.")
@click.version_option(package_name="wattfold")
@click.pass_context
def main(
    context: click.Context,
    /,
    config: Path | None,
    record: Path | None,
    first_epoch: int,
    accept_loss: bool,
    moved: bool,
    verbose: bool,
    nodes: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run the coordinator: assign nodes, cores and watts to jobs within one power budget."""
    given = {key: value for key, value in flags.items() if value is not None}
    if nodes:
        given["nodes"] = list(nodes)
    if context.invoked_subcommand is not None:
        context.obj = {"config": config, "flags": given}
        return
    start_logging(verbose)
    try:
        # SIGHUP before the coordinator serves must not end it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        read = functools.partial(load, config, given)
        given_by_operator = Orders(
            first_epoch=first_epoch, accept_loss=accept_loss, moved=moved, record=record
        )
        sys.exit(asyncio.run(serve(read, given_by_operator)))
    except FencedError as error:
        click.echo(f"wattfold-coordinator: {error}", err=True)
        sys.exit(EXIT_FENCED)
    except (
        ConfigError,
        StartError,
        JournalError,
        StepSecretError,
        AccessError,
        channels.TokenError,
    ) as error:
        click.echo(f"wattfold-coordinator: {error}", err=True)
        sys.exit(EXIT_CONFIG)


main.add_command(backup)
main.add_command(check)
main.add_command(restore_command)
main.add_command(journal_group)
