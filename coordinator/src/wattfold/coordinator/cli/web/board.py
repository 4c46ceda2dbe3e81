"""The newest snapshot, and what changed in it since an earlier version.

Every snapshot is a version. A browser that is behind gets all changes since its version in one
message, so slow browsers skip snapshots and never queue them. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from wattfold.coordinator.cli.web import occupancy, power_ring, rows
from wattfold.coordinator.cli.web.occupancy import SegmentRows
from wattfold.coordinator.cli.web.power_ring import PowerRing, Sample
from wattfold.coordinator.cli.web.rows import Row
from wattfold.coordinator.cli.web.snapshots import ConvertedSnapshot

REMOVED_MAX = 50_000
"""Removed rows that are remembered. A browser that is further behind gets everything again."""


class VersionedRows:
    """Rows by key, each with the version of its last change."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, Row]] = {}
        self._removed: deque[tuple[int, str]] = deque(maxlen=REMOVED_MAX)

    def take(self, version: int, new: Mapping[str, Row]) -> None:
        """Replace all rows. An equal row keeps its version."""
        before, after = self._rows, {}
        for key, row in new.items():
            known = before.get(key)
            same = known is not None and (known[1] is row or known[1] == row)
            after[key] = known if known is not None and same else (version, row)
        self._removed.extend((version, key) for key in before if key not in new)
        self._rows = after

    def changed(self, since: int) -> list[Row]:
        """Return the rows that changed after a version; all rows after version 0."""
        return [row for version, row in self._rows.values() if version > since]

    def removed(self, since: int) -> list[str] | None:
        """Return the keys removed after a version; None if they are not known any more."""
        if len(self._removed) == REMOVED_MAX and self._removed[0][0] > since:
            return None
        return [key for version, key in self._removed if version > since and key not in self._rows]


class Board:
    """The state that browsers show, with the history that the process has seen."""

    def __init__(self) -> None:
        self._ring = PowerRing()
        self._sample: Sample = ()
        self._jobs, self._nodes = VersionedRows(), VersionedRows()
        self._segments = SegmentRows()
        self._newest: ConvertedSnapshot | None = None
        self._changed = asyncio.Condition()
        self._messages: dict[int, str] = {}
        self.version = 0
        self.lost = "no snapshot yet"
        """Why there are no snapshots at the moment; empty = they arrive."""

    async def take(self, snapshot: ConvertedSnapshot) -> None:
        """Take the newest snapshot."""
        async with self._changed:
            self.version += 1
            self._newest, self.lost = snapshot, ""
            self._jobs.take(self.version, snapshot.jobs)
            self._nodes.take(self.version, snapshot.nodes)
            self._segments.take(self.version, snapshot.segments, snapshot.time_s)
            power = snapshot.power
            self._sample = self._ring.add(
                snapshot.time_s, power["budget_w"], power["measured_w"], power["causes"]
            )
            self._messages.clear()
            self._changed.notify_all()

    async def lose(self, reason: str) -> None:
        """Take notice that no snapshots arrive."""
        async with self._changed:
            if self.lost != reason:
                self.version += 1
                self.lost = reason
                self._messages.clear()
                self._changed.notify_all()

    async def newer(self, since: int) -> int:
        """Wait for a version after this one and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > since)
            return self.version

    def columns(self) -> dict[str, Any]:
        """Return the names of all columns."""
        return {
            "jobs": rows.JOB_COLUMNS,
            "nodes": rows.NODE_COLUMNS,
            "power": power_ring.COLUMNS,
            "segments": occupancy.COLUMNS,
        }

    def history(self) -> bytes:
        """Return the power of the last 24 hours, see `PowerRing.packed`."""
        return self._ring.packed()

    def message(self, since: int) -> str:
        """Return the changes since a version as JSON. After version 0 it is the whole state."""
        known = self._messages.get(since)
        if known is None:
            known = self._messages[since] = self._message(since)
        return known

    def _message(self, since: int) -> str:
        newest = self._newest
        found: dict[str, Any] = {"type": "state", "version": self.version, "lost": self.lost}
        if newest is not None:
            gone = self._jobs.removed(since), self._nodes.removed(since)
            if None in gone:
                since, gone = 0, ([], [])
            whole = since == 0
            found |= {
                "whole": whole,
                "time_s": newest.time_s,
                "origin_s": self._ring.origin_s,
                "power": newest.power,
                "sample": self._sample,
                "round": newest.round,
                "alarms": newest.alarms,
                "jobs": self._jobs.changed(since),
                "nodes": self._nodes.changed(since),
                "gone_jobs": [] if whole else gone[0],
                "gone_nodes": [] if whole else gone[1],
                "segments": self._segments.changed(since),
            }
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
