"""Columns of `nodes` by name, for chosen columns, CSV and orders."""

from __future__ import annotations

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.columns import Field, Fields
from wattfold.v1 import coordinator_pb2 as pb


def cap_uw(node: pb.Node) -> int:
    """Return the sum of the caps of all zones of a node."""
    return sum(zone.cap_uw for zone in node.zones)


def _w(power_uw: int) -> float | None:
    return power_uw / 1e6 if power_uw else None


def _reason(node: pb.Node) -> str:
    """Return why a node is not in service, or cannot start jobs."""
    texts = (node.message, node.launch_fault, node.duty_reason, node.waits_for)
    return "; ".join(filter(None, (*texts, *f.power_notes(node))))


FIELDS: Fields[pb.Node] = {
    "node": Field(lambda node: node.node_id),
    "state": Field(f.node_status),
    "address": Field(lambda node: node.address),
    "free": Field(lambda node: f.cpu_count(node.free_cpus)),
    "cpus": Field(lambda node: f.cpu_count(node.cpus)),
    "cap": Field(lambda node: _w(cap_uw(node)), "w"),
    "cap_min": Field(lambda node: _w(sum(zone.cap_uw_min for zone in node.zones)), "w"),
    "cap_max": Field(lambda node: _w(sum(zone.cap_uw_max for zone in node.zones)), "w"),
    "draw": Field(lambda node: _w(node.measured_uw), "w"),
    "commit": Field(lambda node: _w(node.committed_uw), "w"),
    "outside": Field(lambda node: _w(node.outside_uw), "w"),
    "memory": Field(lambda node: node.memory_bytes or None, "bytes"),
    "free_memory": Field(
        lambda node: node.free_memory_bytes if node.memory_bytes else None, "bytes"
    ),
    "gpus": Field(lambda node: len(node.gpus)),
    "free_gpus": Field(lambda node: len(node.free_gpus)),
    "features": Field(lambda node: ",".join(node.features)),
    "slurm": Field(lambda node: node.manager_state),
    "jobs": Field(lambda node: len(node.job_ids)),
    "job_list": Field(lambda node: ",".join(node.job_ids)),
    "reason": Field(_reason),
}
