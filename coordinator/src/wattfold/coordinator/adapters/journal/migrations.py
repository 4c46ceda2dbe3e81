"""Migrations of stored journals, by the schema they start from.

They work on the stored JSON instead of the current types, because the types will change again. Each
migration runs in the caller's transaction and produces the next schema.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any


def _from_1(db: sqlite3.Connection) -> None:
    """Move the environments of jobs from events and checkpoint into a separate table.

    The next start knows which jobs have ended and deletes their environments. Plans stay proposals,
    because version 1 stored nothing else.
    """
    rows = db.execute("SELECT id, body FROM events WHERE kind = 'JobSubmitted'").fetchall()
    for number, body in rows:
        event = json.loads(body)
        _move_environment(db, event["job_id"], event["spec"])
        db.execute("UPDATE events SET body = ? WHERE id = ?", (json.dumps(event), number))
    found = db.execute("SELECT body FROM checkpoint").fetchone()
    if found is None:
        return
    state = json.loads(found[0])
    for job_id, job in state["jobs"].items():
        _move_environment(db, job_id, job["spec"])
    db.execute("UPDATE checkpoint SET body = ?", (json.dumps(state),))


def _move_environment(db: sqlite3.Connection, job_id: str, spec: dict[str, Any]) -> None:
    body = json.dumps(dict(spec.pop("env", ())))
    db.execute("INSERT OR REPLACE INTO launch_data VALUES (?, ?)", (job_id, body))


MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _from_1}
"""Migrations to the next schema, by the schema of the journal."""
