"""Slowdown-driven and power, over random sites: properties that hold for every setting."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from property.policies.worlds import World
from unit.policies.snapshots import S, W, held, job, node, snapshot

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Plan, Snapshot
from wattfold.coordinator.core.power.charge import assigned_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings

AMPLE_W = 1e6


class Sharers(World):
    """Most submitted jobs share and request the maximum size."""

    def submit(self) -> None:
        super().submit()
        rng, name = self.rng, f"j{self.submitted}"
        if rng.random() < 0.2:
            return
        whole = self.counted or rng.random() < 0.5
        size = rng.randint(1, len(self.nodes)) if whole else 4
        self.put(
            job(
                name,
                size if whole else 1,
                size,
                kind=rng.choice([JobKind.MALLEABLE, JobKind.MALLEABLE, JobKind.MOLDABLE]),
                unit=SizeUnit.NODES if whole else SizeUnit.CORES,
                sharing=CoreSharing.BOTH,
                time_s=rng.choice([20, 400, 4000]),
                profile=self.profile(),
                submitted_s=self.now_s,
                cap_uw=rng.choice([0, 0, 30]) * W,
            )
        )


def power_uw(seen: Snapshot, assignments: list[Assignment]) -> int:
    specs = [view.spec for view in seen.nodes]
    return sum(assigned_uw(one, specs) for one in assignments)


def planned(seen: Snapshot, power: PowerSharing, **more: object) -> Plan:
    return SlowdownDriven(SharingSettings(power=power, **more)).propose(seen, seen.now_ns, 1.0)  # type: ignore[arg-type]


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 10**9),
    counted=st.booleans(),
    power=st.sampled_from(list(PowerSharing)),
    free_nodes=st.booleans(),
)
def test_no_plan_is_above_the_budget_and_watts_lowers_no_cap(
    seed: int, counted: bool, power: PowerSharing, free_nodes: bool
) -> None:
    world = Sharers(random.Random(seed), counted)
    for _ in range(12):
        world.step()
        seen = world.snapshot
        plan = planned(seen, power, free_nodes=free_nodes)
        held = {view.job_id: view.current for view in seen.jobs if view.current}
        before_uw = power_uw(seen, list(held.values()))
        # Running jobs keep their power after a budget cut, and nothing is added.
        assert power_uw(seen, list(plan.assignments)) <= max(seen.spendable_uw, before_uw)
        for one in plan.assignments:
            view = next(view for view in seen.jobs if view.job_id == one.job_id)
            current = held.get(one.job_id)
            if view.spec.cap_uw and current:
                assert one.cap_uw == current.cap_uw, "its user has asked for this one"
            if power is not PowerSharing.ANY and current:
                assert one.cap_uw >= current.cap_uw
        world.take(plan)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), counted=st.booleans())
def test_with_power_for_all_power_is_no_matter(seed: int, counted: bool) -> None:
    world = Sharers(random.Random(seed), counted)
    for _ in range(10):
        world.step()
        world.budget_w, world.reserved_w = AMPLE_W, 0.0
        seen = world.snapshot
        plan = planned(seen, PowerSharing.WATTS)
        assert plan == planned(seen, PowerSharing.ANY)
        world.take(plan)


def tight_site(seed: int) -> Snapshot:
    """Mates at low caps, free nodes, a waiting job, and little power for all of them."""
    rng = random.Random(seed)
    whole: dict[str, Any] = {"unit": SizeUnit.NODES, "sharing": CoreSharing.BOTH}
    nodes = [node(f"n{i}", 8) for i in range(4)]
    jobs, used_w = [], 0.0
    for i in range(rng.randint(1, 3)):
        cap_w = rng.choice([20, 30, 45])
        own = {"cap_uw": cap_w * W} if rng.random() < 0.2 else {}
        current = replace(held(f"r{i}", f"n{i}:0-7", cap_w=cap_w, total_s=4000), size=1)
        times = {"time_s": 4000, "started_s": 0, "done": 0.1, "submitted_s": 0}
        jobs.append(job(f"r{i}", 1, 1, current=current, **times, **whole, **own))
        used_w += cap_w - 16
    size = rng.randint(1, 4)
    jobs.append(job("guest", size, size, time_s=10, submitted_s=300, **whole))
    spare_w = rng.choice([0, 5, 20, 60])
    return snapshot(nodes, jobs, budget_w=4 * 26 + used_w + spare_w, now_s=400)


SETTINGS = {"free_nodes": True, "mates": 4, "max_slowdown": 1e6}


@settings(max_examples=examples(300))
@given(seed=st.integers(0, 10**9), power=st.sampled_from(list(PowerSharing)))
def test_where_watts_are_few_no_plan_is_above_the_budget(seed: int, power: PowerSharing) -> None:
    seen = tight_site(seed)
    plan = planned(seen, power, **SETTINGS)
    assert power_uw(seen, list(plan.assignments)) <= seen.spendable_uw
    for view, one in ((v, a) for v in seen.jobs for a in plan.assignments if a.job_id == v.job_id):
        if view.current and (power is not PowerSharing.ANY or view.spec.cap_uw):
            assert one.cap_uw >= view.current.cap_uw


def test_these_sites_have_jobs_that_share_by_lower_caps_alone() -> None:
    lowered = more = 0
    for seed in range(300):
        seen = tight_site(seed)
        held_uw = {view.job_id: view.current.cap_uw for view in seen.jobs if view.current}
        by = {power: planned(seen, power, **SETTINGS).assignments for power in PowerSharing}
        lowered += any(one.cap_uw < held_uw.get(one.job_id, 0) for one in by[PowerSharing.ANY])
        more += len(by[PowerSharing.ANY]) > len(by[PowerSharing.WATTS])
    assert lowered > 3
    assert more > 5


@pytest.mark.parametrize("power", list(PowerSharing))
def test_caps_come_back_up_when_there_is_power(power: PowerSharing) -> None:
    world = Sharers(random.Random(7), counted=True)
    world.budget_w = AMPLE_W
    world.put(job("a", 2, 2, unit=SizeUnit.NODES, sharing=CoreSharing.BOTH, time_s=100))
    first = planned(world.snapshot, power)
    (given,) = first.assignments
    low = replace(given, cap_uw=20 * W)
    runs = replace(world.views[given.job_id], current=low, started_ns=0, done=0.1)
    world.put(replace(runs, submitted_ns=-10 * S))
    assert planned(world.snapshot, power).assignments[0].cap_uw == given.cap_uw
    world.budget_w = 2 * 10
    raised = planned(world.snapshot, power).assignments[0]
    assert low.cap_uw < raised.cap_uw < given.cap_uw
    assert power_uw(world.snapshot, [raised]) <= world.snapshot.spendable_uw
