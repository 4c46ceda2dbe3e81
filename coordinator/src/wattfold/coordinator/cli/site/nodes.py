"""`nodes`: nodes, their caps and their free resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import click

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import NotFoundError
from wattfold.coordinator.cli.shared.parsing import NAMES
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.columns import Order, sort_option
from wattfold.coordinator.cli.shared.texts.formats import (
    CSV,
    JSON,
    TABLE,
    Form,
    chosen_format,
    columns_option,
    header_option,
    print_columns,
    print_csv_columns,
)
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.coordinator.cli.shared.texts.word_lists import state_option
from wattfold.coordinator.cli.site.node_columns import FIELDS, cap_uw
from wattfold.v1 import coordinator_pb2 as pb

STATES = (
    *("up", "closed", "connecting", "silent", "down", "refused", "draining", "drained", "leaving"),
    *("restoring", "left", "forgotten", "returned"),
)


@click.command()
@state_option(STATES, "State of the nodes, as one of the words in STATE.")
@click.option("--node", "names", type=NAMES, metavar="NODE[,NODE]...", help="Nodes by name.")
@sort_option(tuple(FIELDS), text="Default: order of the configuration.")
@columns_option(tuple(FIELDS))
@header_option
@session_command
def nodes(
    session: Session,
    states: tuple[str, ...],
    names: tuple[str, ...] | None,
    order: Order | None,
    form: Form,
    no_header: bool,
) -> None:
    """List nodes with their state, cores, caps, power and jobs.

    CAP W and RANGE W are sums over the power zones of the node. COMMIT W is the maximum power of
    the node, base power included. A leading + marks a node outside the ledger. DRAW W is measured,
    by the meter of the whole node if it has one. JOBS also shows recent residual work of jobs on
    lost cores, and the reservations of the node. A closed node cannot start jobs: JOBS shows why.

    For example: wattfold nodes --state up --sort -free --format node,free,cpus
    """
    form = chosen_format(session, form)
    with session.connect() as client:
        answer = client.list_nodes()
    found = _chosen(answer.nodes, states, names or ())
    if order is not None:
        found = order.apply(FIELDS, found)
    if form == JSON:
        session.print_json(numbered("nodes", as_dict(pb.ListNodesResponse(nodes=found))))
    elif form == CSV:
        print_csv_columns(FIELDS, tuple(FIELDS), found, header=not no_header)
    elif form != TABLE:
        print_columns(session, FIELDS, form, found, header=not no_header)
    elif found:
        if not no_header:
            click.echo(f.counts(Counter(map(f.node_status, found)).most_common()))
        table = _node_table(found)
        session.print(table.without_titles() if no_header else table)
    elif answer.nodes and not no_header:
        click.echo("No matching nodes.")
    elif not no_header:
        click.echo("No nodes; list them in the configuration of the coordinator.")


def _chosen(
    listed: Iterable[pb.Node], states: Collection[str], names: Collection[str]
) -> list[pb.Node]:
    """Return the nodes with one of these states and names. Raises NotFoundError."""
    found = {node.node_id: node for node in listed}
    if unknown := [name for name in names if name not in found]:
        raise NotFoundError(f"no node {unknown[0]!r}; `wattfold nodes` lists all nodes")
    chosen = [node for node in found.values() if not names or node.node_id in names]
    return [
        node
        for node in chosen
        if not states or not set(states).isdisjoint(f.node_status(node).split())
    ]


def _node_table(listed: Iterable[pb.Node]) -> PlainTable:
    table = plain_table(
        left("NODE"),
        left("STATE"),
        right("FREE/CPUS"),
        right("CAP W"),
        right("RANGE W"),
        right("DRAW W"),
        right("COMMIT W"),
        flexible("JOBS (MESSAGE)"),
    )
    for node in listed:
        add_row(
            table,
            node.node_id,
            f.styled_node_status(node),
            f"{f.cpu_count(node.free_cpus)}/{f.cpu_count(node.cpus)}",
            f.watts(cap_uw(node)),
            _range(node),
            f.watts(node.measured_uw),
            commit(node),
            _notes(node),
        )
    return table


def commit(node: pb.Node) -> str:
    """Return the maximum power of a node; `+` marks power outside the ledger."""
    return f"+{f.watts(node.outside_uw)}" if node.outside_uw else f.watts(node.committed_uw)


def _range(node: pb.Node) -> str:
    least = sum(zone.cap_uw_min for zone in node.zones)
    greatest = sum(zone.cap_uw_max for zone in node.zones)
    return f"{f.watts(least, 0)}-{f.watts(greatest, 0)}" if greatest else f.NONE


def _beside_cores(node: pb.Node) -> list[str]:
    """Return memory if jobs reserve some of it, GPUs, and features."""
    notes = []
    if node.free_memory_bytes < node.memory_bytes:
        free, there = f.memory(node.free_memory_bytes), f.memory(node.memory_bytes)
        held = f", limits: {node.memory_mechanism}" if node.memory_mechanism else ", no limits"
        notes.append(f"memory {free} of {there} free{held}")
    if node.gpus:
        notes.append(_gpus(node))
    return notes + ([f"features {', '.join(node.features)}"] if node.features else [])


def _gpus(node: pb.Node) -> str:
    """Return the free GPUs, and whether cgroups enforce their assignment."""
    what = f"{node.gpu_model} GPUs" if node.gpu_model else "GPUs"
    enforced = node.gpu_access.startswith("cgroup")
    held = f", enforced by {node.gpu_access}" if enforced else ", not enforced"
    return f"{what} {len(node.free_gpus)} of {len(node.gpus)} free{held if node.gpu_access else ''}"


def _notes(node: pb.Node) -> str:
    notes = [node.message] if node.message else []
    notes += [f"cannot start jobs: {node.launch_fault}"] if node.launch_fault else []
    notes += [text for text in (node.duty_reason, node.waits_for) if text]
    notes += [f"{node.manager_state} in Slurm"] if node.manager_state else []
    notes += f.power_notes(node)
    if node.outside_uw and node.duty != pb.NODE_DUTY_OUTSIDE:
        notes.append(f"outside the ledger, may draw {f.power(node.outside_uw)}")
    if node.emulated:
        notes.append("emulated")
    if node.drift_count:
        notes.append(f"drift {node.drift_count}")
    notes += _beside_cores(node)
    notes += node.reservations
    if node.overstaying_job_ids:
        notes.append(f"without right to the reservation: {' '.join(node.overstaying_job_ids)}")
    if node.resident_job_ids:
        notes.append(f"residual: {' '.join(node.resident_job_ids)}")
    for job_id in dict.fromkeys(core.job_id for core in node.residual if core.alarm):
        cores = [core for core in node.residual if core.job_id == job_id]
        cpus, load = CpuSet.of(core.cpu for core in cores), sum(core.load for core in cores)
        notes.append(f"{job_id} has residual work on CPUs {cpus}: {load:.2f} cores")
    for what, cpus_text in (("isolated", node.isolated_cpus), ("offline", node.offline_cpus)):
        if cpus_text:
            notes.append(f"{what} CPUs {cpus_text}")
    jobs = " ".join(node.job_ids)
    remarks = f"({', '.join(notes)})" if notes else ""
    return f"{jobs} {remarks}".strip()
