"""`queues`: the queues of the site, and their limits."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wattfold.contract.units import s_from_ns
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@session_command
def queues(session: Session) -> None:
    """List queues with their priorities, limits, waits and jobs.

    LIMIT is the time limit of jobs that request none. MAX is the maximum time limit. CORES and
    NODES are the maximum sizes. WAIT shows the expected and the maximum wait of the queue;
    `wattfold explain` shows it for each job. PREEMPTS lists the queues that this queue may preempt.
    Only jobs submitted with --preemptable are preempted. SHARE is the default of `submit --share`.
    ON is the list of nodes that the jobs of the queue may use.
    """
    with session.connect() as client:
        answer = client.list_queues()
    if session.json:
        session.print_json(numbered("queues", as_dict(answer)))
    elif answer.queues:
        session.print(_table(answer.queues))
    else:
        click.echo("No queues; define them in the configuration of the coordinator.")


def _table(listed: Iterable[pb.Queue]) -> PlainTable:
    table = plain_table(
        left("QUEUE"),
        right("PRIORITY"),
        right("WEIGHT"),
        right("LIMIT"),
        right("MAX"),
        right("CORES"),
        right("NODES"),
        right("WAIT"),
        right("WAITING"),
        right("RUNNING"),
        left("PREEMPTS"),
        left("SHARE"),
        left("ON"),
    )
    for queue in listed:
        add_row(
            table,
            queue.name,
            f"{queue.priority:g}",
            f"{queue.weight:g}",
            _time(queue.time_limit_ns),
            _time(queue.time_limit_ns_max),
            str(queue.cores_max or f.NONE),
            str(queue.nodes_max or f.NONE),
            f"{_time(queue.wait_ns_expected)}/{_time(queue.wait_ns_max)}",
            str(queue.jobs_waiting),
            str(queue.jobs_running),
            " ".join(queue.preempts) or f.NONE,
            f.shared(queue.sharing),
            " ".join(queue.node_ids) or f.NONE,
        )
    return table


def _time(time_ns: int) -> str:
    return f.duration(s_from_ns(time_ns)) if time_ns else f.NONE
