"""Leases at the end of the last coordinator, read from the journal without a replay.

A replay of 20,000 events takes seconds, on a busy machine longer than a lease. A renewal needs the
epoch and the addresses of the nodes. It must not keep up caps that have to be lowered. Cases that
may need lower caps wait for the replay: a node with an order since the checkpoint, a recent change
of the budget, a recent emergency, or an announced budget that is near.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattfold.contract.ids import Epoch, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.node import Duty

LEASES_BACK = 2
"""The newest renewals may be lost in a crash. Older renewals show that a node is in contact."""
CUT_NS = 60 * NS_PER_S
"""Maximum time of a change of the budget, besides some leases: commands and RAPL windows."""
_KINDS = (
    "CoordinatorStarted",
    "CalendarStepped",
    "JournalRestored",
    "BudgetChanged",
    "BudgetAnnounced",
    "BudgetsScheduled",
    "EmergencyBegun",
    "NodeRegistered",
    "NodeRetired",
    "NodeOrdered",
)
_KNOWN = (Duty.SERVING.value, Duty.DRAINING.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningLeases:
    """The leases to renew: nodes with addresses, and the epoch."""

    epoch: Epoch
    lease_ns: int
    command_timeout_ns: int
    addresses: Mapping[NodeId, str]


@dataclass(slots=True)
class _Start:
    """The last start of a coordinator. ``number`` 0 = before the stored events."""

    number: int
    time_ns: int
    epoch: int
    lease_ns: int
    command_timeout_ns: int


def read(db: sqlite3.Connection, last_time_ns: int, now_ns: int) -> RunningLeases | None:
    """Return the leases to renew now; None if there are none, or if a renewal may keep up a cap.

    ``last_time_ns`` is the time of the last event. Raises sqlite3.Error, and ValueError or KeyError
    if a row is invalid.
    """
    checkpoint = db.execute("SELECT event_id FROM checkpoint").fetchone()
    events = _events(db)
    start = _last_start(db, events)
    if start is None or now_ns - last_time_ns > LEASES_BACK * start.lease_ns:
        return None
    number = checkpoint[0] if checkpoint else 0
    since = [event for event in events if event[0] > number]
    if _budget_changes(db, events, since, start, now_ns):
        return None
    addresses = _addresses(db, since)
    restored = max((event[0] for event in events if event[2] == "JournalRestored"), default=0)
    # A node without contact since the last start is given up after one lease or later.
    settled = last_time_ns - start.time_ns >= start.lease_ns
    after = max(restored, start.number if settled else 0)
    renewed = _renewed(db, after, last_time_ns - LEASES_BACK * start.lease_ns)
    found = {node_id: addresses[node_id] for node_id in renewed if node_id in addresses}
    if not found:
        return None
    return RunningLeases(
        epoch=Epoch(start.epoch),
        lease_ns=start.lease_ns,
        command_timeout_ns=start.command_timeout_ns,
        addresses=found,
    )


Event = tuple[int, int, str, dict[str, Any]]
"""Number, time, kind and content of an event."""


def _events(db: sqlite3.Connection) -> list[Event]:
    rows = db.execute(
        "SELECT id, time_ns, kind, body FROM events "
        "WHERE kind IN (SELECT value FROM json_each(?)) ORDER BY id",
        (json.dumps(_KINDS),),
    )
    return [(number, time_ns, kind, json.loads(body)) for number, time_ns, kind, body in rows]


def _last_start(db: sqlite3.Connection, events: list[Event]) -> _Start | None:
    """Return the last start in the events, or else the start before the checkpoint."""
    for number, time_ns, kind, body in reversed(events):
        if kind == "CoordinatorStarted":
            lease_ns, timeout_ns = body["lease_ns"], body["command_timeout_ns"]
            return _Start(number, time_ns, body["epoch"], lease_ns, timeout_ns)
    row = db.execute(
        "SELECT json_extract(body, '$.epoch'), json_extract(body, '$.lease_ns'), "
        "json_extract(body, '$.command_timeout_ns') FROM checkpoint"
    ).fetchone()
    return _Start(0, 0, *row) if row and all(row) else None


def _budget_changes(
    db: sqlite3.Connection, events: list[Event], since: list[Event], start: _Start, now_ns: int
) -> bool:
    """Whether caps may have to be lowered while leases are renewed."""
    span_ns = CUT_NS + LEASES_BACK * start.lease_ns
    query = "SELECT json_extract(value, '$.at_ns') FROM checkpoint, json_each(body, '$.announced')"
    times = [row[0] for row in db.execute(query)]
    times += [one["at_ns"] for _, _, kind, body in since for one in _announced(kind, body)]
    stepped = any(
        kind == "CalendarStepped" or body.get("calendar_step_ns") for _, _, kind, body in since
    )
    if any(stepped or abs(at_ns - now_ns) <= span_ns for at_ns in times):
        return True
    announced = any(_announced(kind, body) for _, _, kind, body in events)
    (first,) = db.execute("SELECT min(id) FROM events").fetchone()
    # The previous budget is known if no announcement has changed it.
    before_uw = 0 if first == 1 else None
    for _, time_ns, kind, body in events:
        if kind == "EmergencyBegun" and now_ns < time_ns + span_ns:
            return True
        if kind != "BudgetChanged":
            continue
        budget_uw, until_ns = body["budget_uw"], time_ns + max(body.get("deadline_ns", 0), span_ns)
        raised = not announced and before_uw is not None and budget_uw >= before_uw
        if now_ns < until_ns and not raised:
            return True
        before_uw = budget_uw
    return False


def _announced(kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the budgets that an event announced."""
    if kind == "BudgetsScheduled":
        return list(body["budgets"])
    return [body] if kind == "BudgetAnnounced" else []


def _addresses(db: sqlite3.Connection, since: list[Event]) -> dict[NodeId, str]:
    """Return the addresses of the nodes in service, as far as known without a replay."""
    rows = db.execute(
        "SELECT key, json_extract(value, '$.address'), json_extract(value, '$.duty'), "
        "json_extract(value, '$.retired') FROM checkpoint, json_each(body, '$.nodes')"
    )
    found = {
        NodeId(node_id): address
        for node_id, address, duty, retired in rows
        if duty in _KNOWN and not retired
    }
    ordered: set[str] = set()
    for _, _, kind, body in since:
        if kind == "NodeRegistered":
            found[NodeId(body["node_id"])] = body["address"]
        elif kind in ("NodeRetired", "NodeOrdered"):
            ordered.add(body["node_id"])
    return {node_id: address for node_id, address in found.items() if node_id not in ordered}


def _renewed(db: sqlite3.Connection, after: int, since_ns: int) -> list[NodeId]:
    """Return the nodes with a renewed lease since a time and no silence after it."""
    last: dict[str, str] = {}
    rows = db.execute(
        "SELECT time_ns, kind, body FROM events WHERE id > ? "
        "AND kind IN ('LeaseRenewed', 'NodeSilent') ORDER BY id DESC",
        (after,),
    )
    for time_ns, kind, body in rows:
        if time_ns < since_ns:
            break
        last.setdefault(json.loads(body)["node_id"], kind)
    return [NodeId(node_id) for node_id, kind in last.items() if kind == "LeaseRenewed"]
