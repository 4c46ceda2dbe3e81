"""Jobs that EASY preempts for the head of its queue, and jobs that it keeps meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unit.policies.snapshots import faults, held, job, node, reasons, snapshot

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, NodeView, Plan, Snapshot
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm

QUEUES = (Queue(name="low"), Queue(name="high", preempts=("low",)))


def whole(name: str, nodes: int, time_s: float = 100, **fields: Any) -> JobView:
    kinds: dict[str, Any] = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID}
    return job(name, nodes, nodes, time_s=time_s, **kinds, **fields)


def runs(name: str, where: str, started_s: float, queue: str = "low", able: bool = True) -> JobView:
    view = whole(name, 1, current=held(name, where), started_s=started_s, queue=queue)
    return replace(view, preemptable=able)


def site(*jobs: JobView, nodes: int = 3, blocked: str = "", budget_w: float = 1e6) -> Snapshot:
    there: list[NodeView] = [node(f"n{i}", blocked=blocked if i == 0 else "") for i in range(nodes)]
    made = snapshot(there, list(jobs), budget_w=budget_w, now_s=50)
    return replace(made, queues=QUEUES)


def plan(seen: Snapshot) -> Plan:
    found = FifoEasy().propose(seen, seen.now_ns, 1.0)
    assert faults(found, seen) == []
    return found


def preempted(seen: Snapshot) -> list[tuple[str, str]]:
    return [(one.job_id, one.for_job) for one in plan(seen).preemptions]


FULL = (runs("old", "n0", 10), runs("mid", "n1", 20), runs("new", "n2", 30))


def test_the_youngest_make_way() -> None:
    assert preempted(site(*FULL, whole("h", 1, queue="high"))) == [("new", "h")]
    assert preempted(site(*FULL, whole("h", 2, queue="high"))) == [("new", "h"), ("mid", "h")]
    told = reasons(plan(site(*FULL, whole("h", 2, queue="high"))))
    assert told["h"] == "starts when these jobs, preempted for it, have ended: new, mid"


def test_nobody_does_where_it_starts_anyway_or_cannot_even_then() -> None:
    assert preempted(site(*FULL[:2], whole("h", 1, queue="high"))) == []
    others = (runs("old", "n0", 10, able=False), *FULL[1:])
    assert preempted(site(*others, whole("h", 3, queue="high"))) == []


def test_nobody_does_for_a_queue_that_does_not_ask_for_it() -> None:
    assert preempted(site(*FULL, whole("h", 1, queue="low"))) == []
    assert preempted(site(*FULL, whole("h", 1))) == []


def test_only_jobs_of_its_queues_that_may_be() -> None:
    seen = site(
        runs("old", "n0", 10), runs("mid", "n1", 20, able=False), runs("new", "n2", 30, "high")
    )
    waits = whole("h", 1, queue="high")
    assert preempted(replace(seen, jobs=(*seen.jobs, waits))) == [("old", "h")]


def test_one_whose_nodes_do_not_help_is_left_alone() -> None:
    """Job new is younger, but it is not on the node with memory."""
    nodes = [node("n0", memory=8), node("n1")]
    jobs = [runs("old", "n0", 10), runs("new", "n1", 30)]
    asks = job("h", 1, 1, queue="high", kind=JobKind.RIGID, memory_bytes=8, time_s=5)
    made = snapshot(nodes, [*jobs, asks], now_s=50)
    seen = replace(made, queues=QUEUES)
    assert [one.job_id for one in plan(seen).preemptions] == ["old"]


def test_power_alone_is_a_reason_as_well() -> None:
    """Both nodes are free, but the budget feeds only one job."""
    seen = site(runs("old", "n0", 10), whole("h", 1, queue="high"), nodes=2, budget_w=52 + 29)
    assert preempted(seen) == [("old", "h")]


def test_only_the_first_of_the_queue() -> None:
    first, second = whole("f", 1), whole("h", 1, queue="high", submitted_s=1)
    assert preempted(site(*FULL, first, second)) == []


def test_while_some_are_on_their_way_out_no_others_are_asked_and_nobody_takes_their_place() -> None:
    waits, small = whole("h", 2, queue="high"), whole("s", 1)
    mid = job("mid", 2, 2, current=held("mid", "n1:0-1"), started_s=20, kind=JobKind.RIGID)
    jobs = (mid, waits, small)
    seen = replace(site(*jobs, blocked="0-3"), clearing=(JobId("h"),))
    found = plan(seen)
    assert found.preemptions == ()
    assert [a.job_id for a in found.assignments] == ["mid"], "n2 is kept for h"
    told = reasons(found)
    assert told["h"] == "starts when the jobs preempted for it have ended"
    on_cores = replace(seen, jobs=(mid, waits, job("s", 1, 1, kind=JobKind.RIGID)))
    assert [a.job_id for a in plan(on_cores).assignments] == ["mid", "s"], "beside mid"


def test_who_was_pre_empted_waits_for_that_job_with_every_policy() -> None:
    again = replace(whole("p", 1), yields_to=JobId("h"))
    for policy in (FifoEasy(), FifoEasy(backfill=False), EasyUniform(), Parm()):
        seen = site(again, whole("h", 9, queue="high"))
        told = policy.propose(seen, seen.now_ns, 5.0)
        assert "p" not in {a.job_id for a in told.assignments}
        assert reasons(told)["p"] == "preempted for job h, which has not started"
