"""Announced budgets, reservations and due dates keep their times of the calendar over its steps."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator

import pytest
from believes.clocks import STEPS_S, Machine, S
from believes.head import Head
from unit.core.stage import Stage, W, job_spec

from wattfold.contract.ids import NodeId
from wattfold.contract.local_time import LocalTimeError, moment, parse_local_s
from wattfold.coordinator.adapters import event_log
from wattfold.coordinator.adapters.clock import FIRST_NS, STEP_NS, CalendarWatch, Clock
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.cli.shared.parsing import parse_time_s
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.reservation import Reservation

BUDGET_W = 500
IN_S = 7200.0
MODES = ("running", "restarted", "rebooted")


def at(head: Head, in_s: float) -> int:
    """Coordinator time of a time of the calendar, as a call makes it."""
    return head.clock.time_ns(head.machine.calendar_s + in_s)


def announce(head: Head, in_s: float = IN_S) -> float:
    at_s = head.machine.calendar_s + in_s
    head.send(ev.BudgetAnnounced(at_ns=head.clock.time_ns(at_s), budget_uw=BUDGET_W * W))
    return at_s


def step(head: Head, by_s: float, mode: str) -> None:
    if mode == "running":
        head.sets_calendar(by_s)
        return
    head.machine.set_calendar(by_s)
    if mode == "restarted":
        head.machine.passes(10)
    else:
        head.machine.reboot(off_s=10)
    head.restart()
    head.passes(1)


def in_force(head: Head) -> bool:
    return head.core.state.ledger.budget_uw == BUDGET_W * W


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_s", STEPS_S)
def test_an_announced_budget_comes_at_its_time_of_the_calendar(by_s: float, mode: str) -> None:
    head = Head(Machine())
    at_s = announce(head)
    head.passes(100)
    step(head, by_s, mode)
    left_s = at_s - head.machine.calendar_s
    if left_s > 0:
        assert not in_force(head)
        head.passes(left_s - 2)
        assert not in_force(head), "not early"
        head.passes(4)
    assert in_force(head)


def test_a_correction_of_a_calendar_that_was_behind() -> None:
    """Started an hour behind and corrected: the budget must not come an hour late."""
    machine = Machine()
    true_s = machine.calendar_s
    machine.set_calendar(-3600)
    head = Head(machine)
    head.passes(10)
    head.sets_calendar(3600)
    at_s = announce(head, 600)
    assert at_s == pytest.approx(true_s + 611)
    head.passes(598)
    assert not in_force(head)
    head.passes(4)
    assert in_force(head)


def test_a_journal_that_began_ahead_is_right_after_a_restart() -> None:
    machine = Machine()
    machine.set_calendar(36_000)
    head = Head(machine)
    head.passes(10)
    machine.set_calendar(-36_000)
    head.restart()
    assert head.clock.wall_s(head.clock.now_ns()) == pytest.approx(machine.calendar_s)
    assert head.core.state.origin_s == pytest.approx(head.clock.origin_s)
    announce(head, 100)
    head.passes(98)
    assert not in_force(head)
    head.passes(4)
    assert in_force(head)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_s", STEPS_S)
def test_due_dates_and_reservations_keep_their_times(by_s: float, mode: str) -> None:
    head = Head(Machine())
    due_s, starts_s, ends_s = (head.machine.calendar_s + s for s in (IN_S, 40_000, 50_000))
    head.submit("a", job_spec(due_ns=head.clock.time_ns(due_s)))
    head.send(
        ev.ReservationMade(
            reservation=Reservation(
                name="r",
                nodes=(NodeId("n0"),),
                start_ns=head.clock.time_ns(starts_s),
                end_ns=head.clock.time_ns(ends_s),
                maintenance=True,
            )
        )
    )
    step(head, by_s, mode)
    kept = head.core.state.reservations["r"]
    assert head.clock.wall_s(head.job("a").spec.due_ns) == pytest.approx(due_s, abs=0.01)
    assert head.clock.wall_s(kept.start_ns) == pytest.approx(starts_s, abs=0.01)
    assert head.clock.wall_s(kept.end_ns) == pytest.approx(ends_s, abs=0.01)
    head.passes(starts_s - head.machine.calendar_s - 2)
    assert head.core.state.begun == []
    head.passes(4)
    assert head.core.state.begun == ["r"]


def test_a_reservation_that_a_step_moves_into_the_future_begins_again() -> None:
    head = Head(Machine())
    one = Reservation(
        name="r",
        nodes=(NodeId("n0"),),
        start_ns=at(head, 10),
        end_ns=at(head, 90),
        maintenance=True,
    )
    head.send(ev.ReservationMade(reservation=one))
    head.passes(12)
    assert head.core.state.begun == ["r"]
    head.sets_calendar(-3600)
    assert head.core.state.begun == []
    head.passes(3600)
    assert head.core.state.begun == ["r"]


def test_a_step_there_and_back_changes_nothing() -> None:
    """Also where a due date lies before the journal for a while."""
    head = Head(Machine())
    due_s = head.machine.calendar_s + 100
    head.submit("a", job_spec(due_ns=head.clock.time_ns(due_s)))
    for by_s in (36_000, -36_000, 86_400 * 365, -86_400 * 365):
        head.sets_calendar(by_s)
    assert head.clock.wall_s(head.job("a").spec.due_ns) == pytest.approx(due_s, abs=0.01)


def test_every_step_is_posted_once_and_drift_is_not() -> None:
    machine, posted = Machine(), list[ev.Event]()
    clock = Clock(sources=machine.sources)
    watch = CalendarWatch(clock, posted.append)
    assert clock.now_ns() == FIRST_NS
    machine.passes(3600)
    watch.look()
    machine.calendar_ns += STEP_NS - 1
    watch.look()
    assert posted == []
    machine.calendar_ns += 1
    watch.look()
    watch.look()
    assert posted == [ev.CalendarStepped(by_ns=STEP_NS)]


def test_one_log_line_tells_of_a_step(caplog: pytest.LogCaptureFixture) -> None:
    head = Head(Machine())
    with caplog.at_level(logging.INFO, "wattfold.coordinator"):
        event_log.tell(ev.CalendarStepped(by_ns=3600 * S), head.core.state, 0, "e1", 0)
    lines = [record.message for record in caplog.records if "calendar_stepped" in record.message]
    assert len(lines) == 1
    assert "by_s=+3600.000" in lines[0]


def test_events_and_states_of_before_can_be_read() -> None:
    old = {"epoch": 3, "lease_ns": 9, "command_timeout_ns": 2}
    started = codec.load_event("CoordinatorStarted", json.dumps(old))
    assert started == ev.CoordinatorStarted(epoch=3, lease_ns=9, command_timeout_ns=2)  # type: ignore[arg-type]
    head = Head(Machine())
    state = json.loads(codec.dump_state(head.core.state))
    del state["calendar_ns"], state["gap"]
    assert codec.load_state(json.dumps(state)).calendar_ns == 0
    step_event = ev.CalendarStepped(by_ns=-5)
    assert codec.load_event(*codec.dump_event(step_event)) == step_event


def test_a_replay_gives_the_same_state() -> None:
    head = Head(Machine())
    announce(head)
    head.sets_calendar(3600)
    other = Stage(start=False)
    other.core.state.settings = head.core.state.settings
    other.core.state.ledger.budget_uw = 1000 * W
    for event, now_ns in head.history:
        other.core.handle(event, now_ns)
    assert other.core.state.announced == head.core.state.announced
    assert other.core.state.calendar_ns == head.core.state.calendar_ns == 3600 * S


# ---- local times ---------------------------------------------------------------------------------


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clocks go forward on 2027-03-28 at 2:00, and back on 2026-10-25 at 3:00."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_a_local_time_that_does_not_exist_is_refused(berlin: None) -> None:
    with pytest.raises(LocalTimeError, match=r"does not exist.*\+0100 and \+0200"):
        parse_time_s("2027-03-28T02:30", 0.0)
    assert parse_time_s("2027-03-28T03:00", 0.0) == parse_time_s("2027-03-28T01:59:59", 0.0) + 1


def test_a_local_time_that_exists_twice_is_refused(berlin: None) -> None:
    with pytest.raises(ValueError, match=r"exists twice.*02:30:00\+02:00.*02:30:00\+01:00"):
        parse_time_s("2026-10-25T02:30", 0.0)
    first, second = (parse_local_s(f"2026-10-25T02:30{offset}") for offset in ("+02:00", "+01:00"))
    assert second - first == 3600


def test_times_are_printed_with_their_offset(berlin: None) -> None:
    for text in (
        "2026-10-25 02:30:00+02:00",
        "2026-10-25 02:30:00+01:00",
        "2027-06-01 12:00:00+02:00",
    ):
        assert moment(parse_local_s(text)) == text


def test_a_step_over_a_daylight_saving_change_moves_nothing(berlin: None) -> None:
    """The offset changes, and with it no time of the calendar."""
    head = Head(Machine(parse_local_s("2026-10-25T01:30")))
    at_s = parse_local_s("2026-10-25T04:00")
    head.send(ev.BudgetAnnounced(at_ns=head.clock.time_ns(at_s), budget_uw=BUDGET_W * W))
    head.sets_calendar(parse_local_s("2026-10-25T03:30") - head.machine.calendar_s)
    assert moment(head.machine.calendar_s) == "2026-10-25 03:30:01+01:00"
    head.passes(1797)
    assert not in_force(head)
    head.passes(4)
    assert in_force(head)
