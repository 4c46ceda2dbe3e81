"""Coordinator time continues after restarts and never decreases."""

from __future__ import annotations

from believes.clocks import Machine, S

from wattfold.coordinator.adapters.clock import FIRST_NS, Clock, this_boot


def test_a_new_clock_starts_at_its_first_time_and_grows() -> None:
    clock = Clock()
    first, second = clock.now_ns(), clock.now_ns()
    assert FIRST_NS <= first <= second < FIRST_NS + 3600 * S


def test_this_machine_names_its_boot() -> None:
    assert len(this_boot().boot_id) == 36


def test_the_time_away_is_counted_by_the_monotonic_clock_of_the_same_boot() -> None:
    machine = Machine()
    before = Clock(sources=machine.sources)
    machine.passes(1000)
    machine.set_calendar(-5000)
    clock = Clock(before.origin_s, FIRST_NS + 400 * S, before.anchor, machine.sources)
    assert clock.now_ns() == FIRST_NS + 1000 * S
    assert clock.gap_ns == -1


def test_after_a_reboot_the_calendar_counts_it_and_the_clock_says_so() -> None:
    machine = Machine()
    before = Clock(sources=machine.sources)
    machine.reboot(1000)
    clock = Clock(before.origin_s, FIRST_NS + 400 * S, before.anchor, machine.sources)
    assert clock.now_ns() == FIRST_NS + 1000 * S
    assert clock.gap_ns == 600 * S


def test_a_calendar_set_back_does_not_take_time_back() -> None:
    machine = Machine()
    before = Clock(sources=machine.sources)
    machine.reboot(1000)
    machine.set_calendar(-5000)
    clock = Clock(before.origin_s, FIRST_NS + 400 * S, before.anchor, machine.sources)
    assert clock.now_ns() == FIRST_NS + 400 * S
    assert clock.take_step_ns() == -4400 * S
    assert clock.wall_s(clock.now_ns()) == machine.calendar_s


def test_calendar_time_of_an_event() -> None:
    clock = Clock(origin_s=1000.0, last_ns=0)
    assert clock.wall_s(5 * S) == 1005.0
    assert clock.wall_s(-1) == 0.0
