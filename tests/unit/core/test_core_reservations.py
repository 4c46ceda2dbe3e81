"""Reservations in the core: creation, start, end, and the jobs started or ended on their nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.core.stage import LEASE_NS, S, Stage, job_spec, on, terminate

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.reservation import SLACK_NS, Reservation, Windows
from wattfold.coordinator.core.rules.snapshot import snapshot

LEASE_S = LEASE_NS // S


def window(start_s: float, end_s: float, **fields: Any) -> Reservation:
    given = {"name": "k", "nodes": (NodeId("n0"),), "maintenance": True, **fields}
    return Reservation(start_ns=round(start_s * S), end_ns=round(end_s * S), **given)


def site(one: Reservation, *specs: JobSpec) -> Stage:
    """Nodes n0 and n1, a reservation, and waiting jobs a, b, ..."""
    stage = Stage()
    stage.up("n0", "n1")
    stage.send(ev.ReservationMade(reservation=one))
    for name, spec in zip("abcdef", specs, strict=False):
        stage.submit(name, spec)
    stage.need_plan()
    return stage


def started(stage: Stage, job: str = "a", node: str = "n0", total_s: float = 0.0) -> bool:
    stage.need_plan()
    stage.plan(on(job, f"{node}:0-1", total_s=total_s))
    return bool(stage.job(job).ranks)


# ---- access rules -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "spec", "admitted"),
    [
        ({}, {}, False),
        ({}, {"reservation": "k"}, False),
        ({"maintenance": False, "users": ("ann",)}, {"user": "ann"}, False),
        ({"maintenance": False, "users": ("ann",)}, {"reservation": "k"}, True),
        ({"maintenance": False, "queue": "blue"}, {"queue": "blue"}, True),
        ({"maintenance": False, "queue": "blue"}, {"queue": "red"}, False),
        ({"maintenance": False, "queue": "blue"}, {"queue": "blue", "reservation": "x"}, False),
        ({"maintenance": False, "queue": "blue", "users": ("ann",)}, {"queue": "blue"}, False),
        (
            {"maintenance": False, "queue": "blue", "users": ("ann",)},
            {"queue": "blue", "user": "ann"},
            True,
        ),
    ],
)
def test_who_has_a_right(fields: Any, spec: Any, admitted: bool) -> None:
    assert window(10, 20, **fields).admits(job_spec(**spec)) is admitted


@pytest.mark.parametrize(
    ("begin", "end", "free"), [(0, 10, True), (0, 11, False), (19, 30, False), (20, 30, True)]
)
def test_a_window_is_met_from_its_start_up_to_its_end(begin: int, end: int, free: bool) -> None:
    windows = Windows([window(10, 20)])
    spec = job_spec()
    assert windows.open(spec, NodeId("n0"), begin * S, end * S) is free
    assert windows.open(spec, NodeId("n1"), begin * S, end * S)
    assert bool(windows.why(spec, [NodeId("n0")], begin * S, end * S)) is not free


def test_a_job_of_a_reservation_is_inside_it() -> None:
    windows = Windows([window(10, 20, maintenance=False, users=("ann",), when="today")])
    spec = job_spec(reservation="k")

    def why(node: str, begin_s: int, end_ns: int) -> str:
        told = windows.why(spec, [NodeId(node)], begin_s * S, end_ns)
        assert windows.open(spec, NodeId(node), begin_s * S, end_ns) is not bool(told)
        return told

    assert why("n0", 10, 20 * S + SLACK_NS) == ""
    assert why("n0", 9, 15 * S) == "reservation k today has not started"
    assert why("n1", 12, 15 * S) == "node n1 is not in reservation k"
    assert (
        why("n0", 12, 90 * S)
        == "is expected to run 78 s, but only 8 s of reservation k today remain"
    )
    gone = Windows().why(spec, [], 0, 1)
    assert gone == "reservation k is over or was cancelled"


# ---- the applier -------------------------------------------------------------------------------


def test_a_start_that_would_reach_into_the_window_is_refused() -> None:
    stage = site(window(100, 200), job_spec(limit_ns=101 * S), job_spec(limit_ns=100 * S))
    assert not started(stage, "a")
    told = "omitted from the last plan: node n0 is reserved for maintenance (k)"
    assert stage.job("a").reason == told
    assert started(stage, "b")


def test_without_a_limit_the_estimate_counts() -> None:
    stage = site(window(100, 200), job_spec(), job_spec())
    assert not started(stage, "a", total_s=101)
    assert started(stage, "b", total_s=100)


def test_elsewhere_and_afterwards_it_starts() -> None:
    stage = site(window(100, 200), job_spec(limit_ns=500 * S), job_spec(limit_ns=500 * S))
    assert started(stage, "a", "n1")
    for _ in range(30):
        stage.after(LEASE_S - 1)
        stage.leased("n0")
        stage.leased("n1")
    assert stage.now_ns > 200 * S
    assert stage.core.state.reservations == {}
    assert started(stage, "b")


# ---- time --------------------------------------------------------------------------------------


def test_its_begin_and_its_end_ask_for_a_plan_and_wake() -> None:
    stage = site(window(1, 2), job_spec(limit_ns=S * 100))
    stage.plan()
    assert stage.wake_ns <= 1 * S
    stage.after(1)
    state = stage.core.state
    assert state.begun == ["k"]
    assert state.solving, "its begin is a reason to plan"
    stage.plan()
    assert stage.wake_ns <= 2 * S
    stage.after(1)
    assert (state.begun, state.reservations) == ([], {})
    assert state.solving


def test_a_job_that_is_to_start_there_and_has_not_waits_again_at_the_begin() -> None:
    stage = site(window(1, 50), job_spec(limit_ns=S))
    stage.run_job("z", "n0:0-3")
    stage.need_plan()
    stage.plan(on("z", "n0:2-3"), on("a", "n0:0-1"))
    job = stage.job("a")
    assert (job.state, job.ranks) == (JobState.STARTING, {}), "z has not left these cores yet"
    stage.after(1)
    assert (job.state, job.target) == (JobState.PENDING, None)
    stage.mask_is("n0", "z", "2-3")
    assert not job.ranks


def test_what_runs_at_the_begin_goes_on() -> None:
    stage = site(window(5, 50), job_spec())
    assert started(stage)
    stage.launched("n0", "a")
    stage.after(5)
    assert stage.core.state.begun == ["k"]
    assert stage.job("a").state is JobState.RUNNING


@pytest.mark.parametrize("restartable", [True, False])
def test_with_end_jobs_it_is_ended_or_queued_again(restartable: bool) -> None:
    one = window(5, 50, end_jobs=True, when="at five")
    mine = window(5, 50, name="m", nodes=(NodeId("n1"),), maintenance=False, users=("ann",))
    stage = site(one, job_spec(restartable=restartable), job_spec(reservation="m"))
    stage.send(ev.ReservationMade(reservation=mine))
    assert started(stage)
    stage.launched("n0", "a")
    assert terminate("n0", "a") in stage.after(5)
    job = stage.job("a")
    assert job.state is JobState.ENDING
    stage.process_ended("n0", "a", 143)
    if restartable:
        assert (job.state, job.attempt) == (JobState.PENDING, 2)
        assert job.attempts[0].why == "yields to maintenance (k) at five"
    else:
        assert job.state is JobState.CANCELLED
        assert job.message == "ended for maintenance (k) at five"


def test_who_has_a_right_is_not_ended() -> None:
    one = window(5, 50, maintenance=False, queue="blue", end_jobs=True)
    stage = site(one, job_spec(queue="blue"))
    assert started(stage)
    stage.launched("n0", "a")
    stage.after(5)
    assert stage.job("a").state is JobState.RUNNING


def test_one_that_is_cancelled_keeps_nobody_out() -> None:
    stage = site(window(0, 50), job_spec())
    assert stage.core.state.begun == ["k"], "it begins as it is made"
    stage.send(ev.ReservationCancelled(name="k"))
    stage.send(ev.ReservationCancelled(name="k"))
    assert (stage.core.state.reservations, stage.core.state.begun) == ({}, [])
    assert started(stage, total_s=100)


# ---- persistence --------------------------------------------------------------------------------


def test_it_is_in_snapshots_and_in_the_journal() -> None:
    one = window(0, 50, users=("ann",), maintenance=False, reason="course", when="now")
    stage = site(one, job_spec(reservation="k"))
    state = stage.core.state
    assert snapshot(state, 0).reservations == (one,)
    loaded = codec.load_state(codec.dump_state(state))
    assert loaded.reservations == {"k": one}
    assert loaded.begun == ["k"]
    assert loaded.jobs[JobId("a")].spec.reservation == "k"
    made = ev.ReservationMade(reservation=one)
    assert codec.load_event(*codec.dump_event(made)) == made


def test_a_journal_from_before_there_were_any() -> None:
    stage = Stage()
    stage.submit("a")
    older = json.loads(codec.dump_state(stage.core.state))
    del older["reservations"], older["begun"], older["jobs"]["a"]["spec"]["reservation"]
    loaded = codec.load_state(json.dumps(older))
    assert (loaded.reservations, loaded.begun) == ({}, [])
    assert loaded.jobs[JobId("a")].spec.reservation == ""
