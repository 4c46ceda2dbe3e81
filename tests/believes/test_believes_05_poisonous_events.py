"""An event that cannot be handled is set aside: not a request, not a report, not a start ends all.

The defects are real: events that no correct part of the service makes, and that the core takes in
until its invariants are checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from unit.core.stage import (
    BASE_W,
    CHECKED,
    MAX_W,
    W,
    job_spec,
    node_spec,
    on,
    planning_round,
    reading,
)

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal import file as journal_file
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.journal.backup import verify
from wattfold.coordinator.adapters.journal.journal import Journal, JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData
from wattfold.coordinator.adapters.journal.replaying import before, replay
from wattfold.coordinator.adapters.service import Service, WithdrawnError
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState

N0, N1 = NodeId("n0"), NodeId("n1")
A, B = JobId("1"), JobId("2")
S = 1_000_000_000
CAP_W = 30
MOST_UW = (BASE_W + MAX_W) * W
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
    def perform(self, action: act.Action) -> None:
        pass


class Bench:
    """A running service with two nodes, one of which runs job 1."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.sqlite"
        self.journal = Journal(self.path)
        self.service = Service(CoordinatorCore(0, CHECKED), self.journal, Clock())
        self.service.start_epoch(9 * S, 2 * S)
        self.service.performers = dict.fromkeys(COMMANDS, Hands())
        self.apart: list[NodeId] = []
        self.service.contact_anew = self.apart.append

    @property
    def state(self) -> Any:
        return self.service.core.state

    async def begin(self) -> None:
        self.service.post(ev.BudgetChanged(budget_uw=500 * W))
        for name in (N0, N1):
            self.service.post(ev.NodeRegistered(node_id=name, address="test"))
            self.service.post(connected(name))
        await self.settled()
        for name in (N0, N1):
            request = self.state.nodes[name].lease_request
            renewed = reports.LeaseRenewed(node_id=name, request_id=request, caps=(reading(10),))
            self.service.post(renewed)
        await self.service.request(submitted("1"))
        started = ev.PlanAccepted(
            round=planning_round(self.state.solving), starts=(on("1", "n0", cap_w=CAP_W),)
        )
        self.service.post(started)
        self.service.post(reports.JobLaunched(node_id=N0, job_id=A, pid=7, attempt=1))
        await self.settled()
        assert self.state.jobs[A].state is JobState.RUNNING

    async def settled(self) -> None:
        """Everything posted until now has been handled."""
        done = asyncio.Event()
        self.service.listeners.append(done.set)
        self.service.post(ev.TimePassed())
        await done.wait()
        self.service.listeners.remove(done.set)


def submitted(name: str) -> ev.JobSubmitted:
    return ev.JobSubmitted(job_id=JobId(name), spec=job_spec(4, 4))


def connected(name: NodeId, cap_w: float = 10) -> reports.NodeConnected:
    return reports.NodeConnected(spec=node_spec(name), caps=(reading(cap_w),), processes=())


def text(state: Any) -> str:
    return codec.dump_state(state)


