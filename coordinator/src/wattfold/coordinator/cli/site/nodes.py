"""`nodes`: nodes, their caps and their free resources."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.cli.shared import formatting as f
from wattfold.coordinator.cli.shared.message_json import as_dict
from wattfold.coordinator.cli.shared.session import Session, session_command
from wattfold.coordinator.cli.shared.tables import (
    PlainTable,
    add_row,
    flexible,
    left,
    plain_table,
    right,
)
from wattfold.v1 import coordinator_pb2 as pb


@click.command()
@session_command
def nodes(session: Session) -> None:
    """List nodes with their state, cores, caps, power and jobs.

    CAP W and RANGE W are sums over the power zones of the node. COMMIT W is the maximum power of
    the node, base power included. A leading + marks a node outside the ledger. DRAW W is measured,
    by the meter of the whole node if it has one. JOBS also shows recent residual work of jobs on
    lost cores, and the reservations of the node. A closed node cannot start jobs: JOBS shows why.
    """
    with session.connect() as client:
        answer = client.list_nodes()
    if session.json:
        session.print_json(as_dict(answer))
    elif answer.nodes:
        session.print(_node_table(answer.nodes))
    else:
        click.echo("No nodes; list them in the configuration of the coordinator.")


def cap_uw(node: pb.Node) -> int:
    """Return the sum of the caps of all zones of a node."""
    return sum(zone.cap_uw for zone in node.zones)


def cpu_count(cpus: str) -> int:
    """Return the number of CPUs in a list, or zero for an invalid list."""
    try:
        return len(CpuSet.parse(cpus))
    except ValueError:
        return 0


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
            f"{cpu_count(node.free_cpus)}/{cpu_count(node.cpus)}",
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
