"""Requests to change a submission: what owners and operators may change, and the refusals."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import S, Stage, job_spec, node_spec, on

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.modifications import modification
from wattfold.coordinator.adapters.requests.reservations import reservation_of
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.queue import Queue
from wattfold.v1 import coordinator_pb2 as pb

SITE = TimeLimits(max_ns=1000 * S)
QUEUE = Queue(name="q", priority=4.0, time_limit_max_ns=500 * S, cores_max=3)


class Desk:
    """A node of four cores with job a, and requests about it."""

    def __init__(self, **spec: Any) -> None:
        self.stage = Stage()
        self.stage.register("n0")
        self.stage.connect(node_spec("n0"))
        self.stage.leased("n0")
        self.stage.send(ev.QueuesConfigured(queues=(QUEUE,)))
        values = {"limit_ns": 100 * S, "priority": 4.0, "queue": "q", "kind": JobKind.RIGID}
        self.stage.submit("a", job_spec(2, 2, **(values | spec)))
        self.clock = Clock(last_ns=self.stage.now_ns + 100 * S)

    def run(self) -> Desk:
        self.stage.plan(on("a", "n0:0-1", total_s=100))
        self.stage.launched("n0", "a")
        self.stage.job("a").started_ns = self.clock.now_ns()
        return self

    def ask(self, *, operator: bool = False, **fields: Any) -> ev.JobModified:
        request = pb.ModifyJobRequest(job_id="a", **fields)
        job, state = self.stage.job("a"), self.stage.core.state
        return modification(request, job, state, self.clock, SITE, operator=operator)

    def refusal(self, **fields: Any) -> str:
        with pytest.raises(InvalidRequestError) as caught:
            self.ask(**fields)
        return str(caught.value)


def test_owners_shorten_limits_and_lower_priorities() -> None:
    for desk in (Desk(), Desk().run()):
        event = desk.ask(limit_ns=50 * S, priority=0.5)
        assert event == ev.JobModified(job_id=JobId("a"), limit_ns=50 * S, priority=2.0)
        assert "priority 8 is above the current 4; only operators" in desk.refusal(priority=2)
        assert desk.ask(operator=True, priority=2).priority == 8.0
        assert "must be above 0" in desk.refusal(priority=-1.0)
        assert "above 0" in desk.refusal(priority=float("nan"))


def test_owners_raise_the_limit_of_a_waiting_job_up_to_the_maximum() -> None:
    desk = Desk()
    assert desk.ask(limit_ns=500 * S).limit_ns == 500 * S
    assert "time limit 501 s is above 500 s" in desk.refusal(limit_ns=501 * S)
    assert "time limit none is above 500 s" in desk.refusal(limit_ns=0)
    assert desk.ask(operator=True, limit_ns=0).limit_ns == 0


def test_a_job_that_waits_for_its_conditions_is_changed_like_one_in_the_queue() -> None:
    desk = Desk()
    job = desk.stage.job("a")
    job.state = JobState.WAITING
    event = desk.ask(limit_ns=500 * S, size_min=1, size_max=1)
    desk.stage.send(event)
    assert (job.spec.limit_ns, job.spec.size_max, job.state) == (500 * S, 1, JobState.WAITING)


def test_only_operators_raise_the_limit_of_a_running_job() -> None:
    desk = Desk().run()
    assert "its time limit is 100 s; the limit of a running job can be raised (to 101 s) only" in (
        desk.refusal(limit_ns=101 * S)
    )
    assert desk.ask(operator=True, limit_ns=2000 * S).limit_ns == 2000 * S


def test_a_limit_before_now_is_refused() -> None:
    desk = Desk().run()
    desk.stage.job("a").started_ns = desk.clock.now_ns() - 40 * S
    assert "has already run for 40" in desk.refusal(limit_ns=30 * S)
    desk.stage.job("a").paused_ns = 20 * S  # A suspension does not count.
    assert desk.ask(limit_ns=30 * S).limit_ns == 30 * S


def test_a_limit_into_a_reservation_is_refused_with_its_reason() -> None:
    desk = Desk().run()
    now_s = desk.clock.wall_s(desk.clock.now_ns())
    window = pb.ReserveRequest(
        name="r", maintenance=True, node_ids=["n0"], start_at_s=now_s + 300, end_at_s=now_s + 400
    )
    made = reservation_of(window, desk.stage.core.state, desk.clock)
    desk.stage.send(ev.ReservationMade(reservation=made))
    assert desk.ask(operator=True, limit_ns=250 * S).limit_ns == 250 * S
    for limit_ns in (350 * S, 0):
        why = desk.refusal(operator=True, limit_ns=limit_ns)
        assert "node n0 is reserved for maintenance (r)" in why


def test_the_sizes_of_a_waiting_job() -> None:
    desk = Desk()
    event = desk.ask(size_min=3, size_max=3)
    assert (event.size_min, event.size_max) == (3, 3)
    assert "a rigid job has one size" in desk.refusal(size_min=1, size_max=3)
    assert "queue q allows at most 3 cores" in desk.refusal(size_min=4, size_max=4)
    assert "the largest node" in desk.refusal(operator=True, size_min=9, size_max=9)
    assert "give a minimum" in desk.refusal(size_min=0, size_max=3)
    assert "`wattfold resize`" in desk.run().refusal(size_min=1, size_max=1)


def test_names_and_due_dates() -> None:
    desk = Desk(stdout_path="%x.out")
    assert desk.ask(name="other").name == "other"
    assert "printable" in desk.refusal(name="a\nb")
    assert desk.ask(due_at_s=0).due_ns == -1
    assert "give a future time" in desk.refusal(due_at_s=1.0)
    assert "not a time" in desk.refusal(due_at_s=float("nan"))
    assert "contain the job name (%x)" in desk.run().refusal(name="other")


def test_an_ended_job_is_not_changed() -> None:
    desk = Desk().run()
    desk.stage.cancel("a")
    assert "the job is ending" in desk.refusal(name="x")
    desk.stage.process_ended("n0", "a", 143)
    assert "the job has ended: it is cancelled" in desk.refusal(operator=True, name="x")
