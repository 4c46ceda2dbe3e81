"""The service writes events to disk, then handles them, then acts. Also tests a full disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from unit.core.decided_stage import Decided
from unit.core.stage import job_spec, node_spec, on, planning_round, reading

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.adapters.service import CHECKPOINT_EVERY, Service
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.model.plan import Plan

BUDGET_UW = 1_000_000_000
N0 = NodeId("n0")
COMMANDS = (
    act.SetCaps,
    act.SetMask,
    act.Launch,
    act.Terminate,
    act.ForgetProcess,
    act.RenewLease,
    act.Solve,
)


class Hands:
    """Executor that records each action and the number of events on disk at that time."""

    def __init__(self, journal: Journal) -> None:
        self.done: list[tuple[act.Action, int]] = []
        self.happened = asyncio.Event()
        self.journal = journal

    def perform(self, action: act.Action) -> None:
        self.done.append((action, self.journal.pending))
        self.happened.set()

    def kinds(self) -> list[str]:
        return [type(action).__name__ for action, _ in self.done]


class Bench:
    """A running service on a journal whose disk can be made full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path)
        self.service = Service(CoordinatorCore(BUDGET_UW), self.journal, Clock())
        self.hands = Hands(self.journal)
        self.service.start_epoch(9_000_000_000, 2_000_000_000)
        self.service.performers = dict.fromkeys(COMMANDS, self.hands)

    def disk_is_full(self, full: bool) -> None:
        """Limit the database to its current size, as a full disk does, or lift this limit."""
        (used,) = self.journal._db.execute("PRAGMA page_count").fetchone()
        self.journal._db.execute(f"PRAGMA max_page_count = {used if full else 1 << 30}")

    async def settled(self) -> None:
        """Wait until everything posted so far has been handled."""
        done = asyncio.Event()
        self.service.listeners.append(done.set)
        self.service.post(ev.TimePassed())
        await done.wait()
        self.service.listeners.remove(done.set)

    def on_disk(self) -> list[str]:
        self.journal.abandon()
        with_events = Journal(self.path)
        names = [type(entry.event).__name__ for entry in with_events.events(0)]
        with_events.close()
        return names


