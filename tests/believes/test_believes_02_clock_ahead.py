"""A calendar that is wrong ends no job: run times come from monotonic clocks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from believes.clocks import STEPS_S, Machine, S
from believes.head import Head
from unit.core.stage import CHECKED, job_spec, on, running

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.agents.messages import process
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.v1 import node_agent_pb2 as agent_pb

LIMIT_S = 3600.0


@pytest.fixture
def head() -> Head:
    made = Head(Machine())
    made.run_job("a", LIMIT_S)
    made.passes(20)
    return made


def connects(head: Head, ran_s: float) -> float:
    """Returns how much of the gap the report refuted, s."""
    head.connect("n0", processes=(running("a", "0-3", attempt=1, ran_ns=round(ran_s * S)),))
    refuted_s = head.core.state.index.disbelieved_ns / S
    head.leased("n0")
    return refuted_s


def ends_after(head: Head, left_s: float) -> None:
    head.passes(left_s - 2)
    assert head.job("a").state is JobState.RUNNING, "nothing ends early"
    head.passes(4)
    assert head.job("a").state is JobState.ENDING
    assert "time limit" in head.job("a").reason


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_step_while_it_runs_changes_no_run_time(head: Head, step_s: float) -> None:
    head.sets_calendar(step_s)
    ends_after(head, LIMIT_S - 21)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_step_while_it_was_killed_changes_no_run_time(head: Head, step_s: float) -> None:
    """In the same boot the monotonic clock counts the time away, with or without contact."""
    head.machine.passes(10)
    head.machine.set_calendar(step_s)
    head.restart()
    assert head.clock.gap_ns == -1
    assert head.job("a").state is JobState.RUNNING
    connects(head, 30)
    ends_after(head, LIMIT_S - 30)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_a_wrong_calendar_after_a_reboot_is_not_believed(head: Head, step_s: float) -> None:
    """A head node with a flat clock battery: the node knows how long its process ran."""
    head.submit("waits", job_spec(4, 4))
    submitted_s = head.machine.calendar_s
    head.machine.reboot(off_s=300)
    head.machine.set_calendar(step_s)
    head.restart()
    head.passes(5)
    assert head.job("a").state is JobState.RUNNING, "its node has not answered"
    refuted_s = connects(head, 325)
    head.passes(1)
    assert head.job("a").state is JobState.RUNNING
    if step_s > 1:
        assert refuted_s == pytest.approx(step_s, abs=2), "one log line says so"
        submitted_s += step_s
        assert head.clock.wall_s(head.job("waits").submitted_ns) == pytest.approx(
            submitted_s, abs=2
        )
    ends_after(head, LIMIT_S - 326)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_an_older_copy_that_starts_with_a_wrong_calendar_ends_no_job(
    head: Head, step_s: float, tmp_path: Path
) -> None:
    """What such a start takes in first, that events are lacking, is of the time before the gap."""
    head.machine.reboot(off_s=300)
    head.machine.set_calendar(step_s)
    journal = Journal(tmp_path / "journal.sqlite")
    core = CoordinatorCore(0, CHECKED)
    core.begin_anew(codec.load_state(codec.dump_state(head.core.state)))
    core.state.settings = replace(CHECKED, origin_s=head.first_s)
    clock = Clock(core.state.origin_s, head.now_ns, head.anchor, head.machine.sources)
    lacks = ev.JournalRestored(epoch=core.state.epoch, submissions=1000, caps_unknown=True)

    async def started() -> None:
        Service(core, journal, clock).start_epoch(9 * S, 2 * S, before=[lacks])

    asyncio.run(started())
    assert core.state.jobs[JobId("a")].state is JobState.RUNNING
    assert core.state.jobs[JobId("a")].unconfirmed
    times_ns = [entry.time_ns for entry in journal.events()]
    assert times_ns == sorted(times_ns)
    journal.close()


def test_a_true_gap_after_a_reboot_counts(head: Head) -> None:
    head.machine.reboot(off_s=36_000)
    head.restart()
    assert head.clock.gap_ns == pytest.approx(36_000 * S)
    assert head.job("a").state is JobState.RUNNING
    connects(head, 36_020)
    head.passes(1)
    assert head.job("a").state is JobState.ENDING


def test_a_job_that_started_unnoticed_gets_no_more_than_its_limit() -> None:
    head = Head(Machine())
    head.submit("a", job_spec(limit_ns=round(LIMIT_S * S)))
    head.need_plan()
    head.plan(on("a", "n0:0-3"))
    head.passes(1)
    head.machine.passes(600)
    head.restart()
    connects(head, 600)
    ends_after(head, LIMIT_S - 600)


def test_the_time_in_which_the_head_node_was_suspended_counts(head: Head) -> None:
    """Its monotonic clock stood still, and the calendar jumps when it wakes up."""
    head.machine.set_calendar(600)
    head.passes(1)
    connects(head, 621)
    ends_after(head, LIMIT_S - 621)


def test_a_new_attempt_has_its_whole_limit() -> None:
    """Its node has forgotten the process, so nothing confirmed how long it ran."""
    head = Head(Machine())
    head.run_job("a", LIMIT_S, requeue_max=1)
    head.machine.reboot(off_s=30)
    head.restart()
    assert head.job("a").unconfirmed
    loaded = codec.load_state(codec.dump_state(head.core.state))
    assert loaded.jobs[JobId("a")].unconfirmed
    head.connect("n0")
    head.leased("n0")
    assert head.job("a").state is JobState.PENDING
    head.need_plan()
    head.plan(on("a", "n0:0-3"))
    head.launched("n0", "a")
    ends_after(head, LIMIT_S)


def test_an_agent_reports_the_time_since_the_launch() -> None:
    message = agent_pb.ProcessInfo(
        job_id="a", state=agent_pb.PROCESS_STATE_RUNNING, cpus="0", elapsed_ns=7 * S
    )
    assert process(message).ran_ns == 7 * S
