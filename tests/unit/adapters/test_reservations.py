"""Reservation requests: reasons for a refusal, the chosen nodes, and the notified jobs."""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import S, Stage, job_spec, node_spec, on

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.site_messages import node_message
from wattfold.coordinator.adapters.door.access import Right, right_of
from wattfold.coordinator.adapters.door.auditing import LOOKS
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.reservations import (
    check_reservation,
    reservation_message,
    reservation_of,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec
from wattfold.coordinator.core.model.jobs.spread import Spread
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb

RIGID = JobKind.RIGID
ME = getpass.getuser()


def site() -> Stage:
    """Nodes n0, n1 and n2, the last with a feature, and a queue."""
    stage = Stage()
    for name in ("n0", "n1", "n2"):
        stage.register(name)
        stage.connect(node_spec(name, features=("big",) if name == "n2" else ()))
        stage.leased(name)
    stage.send(ev.QueuesConfigured(queues=(Queue(name="blue"),)))
    return stage


class Asking:
    """Requests of one site, on a clock that has just started."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.clock = stage, Clock(last_ns=stage.now_ns)
        self.now_s = self.clock.wall_s(self.clock.now_ns())

    def request(self, start_s: float = 100, end_s: float = 200, **fields: Any) -> pb.ReserveRequest:
        asked: dict[str, Any] = {"name": "r", "maintenance": True, **fields}
        return pb.ReserveRequest(
            start_at_s=self.now_s + start_s, end_at_s=self.now_s + end_s, **asked
        )

    def made(self, **fields: Any) -> Reservation:
        asked = self.request(**fields)
        one = reservation_of(asked, self.stage.core.state, self.clock)
        self.stage.send(ev.ReservationMade(reservation=one))
        return one

    def complaint(self, **fields: Any) -> str:
        with pytest.raises(InvalidRequestError) as caught:
            self.made(**fields)
        return str(caught.value)


# ---- accepted reservations ----------------------------------------------------------------------


def test_what_is_asked_for_is_what_is_kept() -> None:
    asking = Asking(site())
    one = asking.made(
        node_ids=["n1", "n0", "n1"],
        maintenance=False,
        users=[ME],
        queue="blue",
        end_jobs=True,
        reason="a  course",
    )
    assert (one.nodes, one.users, one.queue) == (("n1", "n0"), (ME,), "blue")
    assert (one.maintenance, one.end_jobs, one.reason) == (False, True, "a course")
    assert one.end_ns - one.start_ns == pytest.approx(100 * S, abs=1000)
    assert one.when.startswith("from 20")
    assert " to " in one.when


def test_without_a_start_it_begins_now() -> None:
    asking = Asking(site())
    asked = asking.request(node_ids=["n0"])
    asked.start_at_s = 0
    before_ns = asking.clock.now_ns()
    one = reservation_of(asked, asking.stage.core.state, asking.clock)
    assert before_ns <= one.start_ns <= asking.clock.now_ns()


def test_nodes_by_number_are_those_that_are_free_at_the_start() -> None:
    stage = site()
    stage.run_job("a", "n0:0-1")
    stage.order("n1", ev.NodeOrder.DRAIN)
    asking = Asking(stage)
    job = stage.job("a")
    assert job.target is not None
    job.target = replace(job.target, expected_total_s=1000.0)
    assert asking.made(count=1).nodes == ("n2",)
    assert asking.made(name="s", count=1).nodes == ("n0",), "the third is drained"
    asking.stage.send(ev.ReservationCancelled(name="r"))
    assert asking.made(name="t", count=1, features=["big"]).nodes == ("n2",)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "a b"}, "reservation 'a b': use 1-63 of"),
        ({}, "give either the nodes or their number"),
        ({"node_ids": ["n0"], "count": 1}, "give either the nodes or their number"),
        ({"node_ids": ["n0"], "features": ["big"]}, "give --count, not --nodes"),
        ({"node_ids": ["n0", "n9"]}, "no node 'n9'; there are: n0, n1, n2"),
        ({"count": 4}, "4 nodes are requested, but there are only 3"),
        ({"count": 2, "features": ["big"]}, "2 nodes with big are requested, but there are only 1"),
        ({"count": 1, "end_s": 100}, "must be at least one second after the start"),
        ({"count": 1, "end_s": 50}, "must be at least one second after the start"),
        ({"count": 1, "start_s": -100}, "the start is 100 s ago"),
        ({"count": 1, "end_s": float("inf")}, "within the next ten years"),
        ({"count": 1, "maintenance": False}, "no job could use the reservation"),
        ({"count": 1, "users": ["x"]}, "a maintenance window admits no jobs"),
        (
            {"count": 1, "maintenance": False, "users": ["no-such-one"]},
            "account 'no-such-one' does not exist",
        ),
        ({"count": 1, "maintenance": False, "queue": "red"}, "no queue 'red'; there are: blue"),
        ({"count": 1, "reason": "x" * 201}, "at most 200 printable characters"),
    ],
)
def test_what_can_never_be_is_refused_at_once(fields: dict[str, Any], why: str) -> None:
    assert why in Asking(site()).complaint(**fields)


def test_two_do_not_keep_the_same_node_at_the_same_time() -> None:
    asking = Asking(site())
    asking.made(node_ids=["n0"])
    assert asking.complaint(name="s", node_ids=["n1", "n0"], start_s=199, end_s=300).startswith(
        "node n0 is already reserved: maintenance (r) from"
    )
    assert "only 2 of 3 are free of other reservations: maintenance (r)" in asking.complaint(
        name="s", count=3
    )
    assert "reservation r already exists" in asking.complaint(node_ids=["n1"])
    assert asking.made(name="s", node_ids=["n0"], start_s=200, end_s=300).nodes == ("n0",)


# ---- jobs that name a reservation ---------------------------------------------------------------


def checked(spec: JobSpec, **fields: Any) -> str:
    asking = Asking(site())
    given = {"maintenance": False, "users": [ME], "node_ids": ["n0", "n1"], **fields}
    asking.made(**given)
    try:
        check_reservation(spec, asking.stage.core.state, asking.clock.now_ns())
    except InvalidRequestError as error:
        return str(error)
    return ""


def test_a_job_that_can_run_in_it() -> None:
    assert checked(job_spec(reservation="r", user=ME, limit_ns=100 * S)) == ""
    assert checked(job_spec(user="other")) == ""
    two = job_spec(2, 2, unit=SizeUnit.NODES, reservation="r", user=ME)
    assert checked(two) == ""


@pytest.mark.parametrize(
    ("spec", "fields", "why"),
    [
        (job_spec(reservation="x"), {}, "no reservation 'x'; there are: r"),
        (job_spec(reservation="r", user="other"), {}, f"reservation r is for jobs of {ME}"),
        (
            job_spec(reservation="r", user=ME),
            {"queue": "blue"},
            f"reservation r is for jobs of {ME} of queue blue",
        ),
        (
            job_spec(reservation="r"),
            {"maintenance": True, "users": []},
            "r is a maintenance window; no job may use it",
        ),
        (
            job_spec(reservation="r", user=ME, limit_ns=161 * S),
            {},
            "its time limit is 161 s, but only 100 s of reservation r",
        ),
        (job_spec(reservation="r", user=ME, time_ns=161 * S), {}, "its estimate is 161 s"),
        (
            job_spec(3, 3, unit=SizeUnit.NODES, reservation="r", user=ME),
            {},
            "in reservation r: the job requests 3 nodes, but there are only 2",
        ),
        (
            job_spec(reservation="r", user=ME, features=("big",)),
            {},
            "in reservation r: no node has the feature 'big'",
        ),
        (
            job_spec(
                2, 2, unit=SizeUnit.UNITS, unit_cores=999, kind=RIGID, reservation="r", user=ME
            ),
            {},
            "in reservation r: the job requests units of 999 cores; the largest node",
        ),
        (
            job_spec(
                3,
                3,
                unit=SizeUnit.UNITS,
                unit_cores=1,
                spread=Spread.APART,
                kind=RIGID,
                reservation="r",
                user=ME,
            ),
            {},
            "in reservation r: the job requests 3 units of 1 core on separate nodes; only 2 nodes "
            "hold a unit",
        ),
    ],
)
def test_a_job_that_never_can(spec: JobSpec, fields: dict[str, Any], why: str) -> None:
    assert why in checked(spec, **fields)


# ---- messages -----------------------------------------------------------------------------------


def test_nodes_tell_what_they_are_kept_for_and_who_overstays() -> None:
    stage = site()
    stage.run_job("a", "n0:0-1")
    asking = Asking(stage)
    one = asking.made(node_ids=["n0"], start_s=0, reason="new kernel")
    state = stage.core.state
    stage.now_ns = one.start_ns
    stage.send(ev.TimePassed())
    told = node_message(state, state.nodes[NodeId("n0")], None, ())
    assert list(told.reservations) == [f"maintenance (r) {one.when}: new kernel"]
    assert list(told.overstaying_job_ids) == ["a"]
    other = node_message(state, state.nodes[NodeId("n1")], None, ())
    assert (list(other.reservations), list(other.overstaying_job_ids)) == ([], [])
    message = reservation_message(state, one, asking.clock)
    assert message.begun
    assert (list(message.job_ids), list(message.other_job_ids)) == ([], ["a"])
    assert message.start_at_s == pytest.approx(asking.now_s, abs=1)


def test_only_operators_make_them_and_all_may_look() -> None:
    assert right_of("Reserve") is Right.OPERATOR
    assert right_of("CancelReservation") is Right.OPERATOR
    assert right_of("ListReservations") is Right.ANYBODY
    assert LOOKS.isdisjoint({"Reserve", "CancelReservation"})


def test_the_service_makes_lists_and_cancels(tmp_path: Path) -> None:
    asyncio.run(made_listed_cancelled(tmp_path))


async def made_listed_cancelled(tmp_path: Path) -> None:
    async with ApiSite(tmp_path) as api:
        api.service.post(ev.NodeRegistered(node_id=NodeId("n0"), address="x"))
        asked = Asking(Stage()).request(node_ids=["n0"])
        made = (await api.stub.Reserve(asked)).reservation
        assert (made.name, list(made.node_ids), made.maintenance) == ("r", ["n0"], True)
        (listed,) = (await api.stub.ListReservations(pb.ListReservationsRequest())).reservations
        assert listed == made
        spec = pb.JobSpec(argv=["x"], reservation="r")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.stub.Submit(pb.SubmitRequest(spec=spec))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == "r is a maintenance window; no job may use it"
        with pytest.raises(grpc.aio.AioRpcError, match="reservation r already exists"):
            await api.stub.Reserve(asked)
        await api.stub.CancelReservation(pb.CancelReservationRequest(name="r"))
        with pytest.raises(grpc.aio.AioRpcError, match="no reservation 'r'; there are none"):
            await api.stub.CancelReservation(pb.CancelReservationRequest(name="r"))
        answer = await api.stub.ListReservations(pb.ListReservationsRequest())
        assert list(answer.reservations) == []


def test_jobs_of_the_plan_are_told_where_they_stand() -> None:
    stage = site()
    stage.submit("a", job_spec(limit_ns=500 * S))
    asking = Asking(stage)
    one = asking.made(node_ids=["n0"])
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    told = f"node n0 is reserved for maintenance (r) {one.when}"
    assert stage.job("a").reason == f"omitted from the last plan: {told}"
