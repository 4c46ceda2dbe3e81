"""Rows that browsers show: jobs, nodes and power, in watts, joules and Unix seconds.

A row is a tuple in the order of its columns. Browsers receive the columns once, and then only the
rows that changed. A converter keeps the row of a message until the message changes, so that 10,000
waiting jobs cost little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from wattfold.contract.os_text import shown_text
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.v1 import coordinator_pb2 as pb

Row = tuple[Any, ...]
M = TypeVar("M", pb.Job, pb.Node)

JOB_COLUMNS = (
    *("id", "name", "app", "user", "access", "state", "size", "submitted_s", "started_s"),
    *("expected_s", "promised", "cap_w", "energy_j", "done", "remaining_s", "limit_s", "reason"),
    *("queue", "due_s", "nodes", "priority", "resizes", "confined", "residual", "attempt"),
    *("ended_s", "message"),
)
NODE_COLUMNS = (
    *("id", "state", "status", "measured_w", "committed_w", "base_w", "floor_w", "cap_w", "max_w"),
    *("emulated", "cpus", "free_cpus", "jobs", "why", "lease_ends_s", "gpus", "cause"),
    *("measured",),
)
POWER_FIELDS = (
    *("budget_uw", "committed_uw", "measured_uw", "committed_uw_peak", "measured_uw_peak"),
    *("floor_uw", "pending_budget_uw", "outside_uw", "outside_accepted_uw", "over_uw"),
)
ACCESS = {
    pb.JOB_ACCESS_OWN: "own",
    pb.JOB_ACCESS_OPERATOR: "operator",
    pb.JOB_ACCESS_OTHER: "other",
}
TEXT_MAX = 400
"""Characters of a reason or a message in a row; the page of a job shows all of them."""


def number(value: float, places: int = 1) -> float:
    """Return a rounded number; 0 for NaN and infinity, which JSON lacks."""
    return round(value, places) if math.isfinite(value) else 0.0


def watts(power_uw: int) -> float:
    """Return watts with two decimals."""
    return round(power_uw / 1e6, 2)


def text(value: str) -> str:
    """Return a text of bounded length that is valid in JSON."""
    shown = shown_text(value)
    return shown if len(shown) <= TEXT_MAX else shown[: TEXT_MAX - 1] + "…"


def shown_job(job: pb.Job) -> Row:
    """Return a job in the order of JOB_COLUMNS."""
    spec = job.spec
    nodes = [share.node_id for share in job.shares if not share.resident]
    energy_uj = job.energy_uj + job.idle_energy_uj + job.gpu_energy_uj
    return (
        *(job.job_id, text(spec.name), text(spec.app), text(job.user)),
        *(ACCESS.get(job.access, "other"), f.job_state(job.state), f.size(job)),
        *(number(job.submitted_at_s), number(job.started_at_s), number(job.expected_start_at_s)),
        *(job.start_promised, watts(job.cap_uw), number(energy_uj / 1e6), number(job.done, 3)),
        *(number(job.remaining_s), number(spec.limit_ns / 1e9), text(job.reason)),
        *(text(spec.queue), number(spec.due_at_s), nodes, number(spec.priority, 3), job.resizes),
        *(job.confined, job.residual_alarm, job.attempt, number(job.ended_at_s)),
        text(job.message),
    )


def shown_node(node: pb.Node) -> Row:
    """Return a node in the order of NODE_COLUMNS."""
    zones = node.zones
    return (
        *(node.node_id, f.node_state(node.state), f.node_status(node)),
        *(watts(node.measured_uw), watts(node.committed_uw), watts(node.base_power_uw)),
        watts(sum(zone.floor_uw for zone in zones)),
        watts(sum(zone.cap_uw for zone in zones)),
        watts(node.base_power_uw + sum(zone.cap_uw_max for zone in zones)),
        *(node.emulated, node.cpus, node.free_cpus, [*node.job_ids, *node.resident_job_ids]),
        *(text(node_reason(node)), number(node.lease_ends_at_s), len(node.gpus)),
        *(cause_of(node), bool(node.power_source)),
    )


def node_reason(node: pb.Node) -> str:
    """Return why a node has its state, and what it waits for."""
    closed = f"starts no jobs: {node.launch_fault}" if node.launch_fault else ""
    parts = [node.message, node.duty_reason, node.waits_for, closed, *node.reservations]
    return "; ".join(filter(None, parts))


def cause_of(node: pb.Node) -> str:
    """Return in one word why a node may draw what it may draw."""
    if node.state != pb.NODE_STATE_UP:
        return f.node_state(node.state)
    if not f.serves(node):
        return "operator"
    if node.launch_fault:
        return "closed"
    return "jobs" if node.job_ids or node.resident_job_ids else "idle"


def power_values(power: pb.Power) -> dict[str, Any]:
    """Return the power of the site, with announced budgets, for the page."""
    values: dict[str, Any] = {
        name.replace("_uw", "_w"): watts(getattr(power, name)) for name in POWER_FIELDS
    }
    return values | {
        "energy_j": number(power.energy_uj / 1e6),
        "policy": power.policy,
        "pending_deadline_s": number(power.pending_deadline_s),
        "emulated_nodes": power.emulated_nodes,
        "known_nodes": power.known_nodes,
        "unheard_nodes": len(power.unheard_node_ids),
        "announced": [announced_values(one) for one in power.announced],
        "announced_later": power.announced_later,
    }


def announced_values(budget: pb.AnnouncedBudget) -> dict[str, Any]:
    """Return an announced budget for the page."""
    return {
        "number": budget.number,
        "at_s": number(budget.at_s),
        "from_s": number(budget.from_s),
        "budget_w": watts(budget.budget_uw),
        "obstacle": text(budget.obstacle),
        "schedule": text(budget.schedule),
    }


class RowCache(Generic[M]):
    """Rows of the last messages, by ID. An unchanged message keeps its row."""

    def __init__(self, convert: Callable[[M], Row]) -> None:
        self._convert: Callable[[M], Row] = convert
        self._known: dict[str, tuple[bytes, Row]] = {}

    def rows(self, messages: Iterable[M]) -> dict[str, Row]:
        """Return the rows of these messages, and forget all others."""
        known, found, rows = self._known, {}, {}
        for message in messages:
            key = message.job_id if isinstance(message, pb.Job) else message.node_id
            data = message.SerializeToString()
            entry = known.get(key)
            if entry is None or entry[0] != data:
                entry = data, self._convert(message)
            found[key], rows[key] = entry, entry[1]
        self._known = found
        return rows
