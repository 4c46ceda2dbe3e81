"""`node`: commands that drain, return, remove, readmit, suspend and start nodes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from wattfold.coordinator.cli.shared.connection.address import checked_address, default_address
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError
from wattfold.coordinator.cli.shared.parsing import DURATION_NS
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient

POLL_S = 0.25
_REPLACED = frozenset({pb.NODE_DUTY_SERVING, pb.NODE_DUTY_OUTSIDE, pb.NODE_DUTY_UNPOWERED})
"""Duties that show that another order replaced a drain or a leave."""
F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def node() -> None:
    """Drain, release, remove, readmit, suspend and start nodes."""


def _complete(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of nodes; empty if no coordinator answers."""
    del parameter
    # No command runs while a line is completed, so there is no session yet.
    given = context.find_root().params
    address = given.get("address") or checked_address(default_address())
    token_file = given.get("token_file")
    try:
        session = Session(address=address, token_file=token_file, json=False, color=False)
        with session.connect() as client:
            names = [node.node_id for node in client.list_nodes().nodes]
    except CliError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


_name = click.argument("node_id", metavar="NODE", shell_complete=_complete)
_reason = click.option(
    "--reason", default="", metavar="TEXT", help="Reason, shown by `wattfold nodes`."
)


def _waiting(default: bool, until: str) -> Callable[[F], F]:
    def add(command: F) -> F:
        timeout = click.option(
            "--timeout",
            "timeout_ns",
            type=DURATION_NS,
            metavar="DURATION",
            help="Maximum time to wait, such as 10m. The order stays in force after it.",
        )
        wait = click.option(
            "--wait/--no-wait",
            default=default,
            show_default=True,
            help=f"Wait until {until}.",
        )
        return wait(timeout(command))

    return add


@node.command()
@_name
@_reason
@click.option("--cancel", "cancel_jobs", is_flag=True, help="Cancel the jobs that run on the node.")
@_waiting(default=False, until="no job is on the node")
@session_command
def drain(
    session: Session,
    node_id: str,
    reason: str,
    cancel_jobs: bool,
    wait: bool,
    timeout_ns: int | None,
) -> None:
    """Start no new jobs on a node. Running jobs continue to their end."""
    with session.connect() as client:
        found = client.drain_node(node_id, reason, cancel_jobs)
        if wait:
            found = _wait(client, node_id, _drained, timeout_ns, _jobs_left)
    _show(session, found)


@node.command()
@_name
@_reason
@session_command
def resume(session: Session, node_id: str, reason: str) -> None:
    """Return a node to service, or readmit a removed node.

    The order cancels a drain or a leave.
    """
    with session.connect() as client:
        found = client.resume_node(node_id, reason)
    _show(session, found)


@node.command()
@_name
@_reason
@_waiting(default=True, until="the node has left")
@session_command
def leave(session: Session, node_id: str, reason: str, wait: bool, timeout_ns: int | None) -> None:
    """Release a node and restore its original power limits.

    The node gets no new jobs. It leaves when its jobs have ended and the budget and all announced
    budgets have room for its original limits. With --no-wait it leaves now, or the command is
    refused with the missing watts or the announced budget.
    A node that has left is charged with its original limits until `wattfold node forget`.
    """
    with session.connect() as client:
        found = client.leave_node(node_id, reason, at_once=not wait)
        if wait:
            found = _wait(client, node_id, _left, timeout_ns, lambda seen: seen.waits_for)
    _show(session, found)


@node.command()
@_name
@_reason
@click.option(
    "--no-power", is_flag=True, help="State that the node has no power. Its watts are free at once."
)
@click.option(
    "--outside-budget",
    is_flag=True,
    help="State that the power of the node is no longer part of this budget.",
)
@session_command
def forget(
    session: Session, node_id: str, reason: str, no_power: bool, outside_budget: bool
) -> None:
    """Remove a node from the ledger on your responsibility.

    Its jobs are marked as lost, and its power is no longer charged. Use --no-power for an
    unreachable node that is switched off. Use --outside-budget for a node that has left, or that
    is down and powered from another budget.

    If a node removed with --no-power answers again, it is shown as returned. Only `wattfold node
    resume` readmits it.
    """
    if no_power == outside_budget:
        raise click.UsageError(
            "give exactly one of --no-power and --outside-budget",
            click.get_current_context(),
        )
    word = pb.FORGET_WORD_NO_POWER if no_power else pb.FORGET_WORD_OUTSIDE_BUDGET
    with session.connect() as client:
        answer = client.forget_node(node_id, reason, word)
    if session.json:
        last = {"last_power_uw": answer.last_power_uw, "last_heard_s": answer.last_heard_s}
        session.print_json(as_dict(answer.node) | last)
        return
    _show(session, answer.node)
    if no_power:
        click.echo(_last_heard(answer))


def _last_heard(answer: pb.ForgetNodeResponse) -> str:
    """Describe the last telemetry of a node that should have no power, and what to check."""
    node = answer.node.node_id
    if not answer.last_heard_s:
        return f"{node} has sent no telemetry since the coordinator started"
    ago = f.duration(time.time() - answer.last_heard_s)
    return (
        f"{node} last reported {f.power(answer.last_power_uw)}, {ago} ago at "
        f"{f.clock(answer.last_heard_s)}. This power is no longer charged, so make sure that "
        "the node is off"
    )