def run(path: Path, test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Bench:
    async def go() -> Bench:
        bench = Bench(path / "journal.sqlite")
        task = asyncio.create_task(bench.service.run())
        try:
            async with asyncio.timeout(240):
                await test(bench)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return bench

    return asyncio.run(go())


def submitted(name: str, **fields: Any) -> ev.JobSubmitted:
    return ev.JobSubmitted(job_id=JobId(name), spec=job_spec(), **fields)


def big(name: str) -> ev.JobSubmitted:
    """A submission that needs new pages of the database."""
    spec = job_spec(argv=("x", "y" * 100_000))
    return ev.JobSubmitted(job_id=JobId(name), spec=spec)


def connected() -> reports.NodeConnected:
    return reports.NodeConnected(spec=node_spec(), caps=(reading(10),), processes=())


def test_a_request_is_on_disk_and_handled_when_it_is_acknowledged(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.service.request(submitted("a"))
        assert bench.journal.pending == 0
        assert JobId("a") in bench.service.core.state.jobs

    assert run(tmp_path, test).on_disk() == ["CoordinatorStarted", "JobSubmitted"]


def test_events_nobody_waits_for_may_wait_for_the_disk(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.settled()
        assert bench.journal.pending == 1

    assert run(tmp_path, test).on_disk() == ["CoordinatorStarted"]


def test_what_is_done_is_on_disk_first(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        service = bench.service
        service.post(ev.NodeRegistered(node_id=N0, address="x"))
        service.post(connected())
        await service.request(submitted("a"))
        solving = service.core.state.solving
        proposed = ev.PlanProposed(
            plan=Plan(assignments=(on("a", "n0:0-3"),)), round=planning_round(solving)
        )
        service.post(proposed)
        service.post(reports.JobLaunched(node_id=N0, job_id=JobId("a"), pid=7))
        await bench.settled()
        lease = service.core.state.nodes[N0].lease_request
        bench.hands.done.clear()
        # No request waits for a renewal, but the raise that follows must be on disk first.
        service.post(reports.LeaseRenewed(node_id=N0, request_id=lease, caps=(reading(10),)))
        await bench.settled()
        assert bench.hands.kinds() == ["SetCaps"]
        assert bench.hands.done[0][1] == 0, "the event was not on disk"

    assert "LeaseRenewed" in run(tmp_path, test).on_disk()


def test_a_request_is_refused_when_the_disk_is_full_and_facts_are_kept(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        service = bench.service
        bench.disk_is_full(True)
        fact = ev.NodeRegistered(node_id=N0, address="y" * 100_000)
        service.post(ev.TimePassed())
        first = asyncio.create_task(service.request(big("a")))
        service.post(fact)
        second = asyncio.create_task(service.request(big("b")))
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(r) for r in results] == [JournalError, JournalError]
        assert not service.core.state.jobs
        await bench.settled()
        assert N0 in service.core.state.nodes, "what happened has happened"
        bench.disk_is_full(False)
        await service.request(submitted("c"))
        assert bench.journal.pending == 0

    bench = run(tmp_path, test)
    assert bench.on_disk().count("JobSubmitted") == 1
    names = Journal(bench.path)
    core = CoordinatorCore(BUDGET_UW)
    assert replay(names, core) > 0
    assert core.state.jobs.keys() == bench.service.core.state.jobs.keys() == {"c"}
    assert core.state.nodes.keys() == {"n0"}
    names.close()


def test_processes_are_not_forgotten_before_their_end_is_on_disk(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        service = bench.service
        service.post(ev.NodeRegistered(node_id=N0, address="x"))
        await service.request(submitted("a", held=True))
        bench.disk_is_full(True)
        service.post(ev.NodeRegistered(node_id=NodeId("n1"), address="y" * 100_000))
        ended = reports.ProcessReading(
            job_id=JobId("a"), running=False, pid=1, cpus=node_spec().cpus, message="z" * 100_000
        )
        service.post(reports.ProcessEnded(node_id=N0, process=ended))
        await bench.settled()
        assert "ForgetProcess" not in bench.hands.kinds()
        bench.disk_is_full(False)
        service.post(reports.ProcessEnded(node_id=N0, process=ended))
        await bench.settled()
        assert bench.hands.kinds().count("ForgetProcess") == 1

    run(tmp_path, test)


def test_a_checkpoint_that_does_not_fit_stops_nothing(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.service.request(big("a"))
        bench.disk_is_full(True)
        for _ in range(CHECKPOINT_EVERY + 1000):
            bench.service.post(ev.TimePassed())
        await bench.settled()
        bench.disk_is_full(False)
        await bench.service.request(submitted("b"))
        bench.service.checkpoint()

    bench = run(tmp_path, test)
    core = CoordinatorCore(BUDGET_UW)
    bench.journal.abandon()
    journal = Journal(bench.path)
    assert replay(journal, core) == 0
    assert core.state.jobs.keys() == {"a", "b"}
    journal.close()


def test_a_new_epoch_follows_the_last_one(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert bench.service.core.state.epoch == 1
        bench.service.start_epoch(1, 1, [ev.BudgetChanged(budget_uw=7)])
        assert bench.service.core.state.epoch == 2
        assert bench.service.core.state.ledger.budget_uw == 7
        assert "epoch=2" in bench.service.recorded()

    assert run(tmp_path, test).on_disk()[-1] == "BudgetChanged"


def test_actions_of_the_start_are_performed_once_there_is_somebody(tmp_path: Path) -> None:
    """A coordinator restarts while a node boots: the order is repeated, and a plan is due."""

    async def test(bench: Bench) -> None:
        service, stage = bench.service, Decided(400, 2)
        stage.decide()
        stage.whole("a")
        stage.decide()
        assert PowerState.BOOTING in stage.powers
        service.core, service.performers = stage.core, {}
        service.start_epoch(9_000_000_000, 2_000_000_000)
        service.performers = dict.fromkeys((*COMMANDS, act.SwitchPower), bench.hands)
        again = asyncio.create_task(service.run())
        await bench.hands.happened.wait()
        again.cancel()
        assert "SwitchPower" in bench.hands.kinds()
        assert "Solve" in bench.hands.kinds()

    run(tmp_path, test)


def test_the_core_is_woken_when_it_asked_to_be(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        service = bench.service
        service.post(ev.NodeRegistered(node_id=N0, address="x"))
        await service.request(submitted("a"))
        service.post(connected())
        await bench.settled()
        failed = ev.PlanFailed(round=planning_round(service.core.state.solving), reason="x")
        bench.hands.done.clear()
        bench.hands.happened.clear()
        service.post(failed)
        await bench.hands.happened.wait()
        assert bench.hands.kinds() == ["Solve"]

    run(tmp_path, test)


def test_a_journal_that_is_gone_does_not_look_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal._db.execute("DROP TABLE events")
    journal.append(ev.TimePassed(), 1)
    with pytest.raises(JournalError, match="no such table"):
        journal.commit()
    assert journal.pending == 1
