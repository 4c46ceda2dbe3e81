"""Checkpoints written in a background thread: a start from a checkpoint restores the state."""

from __future__ import annotations

import asyncio
from pathlib import Path

from unit.adapters.api_site import BUDGET_UW, ApiSite
from unit.core.stage import job_spec, node_spec, reading

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.copies.checkpoints import BesideTheLoop
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, whole
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.adapters.service import CHECKPOINT_EVERY
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.forecast import Asked

N0 = NodeId("n0")


def submitted(name: str) -> ev.JobSubmitted:
    spec = job_spec(cwd="/folder")
    return ev.JobSubmitted(job_id=JobId(name), spec=spec, key=f"key-{name}", fingerprint="f")


def started_from(path: Path) -> tuple[State, int]:
    journal, core = Journal(path), CoordinatorCore(BUDGET_UW)
    count = replay(journal, core)
    journal.close()
    return core.state, count


def test_a_checkpoint_beside_the_loop_is_the_state_with_all_that_travels(tmp_path: Path) -> None:
    async def go() -> State:
        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            feed = ReplicaFeed(site.worker, lambda: site.core.state, whole)
            site.service.followers.append(feed.note)
            state = site.core.state
            made = BesideTheLoop(feed, site.journal, site.service.clock, state)
            site.service.post(ev.NodeRegistered(node_id=N0, address="x"))
            connected = reports.NodeConnected(spec=node_spec(), caps=(reading(10),), processes=())
            site.service.post(connected)
            for name in "abc":
                await site.service.request(submitted(name))
            await site.service.request(ev.JobCancelRequested(job_id=JobId("b")))
            ran = Asked(user="ann", app="a", size=1, time_ns=0)
            state.history.learn(ran, state.history.known(ran), 7_000_000_000)
            made.begin()
            made.begin()
            await made.done()
            await site.service.request(submitted("after"))
        return state

    state = asyncio.run(go())
    found, replayed = started_from(tmp_path / "j")
    assert found == state
    assert replayed == 1, "only what came after it"


def test_every_so_many_events_one_is_asked_for(tmp_path: Path) -> None:
    async def go() -> int:
        asked = 0

        def begin() -> None:
            nonlocal asked
            asked += 1

        async with ApiSite(tmp_path) as site, asyncio.timeout(240):
            site.service.begin_checkpoint = begin
            for _ in range(2 * CHECKPOINT_EVERY):
                site.service.post(ev.TimePassed())
            await site.service.request(ev.TimePassed())
        return asked

    assert asyncio.run(go()) == 2
