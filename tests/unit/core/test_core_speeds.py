"""Measured speeds of running jobs: stored values, derived losses, and the same state after a
replay.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.core.stage import Stage

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal.codec import (
    dump_event,
    dump_state,
    load_event,
    load_state,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.jobs.speeds import (
    KEPT_MAX,
    NOT_MEASURED,
    SeenSpeed,
    measured_serial_ppm,
    with_speed,
)
from wattfold.coordinator.core.rules.snapshot import serial_of, snapshot

S, W = 10**9, 10**6
A = JobId("a")


def seen(cores: int, rate: float, cap_w: int = 40, seen_s: float = 10, **more: object) -> SeenSpeed:
    return SeenSpeed(
        cores=cores,
        cap_uw=cap_w * W,
        rate=rate,
        seen_ns=round(seen_s * S),
        **more,  # type: ignore[arg-type]
    )


def test_two_sizes_under_one_cap_tell_what_is_lost() -> None:
    assert measured_serial_ppm([seen(8, 8.0), seen(4, 4.0)], 1, 8) == 0
    assert measured_serial_ppm([seen(8, 10.0), seen(4, 8.0)], 1, 8) == pytest.approx(750_000, abs=2)
    assert measured_serial_ppm([seen(8, 8.0)], 1, 8) == NOT_MEASURED
    assert measured_serial_ppm([seen(8, 8.0), seen(4, 7.0, cap_w=30)], 1, 8) == NOT_MEASURED
    assert measured_serial_ppm([], 1, 8) == NOT_MEASURED


def test_the_cap_of_which_most_was_seen_counts() -> None:
    short = [seen(8, 8.0, 30, 4), seen(4, 8.0, 30, 100)]
    long = [seen(8, 8.0, 40, 20), seen(4, 4.0, 40, 20)]
    assert measured_serial_ppm([*short, *long], 1, 8) == 0


def test_the_newest_of_a_size_and_cap_is_kept_and_no_more_than_so_many() -> None:
    speeds = with_speed(with_speed((), seen(8, 1.0)), seen(8, 2.0))
    assert [one.rate for one in speeds] == [2.0]
    for cores in range(1, 3 * KEPT_MAX):
        speeds = with_speed(speeds, seen(cores, 1.0))
    assert len(speeds) == KEPT_MAX
    assert speeds[-1].cores == 3 * KEPT_MAX - 1


@pytest.mark.parametrize("other", [{"counted": True}, {"attempt": 2}])
def test_another_measure_or_attempt_is_nothing_to_compare_with(other: dict[str, object]) -> None:
    speeds = with_speed((seen(8, 8.0),), seen(4, 4.0, **other))
    assert [one.cores for one in speeds] == [4]
    assert measured_serial_ppm((seen(8, 8.0), seen(4, 4.0)), 2, 8) == NOT_MEASURED


def running() -> Stage:
    stage = Stage()
    stage.up("n0")
    stage.run_job(A, "n0:0-3", kind=JobKind.MALLEABLE)
    return stage


@given(
    told=st.lists(
        st.builds(
            seen,
            cores=st.integers(1, 8),
            rate=st.floats(0.01, 100),
            cap_w=st.sampled_from([30, 40]),
            seen_s=st.floats(1, 100),
            counted=st.booleans(),
        ),
        max_size=12,
    )
)
def test_a_journal_and_a_checkpoint_leave_what_was_measured(told: list[SeenSpeed]) -> None:
    def after(events: list[ev.SpeedMeasured], stage: Stage) -> Stage:
        for event in events:
            stage.send(event)
        return stage

    events = [ev.SpeedMeasured(job_id=A, speed=one) for one in told]
    first, again = after(events, running()), running()
    after([load_event(*dump_event(event)) for event in events], again)  # type: ignore[misc]
    assert first.core.state.jobs[A].speeds == again.core.state.jobs[A].speeds
    assert (
        load_state(dump_state(first.core.state)).jobs[A].speeds == first.core.state.jobs[A].speeds
    )
    (view,) = snapshot(first.core.state, 100 * S).jobs
    assert view.serial_ppm == serial_of(first.core.state, first.core.state.jobs[A])
    assert -1 <= view.serial_ppm < 10**6
