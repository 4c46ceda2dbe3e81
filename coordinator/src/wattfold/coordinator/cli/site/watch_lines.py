"""Snapshot of the cluster as plain lines, for logs and pipes."""

from __future__ import annotations

from datetime import datetime

from wattfold.coordinator.cli.jobs.lists.job_tables import (
    done,
    hidden,
    name_of,
    owner,
    where_or_reason,
)
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.site.node_columns import cap_uw
from wattfold.coordinator.cli.site.power import asleep_count, excess, is_late, manager_text, outside
from wattfold.v1 import coordinator_pb2 as pb


def snapshot_lines(view: pb.ClusterView) -> list[str]:
    """Return one line of power, then one line per node and per job."""
    moment = datetime.fromtimestamp(view.time_s).astimezone().isoformat(timespec="seconds")
    power = view.power
    lines = [
        f"{moment} budget {f.power(power.budget_uw)} committed {f.power(power.committed_uw)} "
        f"measured {f.power(power.measured_uw)} policy {power.policy or f.NONE}"
    ]
    if sleeping := asleep_count(power):
        lines.append(f"  {sleeping}")
    if manager := manager_text(power):
        lines.append(f"  {power.manager.name} {manager}")
    if power.outside_uw:
        lines.append(f"  {outside(power)}")
    if is_late(power):
        lines.append(f"  {excess(power)}")
    lines += [_node_line(node, view.time_s) for node in view.nodes]
    lines += [_job_line(job) for job in view.jobs]
    return lines


def _node_line(node: pb.Node, now_s: float) -> str:
    line = (
        f"  node {node.node_id} {f.node_status(node)} cap {f.power(cap_uw(node))} "
        f"draw {f.power(node.measured_uw)} commit {f.power(node.committed_uw)} "
        f"free {node.free_cpus or f.NONE}"
    )
    return f"{line} {f.power_brief(node, now_s)}".rstrip()


def _job_line(job: pb.Job) -> str:
    line = (
        f"  job {job.job_id} {name_of(job)} {f.job_state(job.state)} size {f.size(job)} "
        f"done {done(job)}"
    )
    if hidden(job):
        line += f" user {owner(job)}"
    return f"{line} {where_or_reason(job)}".rstrip()
