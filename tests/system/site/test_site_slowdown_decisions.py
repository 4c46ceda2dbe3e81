"""The real service shares whole nodes as a simulated pool does: the same starts and mates.

The script of `test_site_decisions`, whose jobs lend and borrow, runs on a real site. The journal's
events of each planning round are then passed to the queue that decides in simulations.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from system.site.live_site import CPUS, LiveSite
from system.site.test_site_decisions import NODES, Play

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.cli.site.maintenance import JOURNAL
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.policies.slowdown_driven.queue import SlowdownQueue
from wattfold.coordinator.policies.slowdown_driven.rules import NodeSharing, SharingSettings
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


class Began(NamedTuple):
    """A start, and the mates whose nodes it shares."""

    job_id: str
    mates: frozenset[str]


class Replay:
    """Passes the events of each round of a journal to a queue of a pool; records the starts of
    both.
    """

    def __init__(self) -> None:
        self.served: list[Began] = []
        self.pooled: list[Began] = []
        self._queue = SlowdownQueue(
            NODES,
            len(CPUS),
            lambda _: NodeSharing(True, True),
            SharingSettings(),
            kills_at_limit=False,
        )
        self._names: list[JobId] = []
        self._fresh: list[ev.JobSubmitted] = []
        self._over: list[JobId] = []
        self._begun: set[JobId] = set()

    def read(self, path: Path) -> None:
        journal, core = Journal(path), CoordinatorCore(budget_uw=0)
        try:
            for entry in journal.events(after=0):
                event = entry.event
                if isinstance(event, ev.PlanAccepted):
                    self._accepted(event)
                if isinstance(event, ev.JobSubmitted):
                    self._fresh.append(event)
                actions = core.handle(event, entry.time_ns)
                self._over += [j for j in core.state.index.news if core.state.jobs[j].final]
                if any(isinstance(action, act.Solve) for action in actions):
                    self._decide(entry.time_ns)
        finally:
            journal.close()

    def _accepted(self, event: ev.PlanAccepted) -> None:
        lent = {
            share.node_id: change.job_id
            for change in event.changes
            for share in change.shares
            if len(share.cpus) < len(CPUS)
        }
        for one in event.starts:
            # An accepted job without a process is in the next plan as well.
            if one.job_id not in self._begun:
                self._begun.add(one.job_id)
                parts = [share for share in one.shares if len(share.cpus) < len(CPUS)]
                mates = frozenset(lent[share.node_id] for share in parts)
                self.served.append(Began(one.job_id, mates))

    def _decide(self, now_ns: int) -> None:
        for job_id in self._over:
            self._queue.ended(self._names.index(job_id), now_ns)
        for event in self._fresh:
            spec = event.spec
            job = len(self._names)
            self._names.append(event.job_id)
            self._queue.enter(job, spec.size_max, spec.time_ns, spec.priority, now_ns)
        self._over.clear()
        self._fresh.clear()
        for job in self._queue.decide(now_ns):
            pick = self._queue.shared.get(job)
            mates = frozenset(self._names[mate] for mate in pick.mates) if pick else frozenset()
            self.pooled.append(Began(self._names[job], mates))


def test_the_same_jobs_start_beside_the_same_mates(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=NODES, policy="slowdown-driven", cpu_share=0.2)
    Play(
        site,
        kind=pb.JOB_KIND_MALLEABLE,
        mode=common_pb2.RESIZE_MODE_MASK,
        sharing=pb.CORE_SHARING_BOTH,
    ).run()
    site.coordinator.send_signal(signal.SIGTERM)
    assert site.coordinator.wait(240) == 0
    replay = Replay()
    replay.read(site.folder / "head" / JOURNAL)
    assert replay.pooled == replay.served
    assert len(replay.served) == len({began.job_id for began in replay.served}) > 12
    assert sum(bool(began.mates) for began in replay.served) >= 2, "some share"
