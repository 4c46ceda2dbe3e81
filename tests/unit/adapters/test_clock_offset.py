"""Conversion of agent times to coordinator time: delayed messages keep their measurement times."""

from __future__ import annotations

from wattfold.coordinator.adapters.agents.messages import OFFSET_WINDOW_NS, ClockOffset

MS = 1_000_000


def test_a_late_message_keeps_its_time() -> None:
    offset = ClockOffset()
    assert offset.ours(1000 * MS, 5000 * MS) == 5000 * MS
    assert offset.ours(1250 * MS, 5950 * MS) == 5250 * MS
    assert offset.ours(1500 * MS, 5951 * MS) == 5500 * MS


def test_a_quicker_message_corrects_the_relation() -> None:
    offset = ClockOffset()
    offset.ours(1000 * MS, 5100 * MS)
    assert offset.ours(2000 * MS, 6000 * MS) == 6000 * MS
    assert offset.ours(3000 * MS, 7100 * MS) == 7000 * MS


def test_clocks_that_drift_apart_are_followed() -> None:
    offset = ClockOffset()
    offset.ours(0, 0)
    later_ns = 3 * OFFSET_WINDOW_NS
    for step in range(1, 4):
        # The agent's clock is one percent slow: the initial offset would be wrong by minutes.
        ours_ns = step * later_ns
        told_ns = offset.ours(round(ours_ns * 0.99), ours_ns)
    assert told_ns >= ours_ns - 0.02 * 2 * later_ns
