"""Record of the cores that jobs have held on nodes, for the timeline.

A segment is a time in which a job held the same cores of a node under the same cap. A resize or
another cap ends a segment and begins the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wattfold.coordinator.cli.shared.texts.formatting import ENDED_STATES
from wattfold.coordinator.cli.web.rows import Row, number, watts
from wattfold.v1 import coordinator_pb2 as pb

SEGMENTS_MAX = 20_000
"""Ended segments that are kept."""
KEPT_S = 6 * 3600.0
"""Time for which an ended segment is kept."""
COLUMNS = ("number", "job", "node", "cpus", "cap_w", "start_s", "end_s", "attempt", "resized")
END = COLUMNS.index("end_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Cores of a job on a node. ``end_s`` 0 = it still holds them."""

    number: int
    job: str
    node: str
    cpus: str
    cap_w: float
    start_s: float
    end_s: float = 0.0
    attempt: int = 1
    resized: bool = False
    """Whether it continues an earlier segment with other cores."""

    def row(self) -> Row:
        """Return the segment in the order of COLUMNS."""
        return (
            *(self.number, self.job, self.node, self.cpus, self.cap_w),
            *(number(self.start_s), number(self.end_s), self.attempt, self.resized),
        )


class Occupancy:
    """The segments that have not ended."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Segment] = {}
        self._next = 1

    def take(self, jobs: Iterable[pb.Job], time_s: float) -> list[Segment]:
        """Record a snapshot. Return the segments that began or ended with it."""
        held = {
            (job.job_id, share.node_id): (job, share.cpus)
            for job in jobs
            if job.state not in ENDED_STATES
            for share in job.shares
            if share.cpus and not share.resident
        }
        changed = []
        for key, (job, cpus) in held.items():
            before = self._open.get(key)
            now = cpus, watts(job.cap_uw), job.attempt
            if before is not None and (before.cpus, before.cap_w, before.attempt) == now:
                continue
            if before is not None:
                changed.append(replace(before, end_s=time_s))
            same = before is not None and before.attempt == job.attempt
            # A job that ran before the first snapshot is assumed to have had these cores before.
            start_s = time_s if before is not None else job.started_at_s or time_s
            segment = Segment(
                number=self._next,
                job=job.job_id,
                node=key[1],
                cpus=cpus,
                cap_w=now[1],
                start_s=min(start_s, time_s),
                attempt=job.attempt,
                resized=same and before is not None and before.cpus != cpus,
            )
            self._next += 1
            self._open[key] = segment
            changed.append(segment)
        for key in [key for key in self._open if key not in held]:
            changed.append(replace(self._open.pop(key), end_s=time_s))
        return changed


class SegmentRows:
    """Rows of all segments that a page shows, each with the version of its last change."""

    def __init__(self, ended_max: int = SEGMENTS_MAX) -> None:
        self._ended_max = ended_max
        self._open: dict[int, tuple[int, Row]] = {}
        self._ended: dict[int, tuple[int, Row]] = {}

    def take(self, version: int, changed: Iterable[Row], time_s: float) -> None:
        """Take the segments that changed, and forget old segments."""
        for row in changed:
            self._open.pop(row[0], None)
            (self._ended if row[END] else self._open)[row[0]] = version, row
        while self._ended:
            oldest = next(iter(self._ended))
            recent = self._ended[oldest][1][END] >= time_s - KEPT_S
            if recent and len(self._ended) <= self._ended_max:
                return
            del self._ended[oldest]

    def changed(self, since: int) -> list[Row]:
        """Return the rows that changed after a version."""
        return [
            row
            for known in (self._ended, self._open)
            for version, row in known.values()
            if version > since
        ]
