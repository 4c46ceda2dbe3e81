"""A job that exceeds its estimate is extended in steps and does not block its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from property.core.test_standing import POLICIES
from unit.core.stage import Stage, job_spec, on
from unit.policies.snapshots import S, held, job, node, snapshot
from unit.pool.pools import MACHINE, table
from unit.runs.sample_runs import FALLS, case

from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Policy, Snapshot
from wattfold.coordinator.models.forecast import lasting_ns
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.resources.estimates import duration_ns
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.schedulers.predicting_scheduler import PredictingScheduler
from wattfold.simulator.runs.schedulers import scheduler_of

EVERY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
KIND = node("n0").spec.kind


def whole(name: str, nodes: int, time_s: float, **fields: object) -> JobView:
    return job(name, nodes, nodes, time_s=time_s, unit=SizeUnit.NODES, kind=JobKind.RIGID, **fields)


def beside_a_late_job(over_s: float, limit_s: float = 0.0) -> Snapshot:
    """n0 has an overdue job. The next job needs both nodes, and the last job needs n1."""
    late = whole("late", 1, 60, current=held("late", "n0", total_s=60), started_s=0, done=0.99)
    spec = replace(late.spec, limit_ns=round(limit_s * S))
    late = replace(late, spec=spec, over_ns=round(over_s * S))
    waits = [whole("wide", 2, 60, submitted_s=1), whole("short", 1, 5, submitted_s=2)]
    return snapshot([node("n0"), node("n1")], [late, *waits], now_s=60 + over_s)


def started(policy: Policy, seen: Snapshot) -> bool:
    plan = policy.propose(seen, seen.now_ns, 5.0)
    return "short" in {one.job_id for one in plan.assignments}


@EVERY
def test_a_short_job_starts_beside_a_late_one(policy: Policy) -> None:
    for over_s in (1, 20, 70, 1000):
        seen = beside_a_late_job(over_s)
        assert started(policy, seen) == (policy.name != "fifo"), f"{over_s} s late"


def test_a_late_job_is_not_expected_beyond_its_limit() -> None:
    def lasts_s(over_s: float, limit_s: float) -> float:
        (late, *_) = beside_a_late_job(over_s, limit_s).jobs
        return duration_ns(late, (KIND,), 1, KIND.most_uw) / S

    assert [lasts_s(over_s, 0) for over_s in (0, 1, 59, 60, 400)] == [60, 120, 120, 420, 1320]
    assert [lasts_s(over_s, 100) for over_s in (1, 39)] == [100, 100]
    assert [lasts_s(over_s, 3600) for over_s in (1, 61)] == [120, 3600], "beyond twice its estimate"


def test_a_prediction_grows_to_the_estimate_and_then_to_the_limit() -> None:
    assert lasting_ns(10 * S, 11 * S, 60 * S, 300 * S) == 60 * S
    assert lasting_ns(10 * S, 60 * S, 60 * S, 300 * S) == 120 * S
    assert lasting_ns(10 * S, 121 * S, 60 * S, 300 * S) == 300 * S
    assert lasting_ns(10 * S, 121 * S, 60 * S, 0) == 420 * S


def late(total_s: float = 60) -> Stage:
    """A running job and a waiting job."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(time_ns=round(total_s * S)))
    stage.submit("b", job_spec(4, 4))
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", total_s=total_s))
    stage.launched("n0", "a")
    return stage


def seen_in(stage: Stage) -> JobView:
    return next(view for view in stage.core.snapshot(stage.now_ns).jobs if view.job_id == "a")


def test_the_core_asks_for_a_plan_at_every_step() -> None:
    stage = late()
    due_s = []
    for _ in range(3):
        due_ns = stage.core.state.revisit_ns
        due_s.append(due_ns / S)
        stage.after((due_ns - stage.now_ns) / S)
        assert stage.core.state.solving
        stage.plan(on("a", "n0:0-3", total_s=60))
    assert due_s == pytest.approx([60, 120, 420])


def test_what_its_program_says_of_its_progress_does_not_block_either() -> None:
    """It is slower than estimated and reports this; by its progress it is not late for long."""
    stage = late()
    stage.after(59)
    stage.send(ev.ProgressReported(job_id=stage.job("a").job_id, done=0.3))
    stage.plan(on("a", "n0:0-3", total_s=60))
    assert stage.core.state.revisit_ns == pytest.approx(60 * S, abs=1)
    stage.after(11)
    view = seen_in(stage)
    assert stage.job("a").over_ns(stage.now_ns) == 0
    assert view.started_ns + duration_ns(view, (KIND,), 4, KIND.most_uw) > stage.now_ns


@pytest.mark.parametrize("method", ["user", "last-two"])
def test_in_a_pool_a_late_job_does_not_block_either(method: str) -> None:
    """8 of 10 nodes are late from 100 s on; the last job needs 2 nodes for at most 50 s."""
    rows = ((0, 8, 1000), (1, 10, 50), (110, 2, 40))
    jobs = table(*rows, estimates=[100.0, 50.0, 50.0])
    inner = EasyScheduler(kills_at_limit=False)
    scheduler = PredictingScheduler(jobs, inner, method, outlasts=True)
    record = simulate(jobs, MACHINE, scheduler, BudgetSchedule.constant(MACHINE.full_uw))
    assert (record.columns.start_ns // S).tolist() == [0, 1000, 110]


def test_a_simulation_with_a_falling_budget_lets_estimates_grow() -> None:
    """Jobs with profiles exceed their users' estimates when caps fall."""
    jobs = table((0, 1, 10), estimates=[20.0])
    plain = scheduler_of(case("easy", budget=FALLS), jobs)
    assert isinstance(plain, EasyScheduler)
    grows = scheduler_of(
        case("easy", budget=FALLS), replace(jobs, profiles=(APPLICATIONS["LeanMD"],))
    )
    assert isinstance(grows, PredictingScheduler)
    assert grows.name == plain.name
