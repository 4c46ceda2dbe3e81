"""Read access for operators to the events of a journal, also while a coordinator writes it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.coordinator.adapters.journal import file as journal_file
from wattfold.coordinator.adapters.journal.file import JournalError

_READ_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """A stored event. ``set_aside`` is the reason why it is not replayed; empty = replayed."""

    number: int
    time_s: float
    kind: str
    body: dict[str, Any]
    set_aside: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Summary of a journal. ``checkpoint`` 0 = none yet."""

    schema: str
    first: int
    last: int
    checkpoint: int


class JournalReader:
    """Read transaction on a journal. Use it in a `with` statement."""

    def __init__(self, path: Path) -> None:
        """Open the journal. Raises JournalError."""
        if not path.exists():
            raise JournalError(f"no journal at {path}; name its directory with --state-dir")
        self._path = path
        try:
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_READ_WAIT_S,
                isolation_level=None,
            )
            self._db.execute("BEGIN")
            schema = journal_file.schema_of(self._db)
            self._aside = journal_file.aside(self._db)
            self._origin_s = float(journal_file.meta(self._db, "origin_s") or 0) if schema else 0.0
        except (sqlite3.Error, ValueError) as error:
            raise JournalError(f"journal {path}: {error}") from error
        if schema is None:
            raise JournalError(f"{path} is not a journal: it has no tables")
        self._schema = schema

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def overview(self) -> Overview:
        """Return a summary of the journal. Raises JournalError."""
        try:
            query = "SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM events"
            first, last = self._db.execute(query).fetchone()
            row = self._db.execute("SELECT event_id FROM checkpoint").fetchone()
        except sqlite3.Error as error:
            raise JournalError(f"journal {self._path}: {error}") from error
        checkpoint = row[0] if row else 0
        return Overview(
            schema=self._schema, first=first, last=max(last, checkpoint), checkpoint=checkpoint
        )

    def rows(
        self, first: int = 0, kind: str = "", *, aside_only: bool = False, newest: int = 0
    ) -> Iterator[StoredEvent]:
        """Yield the events from number ``first`` on, at most the ``newest`` that match.

        Raises JournalError.
        """
        where, values = ["id >= ?"], list[object]([first])
        if kind:
            where.append("kind = ?")
            values.append(kind)
        if aside_only:
            where.append("id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(self._aside)))
        matching = " AND ".join(where)
        query = f"SELECT id, time_ns, kind, body FROM events WHERE {matching}"  # noqa: S608 - constants
        if newest:
            query = f"SELECT * FROM ({query} ORDER BY id DESC LIMIT ?)"  # noqa: S608 - constants
            values.append(newest)
        try:
            for number, time_ns, name, body in self._db.execute(f"{query} ORDER BY id", values):
                yield StoredEvent(
                    number=number,
                    time_s=self._origin_s + time_ns / 1e9,
                    kind=name,
                    body=json.loads(body),
                    set_aside=self._aside.get(number, ""),
                )
        except (sqlite3.Error, ValueError) as error:
            raise JournalError(f"journal {self._path}: {error}") from error


def export(path: Path, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield objects for a report: a summary of the journal, then each event from ``first`` on.

    Events do not contain the environments of jobs. Raises JournalError.
    """
    with JournalReader(path) as reader:
        seen = reader.overview()
        yield {
            "schema": seen.schema,
            "first": seen.first,
            "last": seen.last,
            "checkpoint": seen.checkpoint,
        }
        for row in reader.rows(first):
            yield as_object(row)


def as_object(row: StoredEvent) -> dict[str, Any]:
    """Return a row for JSON, with the time in Unix seconds."""
    return {
        "number": row.number,
        "time_s": row.time_s,
        "kind": row.kind,
        "set_aside": row.set_aside,
        "event": row.body,
    }