@node.command("sleep")
@_name
@_waiting(default=False, until="the node is asleep")
@session_command
def fall_asleep(session: Session, node_id: str, wait: bool, timeout_ns: int | None) -> None:
    """Suspend a node with the program of the site.

    The node gets no new jobs, and falls asleep when its jobs have ended. It is charged as before
    until it is seen asleep. It stays asleep until `wattfold node wake` or `wattfold node auto`.
    """
    with session.connect() as client:
        found = client.sleep_node(node_id)
        if wait:
            found = _wait_for_power(client, node_id, pb.NODE_POWER_STATE_ASLEEP, timeout_ns)
    _show_power(session, found)


@node.command()
@_name
@_waiting(default=False, until="the node is awake")
@session_command
def wake(session: Session, node_id: str, wait: bool, timeout_ns: int | None) -> None:
    """Start a sleeping node with the program of the site.

    The power of the boot is reserved first. The node waits for it if the budget has no room.
    It stays awake until `wattfold node sleep` or `wattfold node auto`.
    """
    with session.connect() as client:
        found = client.wake_node(node_id)
        if wait:
            found = _wait_for_power(client, node_id, pb.NODE_POWER_STATE_AWAKE, timeout_ns)
    _show_power(session, found)


@node.command()
@_name
@session_command
def auto(session: Session, node_id: str) -> None:
    """Let plans decide again whether a node sleeps.

    The order cancels the effect of `wattfold node sleep` and `wattfold node wake`.
    """
    with session.connect() as client:
        found = client.decide_node_sleep(node_id)
    _show_power(session, found)


@node.command("keep-awake")
@click.argument("nodes", metavar="N", type=click.IntRange(0, 1_000_000))
@session_command
def keep_awake(session: Session, nodes: int) -> None:
    """Keep N nodes without jobs awake; 0 = plans decide alone."""
    with session.connect() as client:
        answer = client.keep_nodes_awake(nodes)
    if session.json:
        session.print_json(as_dict(answer))
        return
    kept = answer.nodes
    sys.stdout.write(
        f"{kept} node{'s' * (kept != 1)} without jobs stay{'s' * (kept == 1)} awake\n"
        if kept
        else "plans decide which nodes stay awake\n"
    )


def _wait_for_power(
    client: CoordinatorClient, node_id: str, wanted: pb.NodePowerState, timeout_ns: int | None
) -> pb.Node:
    def reached(seen: pb.Node) -> bool:
        up = wanted != pb.NODE_POWER_STATE_AWAKE or seen.state == pb.NODE_STATE_UP
        return seen.power_state == wanted and up

    return _wait(
        client,
        node_id,
        reached,
        timeout_ns,
        lambda seen: seen.power_waits_for or seen.message,
        replaced=frozenset(),
    )


def _show_power(session: Session, found: pb.Node) -> None:
    if session.json:
        session.print_json(as_dict(found))
        return
    text = f.node_power(found) or "awake"
    if found.power_waits_for:
        text += f": {found.power_waits_for}"
    sys.stdout.write(f"{found.node_id} {text}\n")


def _drained(seen: pb.Node) -> bool:
    # Residual processes would be lost with the node, and their job with them.
    return not (seen.job_ids or seen.resident_job_ids)


def _left(seen: pb.Node) -> bool:
    return seen.duty == pb.NODE_DUTY_LEFT


def _jobs_left(seen: pb.Node) -> str:
    there = [*seen.job_ids, *seen.resident_job_ids]
    return f"jobs on the node must end first: {', '.join(there[:10])}"


def _wait(
    client: CoordinatorClient,
    node_id: str,
    done: Callable[[pb.Node], bool],
    timeout_ns: int | None,
    obstacle: Callable[[pb.Node], str],
    replaced: frozenset[pb.NodeDuty] = _REPLACED,
) -> pb.Node:
    """Return the node when ``done`` holds. Each new obstacle is reported once."""
    until_s = time.monotonic() + timeout_ns / 1e9 if timeout_ns else None
    told, pace = "", threading.Event()
    while True:
        seen = _look(client, node_id)
        if done(seen):
            return seen
        if seen.duty in replaced:
            raise CliError(
                f"node {node_id} is {f.node_duty(seen)} now: another order replaced this one"
            )
        why = obstacle(seen)
        if until_s is not None and time.monotonic() >= until_s:
            raise CliError(
                f"timeout for node {node_id}, the order stays in force: {why or 'in progress'}"
            )
        if why and why != told:
            click.echo(f"wattfold: node {node_id} waits: {why}", err=True)
            told = why
        pace.wait(POLL_S)


def _look(client: CoordinatorClient, node_id: str) -> pb.Node:
    for found in client.list_nodes().nodes:
        if found.node_id == node_id:
            return found
    raise NotFoundError(f"node {node_id!r} no longer exists")


def _show(session: Session, found: pb.Node) -> None:
    if session.json:
        session.print_json(as_dict(found))
        return
    text = f.node_duty(found)
    if f.serves(found) and found.state != pb.NODE_STATE_UP:
        text += f", but {': '.join(filter(None, [f.node_state(found.state), found.message]))}"
    sys.stdout.write(f"{found.node_id} {text}\n")
