"""Audit trail in the journal: caller, action, origin, time and outcome of each request.

Rows are appended in the transaction of the events that they caused. The oldest rows beyond a limit
are deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass

ENTRIES_KEPT = 100_000
LIST_DEFAULT, LIST_MAX = 100, 10_000
DONE, REFUSED = "done", "refused"
_COLUMNS = "time_s, account, uid, peer, action, job, node, detail, outcome, message"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request. ``uid`` -1 and an empty ``account`` = unknown; times are Unix seconds."""

    time_s: float
    account: str
    uid: int
    peer: str
    action: str
    job: str = ""
    node: str = ""
    detail: str = ""
    outcome: str = DONE
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Search criteria; empty values match all rows. ``limit`` is the number of newest rows."""

    since_s: float = 0.0
    until_s: float = 0.0
    account: str = ""
    job: str = ""
    node: str = ""
    action: str = ""
    limit: int = LIST_DEFAULT


def write(db: sqlite3.Connection, entries: Iterable[AuditEntry], kept: int) -> None:
    """Append entries and delete all but the newest ``kept``. Call it in a transaction."""
    rows = [astuple(entry) for entry in entries]
    if not rows:
        return
    marks = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?"
    db.executemany(f"INSERT INTO audit ({_COLUMNS}) VALUES ({marks})", rows)  # noqa: S608 - constants
    db.execute("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?", (kept,))


def withdraw(db: sqlite3.Connection, entry: AuditEntry) -> None:
    """Withdraw the newest entry that is equal to this one. Call it in a transaction."""
    db.execute(
        "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit "
        "WHERE time_s = ? AND uid = ? AND peer = ? AND action = ?)",
        (entry.time_s, entry.uid, entry.peer, entry.action),
    )


def read(db: sqlite3.Connection, wanted: AuditFilter) -> list[AuditEntry]:
    """Return the newest matching entries, oldest first."""
    where, values = ["1"], list[object]()
    for column, value in (
        ("time_s >=", wanted.since_s),
        ("time_s <=", wanted.until_s),
        ("account =", wanted.account),
        ("job =", wanted.job),
        ("node =", wanted.node),
        ("lower(action) =", wanted.action.lower()),
    ):
        if value:
            where.append(f"{column} ?")
            values.append(value)
    matching = " AND ".join(where)
    query = f"SELECT {_COLUMNS} FROM audit WHERE {matching} ORDER BY id DESC LIMIT ?"  # noqa: S608
    limit = min(wanted.limit or LIST_DEFAULT, LIST_MAX)
    rows = db.execute(query, (*values, limit)).fetchall()
    names = AuditEntry.__dataclass_fields__
    return [AuditEntry(**dict(zip(names, row, strict=True))) for row in reversed(rows)]
