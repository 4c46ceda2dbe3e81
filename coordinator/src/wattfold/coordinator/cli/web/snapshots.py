"""Snapshots of the coordinator as rows, made in a thread of their own.

One stream serves all browsers of the process. The thread converts a snapshot while the event loop
serves browsers, and passes the result to the loop.
"""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.texts.formatting import ENDED_STATES
from wattfold.coordinator.cli.site.watch_feed import Events, FeedEnded, Lost, ReceivedView, ViewFeed
from wattfold.coordinator.cli.web.alarms import alarms
from wattfold.coordinator.cli.web.causes import causes
from wattfold.coordinator.cli.web.occupancy import Occupancy
from wattfold.coordinator.cli.web.rows import Row, RowCache, power_values, shown_job, shown_node
from wattfold.v1 import coordinator_pb2 as pb

ENDED_KEPT = 200
"""Ended jobs that the page still shows."""
WAITING_MAX = 2
"""Snapshots that wait for the thread; the stream pauses meanwhile."""
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedSnapshot:
    """A converted snapshot. ``segments``: those of the timeline that changed."""

    time_s: float
    power: Mapping[str, Any]
    jobs: Mapping[str, Row]
    nodes: Mapping[str, Row]
    alarms: Sequence[Mapping[str, Any]]
    segments: Sequence[Row] = ()
    round: Mapping[str, Any] = field(default_factory=dict)


class Converter:
    """Makes snapshots from messages, in the order of time."""

    def __init__(self) -> None:
        self._occupancy = Occupancy()
        self._jobs = RowCache[pb.Job](shown_job)
        self._nodes = RowCache[pb.Node](shown_node)
        self._ended: OrderedDict[str, Row] = OrderedDict()

    def snapshot(self, view: pb.ClusterView) -> ConvertedSnapshot:
        """Convert a message of the coordinator."""
        jobs = self._jobs.rows(view.jobs)
        for job in view.jobs:
            self._ended.pop(job.job_id, None)
            if job.state in ENDED_STATES:
                self._ended[job.job_id] = jobs[job.job_id]
        while len(self._ended) > ENDED_KEPT:
            self._ended.popitem(last=False)
        last = view.last_round
        return ConvertedSnapshot(
            time_s=view.time_s,
            power=power_values(view.power) | {"causes": causes(view)},
            jobs={**self._ended, **jobs},
            nodes=self._nodes.rows(view.nodes),
            alarms=[asdict(alarm) for alarm in alarms(view)],
            segments=[s.row() for s in self._occupancy.take(view.jobs, view.time_s)],
            round={"rounds": last.rounds, "outcome": last.outcome, "solve_ms": last.solve_ns / 1e6},
        )


class SnapshotFeed:
    """Reads the stream. ``take`` and ``lose`` are called in the thread of the feed."""

    def __init__(
        self,
        client: CoordinatorClient,
        interval_ns: int,
        take: Callable[[pb.ClusterView], None],
        lose: Callable[[str], None],
    ) -> None:
        self._events: Events = queue.Queue(maxsize=WAITING_MAX)
        self._feed = ViewFeed(client, interval_ns, self._events)
        self._take, self._lose = take, lose
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._feed.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and close the client."""
        self._stop.set()
        self._feed.stop()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                event = self._events.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if isinstance(event, ReceivedView):
                self._take(event.view)
            elif isinstance(event, Lost):
                self._lose(event.reason)
            elif isinstance(event, FeedEnded):
                self._lose(str(event.error))
                return