def run(folder: Path, test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Bench:
    async def go() -> Bench:
        bench = Bench(folder)
        task = asyncio.create_task(bench.service.run())
        try:
            async with asyncio.timeout(240):
                await bench.begin()
                await test(bench)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        bench.journal.abandon()
        return bench

    return asyncio.run(go())


def aside(journal: Journal) -> dict[int, str]:
    """Why events were set aside, by number."""
    return journal_file.aside(journal._db)


def replayed(path: Path) -> tuple[CoordinatorCore, Journal]:
    journal = Journal(path)
    core = CoordinatorCore(0, CHECKED)
    replay(journal, core)
    return core, journal


async def started(service: Service) -> None:
    service.start_epoch(9 * S, 2 * S)


POISON = submitted("1")
"""A second submission of a running job: the index and the jobs disagree."""
WORSE = reports.MaskConfirmed(node_id=N0, job_id=A, cpus=CpuSet.parse("0-9"), confined=False)
"""A report of cores that the node does not have."""


def test_a_request_that_cannot_be_handled_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        state, was = bench.state, text(bench.state)
        number = bench.journal.last_number + 1
        with pytest.raises(WithdrawnError, match=f"event {number} .*journal show"):
            await bench.service.request(POISON, LaunchData(env=(("SECRET", "x"),)))
        assert text(bench.state) == was
        assert bench.state is state, "whoever has the state at hand sees the right one"
        # All goes on, with the next number of a job as well.
        await bench.service.request(submitted("2"))
        assert bench.state.jobs[B].state is JobState.PENDING

    bench = run(tmp_path, test)
    core, journal = replayed(bench.path)
    assert list(core.state.jobs) == [A, B]
    assert journal.launch_data(A) is None
    assert len(aside(journal)) == 1
    journal.close()
    verify(bench.path)


def test_the_others_of_its_batch_count(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        requests = [bench.service.request(event) for event in (submitted("2"), POISON)]
        more = bench.service.request(submitted("3"))
        answers = await asyncio.gather(*requests, more, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), WithdrawnError, type(None)]
        assert set(bench.state.jobs) == {"1", "2", "3"}

    assert set(replayed(run(tmp_path, test).path)[0].state.jobs) == {"1", "2", "3"}


def test_the_ledger_is_that_without_the_event_after_what_follows(tmp_path: Path) -> None:
    """The same events with and without a withdrawn one in between give the same state."""

    async def follow(bench: Bench) -> None:
        request = bench.state.nodes[N0].caps_request
        bench.service.post(
            reports.CapsAnswered(node_id=N0, request_id=request, caps=(reading(CAP_W),))
        )
        await bench.service.request(submitted("2"))
        await bench.settled()

    async def poisoned(bench: Bench) -> None:
        with pytest.raises(WithdrawnError):
            await bench.service.request(POISON)
        await follow(bench)
        charged = bench.state.ledger.accounts[N0].charge_uw
        assert charged == (BASE_W + CAP_W) * W

    bench = run(tmp_path, poisoned)
    journal = Journal(bench.path)
    assert len(aside(journal)) == 1
    events = [entry for entry in journal.events(0) if entry.number not in aside(journal)]
    core = CoordinatorCore(0, CHECKED)
    for entry in events:
        core.handle(entry.event, entry.time_ns, f"e{entry.number}")
    assert text(core.state) == text(bench.state)
    assert core.state.ledger == bench.state.ledger
    journal.close()


def test_the_audit_trail_does_not_say_that_it_was_done(tmp_path: Path) -> None:
    entry = AuditEntry(time_s=1.0, account="u", uid=7, peer="p", action="Submit")
    journal = Journal(tmp_path / "journal.sqlite")
    for asked in (entry, None):
        number = journal.append(submitted("1"), 1, asked=asked)
    journal.set_aside(number, "why", entry)
    assert journal.audit(AuditFilter()) == []
    journal.close()


def test_a_report_that_cannot_be_handled_leaves_its_node_charged_with_its_most(
    tmp_path: Path,
) -> None:
    async def test(bench: Bench) -> None:
        bench.service.post(WORSE)
        await bench.settled()
        node = bench.state.nodes[N0]
        assert bench.apart == [N0]
        assert not node.reachable
        assert "could not be handled" in node.message
        assert bench.state.ledger.accounts[N0].charge_uw == MOST_UW
        assert bench.state.jobs[A].state is JobState.RUNNING
        assert str(bench.state.jobs[A].ranks[N0].held) == "0-3"
        assert bench.state.nodes[N1].reachable
        # Contact that begins anew tells what is true.
        process = reports.ProcessReading(
            job_id=A, running=True, pid=7, cpus=CpuSet.parse("0-3"), attempt=1
        )
        told = reports.NodeConnected(spec=node_spec(), caps=(reading(20),), processes=(process,))
        bench.service.post(told)
        await bench.settled()
        assert bench.state.nodes[N0].reachable
        assert bench.state.ledger.accounts[N0].zones["package-0"].confirmed_uw == 20 * W

    run(tmp_path, test)


def test_a_plan_that_cannot_be_handled_has_failed(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.service.request(submitted("2"))
        round_ = planning_round(bench.state.solving)
        two_nodes = on("2", "n0:0-1", "n1:0-1")
        bench.service.post(ev.PlanAccepted(round=round_, starts=(two_nodes,)))
        await bench.settled()
        await bench.settled()
        assert bench.state.jobs[B].state is JobState.PENDING
        assert "no plan" in bench.state.jobs[B].reason
        assert not bench.state.solving
        assert bench.state.revisit_ns

    run(tmp_path, test)


@pytest.mark.parametrize("poison", [POISON, WORSE])
def test_a_replay_sets_it_aside_and_goes_on(
    tmp_path: Path, poison: ev.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """As a version leaves it that stored the event and died of it, or a crash in between."""

    async def nothing(bench: Bench) -> None:
        bench.journal.append(poison, bench.service.clock.now_ns())
        bench.journal.append(submitted("2"), bench.service.clock.now_ns())
        bench.journal.commit()

    bench = run(tmp_path, nothing)
    core, journal = replayed(bench.path)
    assert list(core.state.jobs) == [A, B]
    assert core.state.jobs[A].state is JobState.RUNNING
    assert "event_set_aside" in caplog.text
    # The start that follows charges what a report may have told.
    asyncio.run(started(Service(core, journal, Clock())))
    charged = core.state.ledger.accounts[N0].charge_uw
    assert charged == (MOST_UW if poison is WORSE else (BASE_W + CAP_W) * W)
    journal.close()
    # The next one has nothing more to say.
    caplog.clear()
    replayed(bench.path)[1].close()
    assert "event_set_aside" not in caplog.text


def test_what_nothing_can_stand_in_for_ends_the_start(tmp_path: Path) -> None:
    """The state is broken before the event at which that is noticed: the event is not at fault."""
    journal = Journal(tmp_path / "journal.sqlite")
    core = CoordinatorCore(0, CHECKED)
    started = ev.CoordinatorStarted(epoch=Epoch(1), lease_ns=9 * S, command_timeout_ns=2 * S)
    journal.append(started, 1)
    journal.append(submitted("1"), 2)
    journal.commit()
    replay(journal, core)
    broken = core.state
    broken.submissions, broken.jobs[A].target = 1, on("1", "n0:0-1", "n1:0-1")
    journal.checkpoint(broken, 3)
    journal.append(ev.TimePassed(), 4)
    journal.commit()
    with pytest.raises(JournalError, match="not of this event alone"):
        replay(journal, CoordinatorCore(0, CHECKED))
    assert journal.aside() == []
    journal.close()


def test_the_event_that_broke_the_state_is_set_aside_not_the_one_that_shows_it(
    tmp_path: Path,
) -> None:
    """With the checks in turn of a large state, another event is handled when it is noticed."""

    async def late(bench: Bench) -> None:
        for event in (submitted("2"), ev.JobCancelRequested(job_id=B), again):
            bench.journal.append(event, bench.service.clock.now_ns())
        for name in ("3", "4", "5", "6"):
            bench.journal.append(submitted(name), bench.service.clock.now_ns())
        bench.journal.commit()

    # Of a job that has ended.
    again = submitted("2")
    path = run(tmp_path, late).path
    journal = Journal(path)
    core = CoordinatorCore(0)
    replay(journal, core)
    assert [entry.event for entry in journal.aside()] == [again]
    assert set(core.state.jobs) == {"1", "2", "3", "4", "5", "6"}
    number = journal.aside()[0].number
    assert text(before(journal, core.state.settings, number).state)
    journal.close()
