"""Planning on a copy of the state: the differences that return describe the whole plan."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from unit.adapters.in_place import InPlaceWorker
from unit.core.stage import S, Stage, job_spec, on, planning_round

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import job_without_spec
from wattfold.coordinator.adapters.copies.node_views import start_statements
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.planning import Planner, news_of, propose
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Plan, Policy, Snapshot, Waiting
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.models.pass_model import SizeUnit, default_profile
from wattfold.coordinator.models.power_curve import PowerCurve
from wattfold.coordinator.policies.fifo.policy import FifoEasy


def busy() -> Stage:
    """Two nodes of four cores, and six jobs of two to four cores."""
    stage = Stage(budget_w=130)
    stage.up("n0", "n1")
    for name in "abcdef":
        stage.submit(name, job_spec(2, 2, kind=JobKind.RIGID))
    return stage


def launch_all(stage: Stage) -> None:
    for job in stage.core.state.placed():
        for rank in job.ranks.values():
            if rank.launching:
                stage.launched(rank.node_id, job.job_id)


def take(stage: Stage, plan: Plan) -> None:
    event = ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving))
    stage.send(event)


def shown(jobs: dict[JobId, Job]) -> list[tuple[Any, ...]]:
    return [(j.job_id, j.state, j.target, j.reason, j.resizes) for j in jobs.values()]


def test_the_news_of_a_plan_do_what_the_plan_would() -> None:
    whole, news = busy(), busy()
    named = []
    for _ in range(5):
        stages = (whole, news)
        for stage in stages:
            seen = stage.core.snapshot(stage.now_ns)
            plan = FifoEasy().propose(seen, stage.now_ns, 1.0)
            if stage is news:
                plan = news_of(plan, stage.core.state)
                named.append((len(plan.assignments), len(plan.waiting)))
            take(stage, plan)
            launch_all(stage)
            stage.after(1.0)
            stage.send(ev.BudgetChanged(budget_uw=stage.core.state.ledger.budget_uw))
        assert shown(whole.core.state.jobs) == shown(news.core.state.jobs)
    assert named[0] != (0, 0)
    assert named[-1] <= (0, 1), "only when the first in the queue may start has changed"


def test_a_start_that_has_moved_is_news_and_one_that_has_not_is_none() -> None:
    stage = busy()

    def plan(start_s: float) -> Plan:
        waiting = Waiting(job_id=JobId("a"), reason="w", start_ns=round(start_s * S))
        return Plan(assignments=(), waiting=(waiting,))

    take(stage, plan(50))
    state, job = stage.core.state, stage.job("a")
    assert (job.reason, job.expected_start_ns) == ("w", 50 * S)
    assert [bool(news_of(plan(s), state).waiting) for s in (0, 48.9, 49, 50, 51, 51.1)] == [
        *(True, True, False),
        *(False, False, True),
    ]
    stage.need_plan()
    take(stage, plan(0))
    assert job.expected_start_ns == 0


def test_what_starts_is_expected_no_more() -> None:
    stage = busy()
    waiting = Waiting(job_id=JobId("a"), reason="w", start_ns=5 * S)
    take(stage, Plan(assignments=(), waiting=(waiting,)))
    message = job_without_spec(stage.job("a"), Observations(), Clock(), 0)
    assert message.expected_start_at_s > 0
    (said,) = start_statements(stage.job("a"), 1 * S)
    assert said.startswith("Expected to start in 4 s")
    stage.need_plan()
    take(stage, Plan(assignments=(on("a", "n0:0-1"),)))
    assert stage.job("a").expected_start_ns == 0


def promising(stage: Stage, start_s: float = 50) -> Job:
    promise = Promise(round(start_s * S), (NodeId("n0"),))
    waiting = Waiting(job_id=JobId("a"), reason="w", start_ns=promise.start_ns, promise=promise)
    take(stage, Plan(assignments=(), waiting=(waiting,)))
    return stage.job("a")


def test_a_promise_is_kept_with_its_job_and_told_to_the_next_plan() -> None:
    stage = busy()
    job = promising(stage)
    (view, *_) = stage.core.snapshot(stage.now_ns).jobs
    assert view.promise == job.promise == Promise(50 * S, (NodeId("n0"),))
    assert job_without_spec(job, Observations(), Clock(), 0).start_promised
    (said,) = start_statements(job, 1 * S)
    assert said.startswith("Start planned in 49 s")
    again = codec.load_state(codec.dump_state(stage.core.state))
    assert again.jobs[JobId("a")].promise == job.promise


def test_the_same_promise_is_no_news_and_another_node_is() -> None:
    stage = busy()
    promising(stage)

    def news(start_s: float, *nodes: str) -> bool:
        promise = Promise(round(start_s * S), tuple(map(NodeId, nodes)))
        start_ns = promise.start_ns
        waiting = Waiting(job_id=JobId("a"), reason="w", start_ns=start_ns, promise=promise)
        return bool(news_of(Plan(assignments=(), waiting=(waiting,)), stage.core.state).waiting)

    assert [news(50, "n0"), news(50.9, "n0"), news(52, "n0"), news(50, "n1"), news(50)] == [
        *(False, False, True),
        *(True, True),
    ]


def test_a_promise_survives_a_round_without_a_plan() -> None:
    stage = busy()
    job = promising(stage)
    stage.need_plan()
    stage.send(ev.PlanFailed(round=planning_round(stage.core.state.solving), reason="late"))
    assert (job.expected_start_ns, job.promise) == (0, Promise(50 * S, (NodeId("n0"),)))
    assert not job.start_promised


def test_one_that_is_to_start_is_promised_that() -> None:
    stage = busy()
    job = promising(stage)
    stage.need_plan()
    take(stage, Plan(assignments=(on("a", "n1:0-1"),)))
    assert job.promise == Promise(stage.now_ns, (NodeId("n1"),))


def test_who_leaves_the_queue_is_promised_nothing() -> None:
    for event in (
        ev.JobHeld(job_id=JobId("a")),
        ev.JobResizeRequested(job_id=JobId("a"), size=1),
    ):
        stage = Stage(budget_w=130)
        stage.up("n0", "n1")
        stage.submit("a", job_spec(1, 2, kind=JobKind.MALLEABLE))
        job = promising(stage)
        stage.send(event)
        assert job.promise is None


class Says:
    """Policy that names the jobs it has seen in its plan, and fails on request."""

    name = "says"

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def propose(self, snapshot: Snapshot, now_ns: int, deadline_s: float) -> Plan:
        if self.fails:
            raise ValueError("it fails")
        residual = ",".join(str(node.residual) for node in snapshot.nodes)
        jobs = " ".join(view.job_id for view in snapshot.jobs)
        return Plan(assignments=(), solver=f"{jobs}/{residual}", revisit_ns=now_ns)

    def fallback(self) -> Policy | None:
        return Says() if self.fails else None


@pytest.mark.parametrize("fails", [False, True])
def test_a_round_plans_with_the_newest_state_and_falls_back(fails: bool) -> None:
    stage = busy()
    posted: list[ev.Event] = []
    residual = {NodeId("n1"): CpuSet.of([3])}

    async def go() -> None:
        feed = ReplicaFeed(InPlaceWorker(), lambda: stage.core.state, for_planning)
        planner = Planner(
            Says(fails), feed, lambda: stage.now_ns, lambda: residual, posted.append, 1.0
        )
        planner.perform(act.Solve(round=3, cause=""))
        while not posted:
            await asyncio.sleep(0)
        await planner.close()

    asyncio.run(go())
    (event,) = posted
    assert isinstance(event, ev.PlanProposed)
    assert event.plan.solver == "a b c d e f/,3"
    assert event.round.outcome == ("fallback " if fails else "")
    assert (event.round.number, event.round.jobs) == (3, 6)


def test_a_profile_that_was_learnt_counts_for_jobs_that_wait_already() -> None:
    stage = Stage(budget_w=1000)
    feed = ReplicaFeed(InPlaceWorker(), lambda: stage.core.state, for_planning)

    def send(event: ev.Event) -> None:
        actions = stage.core.handle(event, stage.now_ns)
        changes = Changes()
        changes.add(stage.core.state, event, stage.core.touched, actions)
        feed.note(changes)

    def starts() -> set[str]:
        asked = feed.ask(propose, lambda _anew: (FifoEasy(), stage.now_ns, Beside(), 1.0), 10.0)
        plan = asyncio.run(asked).value.plan  # type: ignore[union-attr]
        send(ev.PlanProposed(plan=plan, round=planning_round(stage.core.state.solving)))
        launch_all(stage)
        return {a.job_id for a in plan.assignments}

    stage.up("n0", "n1", "n2")
    whole: dict[str, Any] = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID}
    stage.submit("runs", job_spec(2, 2, time_ns=100 * S, **whole))
    assert starts() == {"runs"}
    for name, size, time_s in (("first", 3, 10), ("later", 1, 0)):
        spec = job_spec(size, size, time_ns=time_s * S, **whole)
        send(ev.JobSubmitted(job_id=JobId(name), spec=spec))
    # With an assumed run time of an hour it would delay the first job.
    assert starts() == set()
    assert starts() == set(), "and nothing is new"
    curve = PowerCurve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)
    short = default_profile(curve, 1, 5.0, app="app", unit=SizeUnit.NODES)
    send(ev.ProfileStored(profile=short, source="measured"))
    assert starts() == {"later"}
