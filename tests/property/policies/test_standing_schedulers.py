"""A scheduler with incremental updates decides like a new scheduler and like a pool's scheduler."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from property.policies.worlds import World
from unit.policies.snapshots import S, W, job, node, snapshot
from unit.pool.pools import table

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.plan import JobView, Plan
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.constraint.policy import Constraint
from wattfold.coordinator.policies.driver.rounds import Rounds, planned
from wattfold.coordinator.policies.equipartition.policy import Equipartition
from wattfold.coordinator.policies.equipartition.settings import EquipartitionSettings
from wattfold.coordinator.policies.fifo.conservative import Conservative
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.fifo.settings import ConservativeSettings, FifoSettings
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.coordinator.policies.port import Decision, Scheduled
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.rules import SharingSettings
from wattfold.coordinator.solvers.lists.planner import PlannerEffort
from wattfold.simulator.engine.budget import BudgetSchedule, BudgetStep
from wattfold.simulator.engine.engine import simulate
from wattfold.simulator.engine.machines.machine import Machine

POLICIES = [
    FifoEasy(),
    FifoEasy(backfill=False),
    FifoEasy(FifoSettings(size="min")),
    Conservative(),
    Conservative(ConservativeSettings(promises=2)),
    Constraint(effort=PlannerEffort(evaluations=0)),
    Parm(ParmSettings(solver="greedy")),
    Parm(ParmSettings(solver="greedy", resize_interval_s=20, alpha=1.0)),
    Parm(ParmSettings(solver="greedy"), version=ParmVersion.NOMM),
    Equipartition(),
    Equipartition(
        EquipartitionSettings(
            order="fifo", power="fewer", due=True, weights="priority", interval_s=20
        )
    ),
    SlowdownDriven(),
    SlowdownDriven(
        SharingSettings(max_slowdown=1e9, benefit=False, protects=False, free_nodes=True, tested=5)
    ),
    SlowdownDriven(SharingSettings(cutoff="dynamic", sharing_factor=0.75, mates=3, mapped=2)),
]
NS = 1_000_000_000


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
# Cores were reserved for a job, and then its nodes disappeared.
@example(seed=22528, counted=False)
def test_continued_decides_as_made_anew(policy: Scheduled, seed: int, counted: bool) -> None:
    continued_as_made_anew(policy, World(random.Random(seed), counted))


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_so_it_does_with_jobs_that_are_restarted_at_other_sizes(seed: int, counted: bool) -> None:
    policy = Parm(ParmSettings(solver="greedy", resize_interval_s=20))
    continued_as_made_anew(policy, RestartedJobs(random.Random(seed), counted))


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**9))
def test_equipartition_does_where_changes_cost_something(seed: int) -> None:
    continued_as_made_anew(Equipartition(), RestartedJobs(random.Random(seed), False))


class RestartedJobs(World):
    """Some jobs, also on whole nodes, change their size by a restart."""

    def submit(self) -> None:
        super().submit()
        view = self.views[JobId(f"j{self.submitted}")]
        if view.spec.kind.resized and self.rng.random() < 0.7:
            spec = replace(view.spec, mode=ResizeMode.RESTART)
            self.put(replace(view, spec=spec, resize_ns=self.rng.choice([0, 5, 60]) * S))

    def take(self, plan: Plan) -> None:
        super().take(plan)
        for job_id, view in self.views.items():
            may = view.movable and view.current is not None
            restarted = view.spec.mode is ResizeMode.RESTART
            self.views[job_id] = replace(view, nodes_may_change=may and restarted)


def continued_as_made_anew(policy: Scheduled, world: World) -> None:
    rounds = Rounds(policy.scheduler())
    said: dict[str, tuple[str, bool, int]] = {}
    for _ in range(14):
        world.step()
        now_ns = world.snapshot.now_ns
        rounds.tell(*world.news())
        plan = rounds.plan(now_ns)
        whole = planned(policy, world.snapshot, now_ns)
        assert given_by(plan) == given_by(whole)
        assert (plan.outcome, plan.objective) == (whole.outcome, whole.objective)
        assert plan.revisit_ns == whole.revisit_ns
        assert plan.preemptions == whole.preemptions
        said.update({w.job_id: (w.reason, w.never, w.start_ns) for w in plan.waiting})
        assert {w.job_id: said[w.job_id] for w in whole.waiting} == {
            w.job_id: (w.reason, w.never, w.start_ns) for w in whole.waiting
        }
        world.take(plan)


def given_by(plan: Plan) -> dict[str, object]:
    return {assignment.job_id: assignment for assignment in plan.assignments}


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), method=st.sampled_from(["easy", "fcfs"]))
def test_the_service_starts_what_a_pool_starts(seed: int, method: str) -> None:
    """The same jobs, one event after the other, start at the same times in the same order."""
    rng = random.Random(seed)
    rows = [
        (rng.randint(0, 60), rng.randint(1, 6), rng.randint(1, 90), rng.choice([0.5, 1.0, 2.0]))
        for _ in range(16)
    ]
    rows.sort(key=lambda row: row[0])
    jobs = table(*((at, size, run) for at, size, run, _ in rows))
    jobs = replace(jobs, priority=np.array([priority for *_, priority in rows]))
    machine = Machine.of_watts(6, base_w=20, dram_w=0, cap_w_min=20, cap_w_max=60)
    steps = [BudgetStep(at_ns=0, budget_uw=machine.full_uw)]
    if rng.random() < 0.6:
        steps.append(BudgetStep(at_ns=30 * NS, budget_uw=machine.idle_total_uw + 170 * W))
        steps.append(BudgetStep(at_ns=80 * NS, budget_uw=machine.full_uw))
    pooled = Watched(method=method, kills_at_limit=False)
    simulate(jobs, machine, pooled, BudgetSchedule(steps=tuple(steps)))

    policy = FifoEasy(backfill=method == "easy")
    rounds = Rounds(policy.scheduler())
    nodes = [node(f"n{i}", 1, base_w=20, floor_w=20, max_w=60) for i in range(6)]
    views: dict[str, JobView] = {}
    starts: list[tuple[int, int, int]] = []
    for now_ns, submitted, ended, budget_uw in pooled.seen:
        for number in submitted:
            at, size, run, priority = rows[number]
            fields = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID, "priority": priority}
            name = f"j{number}"
            views[name] = job(name, size, size, time_s=run, submitted_s=at, **fields)
        for number in ended:
            del views[f"j{number}"]
        fixed_w = sum(n.fixed_uw for n in nodes) / W
        seen = snapshot(nodes, [], budget_w=fixed_w + budget_uw / W, now_s=now_ns / NS)
        # A pool waits for its budget to rise; here unreachable power has the same effect.
        seen = replace(seen, budget_uw=seen.budget_uw + 10**12, reserved_uw=10**12)
        named = [v for n, v in views.items() if v.current or int(n[1:]) in submitted]
        rounds.tell(seen, named, [JobId(f"j{number}") for number in ended])
        for assignment in rounds.plan(now_ns).assignments:
            view = views[assignment.job_id]
            if view.current is None:
                views[assignment.job_id] = replace(view, current=assignment, started_ns=now_ns)
                starts.append((now_ns, int(assignment.job_id[1:]), assignment.size))
    assert starts == pooled.starts
    assert len(starts) == len(rows)


class Watched(EasyScheduler):
    """Records the inputs of a pool before each decision, and the decisions."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.seen: list[tuple[int, list[int], list[int], int]] = []
        self.starts: list[tuple[int, int, int]] = []
        self._submitted: list[int] = []
        self._ended: list[int] = []

    def submit(self, job: int, now_ns: int) -> None:
        self._submitted.append(job)
        super().submit(job, now_ns)

    def end(self, job: int, now_ns: int) -> None:
        self._ended.append(job)
        super().end(job, now_ns)

    def decide(self, now_ns: int) -> Decision:
        self.seen.append((now_ns, self._submitted, self._ended, self._site.spendable_uw))
        self._submitted, self._ended = [], []
        decision = super().decide(now_ns)
        self.starts += [(now_ns, number, size) for number, size, *_ in decision.changes]
        return decision
