"""`reload`: the coordinator reads its configuration again, and answers what it did."""

from __future__ import annotations

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts.message_json import as_dict


@click.command()
@session_command
def reload(session: Session) -> None:
    """Read the configuration of the coordinator again.

    Nodes, queues, accounts, the policy and its settings change without a restart. Jobs run on, and
    leases and caps stay. Other settings need a restart, and the command names those that differ. If
    the configuration has an error, nothing changes. `wattfold-coordinator check` checks the file
    before. Only operators may do this.
    """
    with session.connect() as client:
        answer = client.reload()
    if session.json:
        session.print_json(as_dict(answer))
        return
    changed = ", ".join(answer.changed) or "nothing"
    click.echo(
        f"Changed: {changed}. Policy: {answer.policy}. Nodes: {answer.nodes}. "
        f"Queues: {answer.queues}."
    )
    if answer.needs_restart:
        names = ", ".join(answer.needs_restart)
        click.echo(f"Restart the coordinator for: {names}.", err=True)
