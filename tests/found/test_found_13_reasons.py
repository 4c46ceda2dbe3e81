"""The displayed reason comes from the policy, names holders, costs and lenders, and is cheap.

The matrix of situations over every policy is in `contract/policies/test_reasons.py`.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from property.policies.test_policy_properties import random_snapshot
from unit.adapters.in_place import InPlaceWorker
from unit.core.stage import Stage
from unit.policies.snapshots import S, faults, held, job, node, snapshot
from unit.policies.training_jobs import gpu_node, runs, training

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.door.ownership import public
from wattfold.coordinator.adapters.planning import Planner
from wattfold.coordinator.cli.jobs.lists.job_sheet import job_sheet
from wattfold.coordinator.cli.jobs.lists.waiting import describe
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import Policy, Snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.in_turn import InTurn
from wattfold.coordinator.policies.driver.shortage import shortage
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.port import Scheduled
from wattfold.coordinator.policies.reasons.explain import explain
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.training.due_outlook import Outlooks, Used
from wattfold.v1 import coordinator_pb2 as pb


def policy_of(name: str, **settings: Any) -> Policy:
    entry = registry.find(name)
    assert entry is not None
    return entry.service(settings)


# ---- the policy's own reason -------------------------------------------------------------------


def gpu_site() -> Snapshot:
    """A GPU that a more urgent training job has."""
    has = training("urgent", {("V100", 1): 100}, due_s=150, high=1, weight=50)
    waits = training("patient", {("V100", 1): 100}, due_s=1000, high=1)
    urgent = runs(has, "n0", ("0",), total_s=100)
    return snapshot([gpu_node("n0", gpus=1)], [urgent, waits], budget_w=1000, now_s=10)


@pytest.mark.parametrize("name", ["andreas", "edf"])
def test_a_postponed_job_is_not_said_to_lack_a_gpu(name: str) -> None:
    plan = policy_of(name).propose(gpu_site(), 10 * S, 5.0)
    (told,) = plan.waiting
    assert told.job_id == "patient"
    assert told.reason == "postponed because other jobs are more urgent in the current plan"


def test_easy_keeps_its_word_and_adds_what_lacks() -> None:
    machine = [node("n0", memory=4 << 30)]
    first = job("a", 1, 1, kind=JobKind.RIGID, memory_bytes=3 << 30, current=None)
    has = replace(first, current=held("a", "n0:0"), started_ns=0)
    share = replace(has.current.shares[0], memory_bytes=3 << 30)  # type: ignore[union-attr]
    has = replace(has, current=replace(has.current, shares=(share,)))  # type: ignore[type-var]
    waits = job("b", 1, 1, kind=JobKind.RIGID, memory_bytes=3 << 30)
    (told,) = FifoEasy().propose(snapshot(machine, [has, waits], now_s=1), S, 5.0).waiting
    assert told.reason == ("first in the queue; needs 3 GiB of memory on a node: 1 GiB free on n0")


def test_free_cores_without_watts_are_no_room() -> None:
    """Two units would fit by cores and GPUs, but there is no power for either."""
    machine = [gpu_node("n0", gpus=2)]
    waits = job("w", 1, 1, kind=JobKind.RIGID, unit=SizeUnit.UNITS, unit_cores=2)
    fixed_w = machine[0].fixed_uw / 1e6
    seen = snapshot(machine, [waits], budget_w=fixed_w + 1)
    short = shortage(seen, seen.jobs[0], FifoEasy())
    assert short is not None
    assert short.lacks.endswith("above idle, 1.0 W free")
    told = explain(seen, JobId("w"), FifoEasy(), "first in the queue").lines
    assert f"It {short.lacks}." in told
    assert not any("fit now" in line for line in told)


def test_holders_are_those_on_the_place_that_comes_free_first() -> None:
    """A job that ends early next to a long job makes no room for whole nodes."""
    nodes = [node(f"n{index}") for index in range(4)]
    places = {"a": ("n0", 90), "b": ("n1", 30), "c": ("n2", 60)}
    running = [
        job(
            name,
            1,
            1,
            unit=SizeUnit.NODES,
            kind=JobKind.RIGID,
            started_s=0,
            current=held(name, place, total_s=total_s),
        )
        for name, (place, total_s) in places.items()
    ]
    short_one = job("d", 1, 1, started_s=0, current=held("d", "n3:0", total_s=10))
    long_one = job("e", 1, 1, started_s=0, current=held("e", "n3:1", total_s=500))
    waits = job("w", 2, 2, unit=SizeUnit.NODES, kind=JobKind.RIGID)
    seen = snapshot(nodes, [*running, short_one, long_one, waits])
    short = shortage(seen, waits, FifoEasy())
    assert short is not None
    assert (short.lacks, short.holders) == ("needs 2 nodes, none free", ("b", "c"))
    assert short.until_ns == 60 * S
    late = [replace(view, over_ns=5 * S) if view.job_id == "b" else view for view in seen.jobs]
    short = shortage(snapshot(nodes, late), waits, FifoEasy())
    assert short is not None
    assert short.until_ns == 0, "nobody knows when a job beyond its estimate ends"


def test_a_follower_of_a_job_is_told_no_line_for_every_second() -> None:
    """`submit --wait` prints a line after a change, but not for a changed expected start alone."""
    lines = {
        describe(pb.Job(state=pb.JOB_STATE_PENDING, reason=f"first; held by job 1 until {at}"))
        for at in ("12:00:01", "12:00:02")
    }
    assert lines == {"pending (first)"}


# ---- fallbacks, warm-up ------------------------------------------------------------------------


def test_the_last_fallback_keeps_what_runs_and_all_limits() -> None:
    for seed in range(300):
        seen = random_snapshot(seed)
        plan = InTurn().propose(seen, seen.now_ns, 1.0)
        assert faults(plan, seen) == [], seed
        given = {one.job_id: one for one in plan.assignments}
        assert all(given[v.job_id] == v.current for v in seen.jobs if v.current is not None)
        named = given.keys() | {one.job_id for one in plan.waiting}
        assert named == {view.job_id for view in seen.jobs}


def test_the_last_fallback_lets_nobody_overtake() -> None:
    jobs = [
        job("a", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, submitted_s=0),
        job("b", 2, 2, unit=SizeUnit.NODES, kind=JobKind.RIGID, submitted_s=1),
        job("c", 1, 1, unit=SizeUnit.NODES, kind=JobKind.RIGID, submitted_s=2),
    ]
    seen = snapshot([node("n0"), node("n1")], jobs)
    plan = InTurn().propose(seen, 0, 1.0)
    assert [one.job_id for one in plan.assignments] == ["a"]
    assert [one.job_id for one in plan.waiting] == ["b", "c"]


class Broken(FifoEasy):
    """Fails in every round."""

    def scheduler(self) -> Any:
        raise ValueError("it is broken")


def test_a_failure_is_in_the_record_of_the_round() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    posted: list[ev.Event] = []

    async def go() -> None:
        feed = ReplicaFeed(InPlaceWorker(), lambda: stage.core.state, for_planning)
        no_residual: dict[NodeId, CpuSet] = {}
        planner = Planner(
            Broken(), feed, lambda: stage.now_ns, lambda: no_residual, posted.append, 1.0
        )
        planner.perform(act.Solve(round=stage.core.state.solving, cause=""))
        while not posted:
            await asyncio.sleep(0)
        await planner.close()

    asyncio.run(go())
    (event,) = posted
    assert isinstance(event, ev.PlanProposed)
    assert event.round.failure == (
        "policy fifo-easy failed (ValueError('it is broken')); in-turn plans in its place"
    )
    stage.now_ns += S
    stage.send(event)
    assert stage.core.state.failing_since_ns == S
    assert stage.core.state.last_round is not None


@pytest.mark.parametrize("name", ["parm-wse", "pbs-walltime"])
def test_after_the_warm_up_a_round_loads_nothing(name: str) -> None:
    """In a new process, as the planning worker is.

    Other processes compile loops in a thread meanwhile.
    """
    script = f"""
import sys
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.warm_up import example, warm_up
policy = registry.find({name!r}).service({{}})
before = set(sys.modules)
warm_up(policy)
after = set(sys.modules)
assert policy.propose(example(), 10**9, 5.0).assignments
print(len(after - before), sorted(set(sys.modules) - after))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded, more = done.stdout.split(maxsplit=1)
    assert int(loaded) > 0
    assert more.strip() == "[]"


# ---- due dates ---------------------------------------------------------------------------------


def test_a_running_job_that_will_be_late_costs_energy_and_tardiness() -> None:
    """Half of 100 s remains at now = 60; due at 80; 0.01 kWh so far at 0.2 EUR/kWh and PUE 1."""
    policy = policy_of("andreas", price_eur_per_kwh=0.2, pue=1.0, late_eur_per_h=36.0)
    view = training("a", {("V100", 1): 100}, due_s=80, high=1, weight=2)
    view = replace(runs(view, "n0", ("0",), total_s=100, started_s=10), done=0.5)
    seen = snapshot([gpu_node("n0")], [view], budget_w=1000, now_s=60)
    found = Outlooks(seen, policy).of(view, Used(energy_j=36_000, since_ns=10 * S))
    assert found is not None
    assert (found.ends_ns, found.late_s, found.at_the_earliest) == (110 * S, 30.0, False)
    assert found.so_far_eur == pytest.approx(0.01 * 0.2)
    # 720 W for 50 s, and 30 s late at 36 EUR/h for weight 2.
    assert found.to_come_eur == pytest.approx(720 * 50 / 3.6e6 * 0.2 + 30 * 36 * 2 / 3600)
    late = replace(seen, now_ns=90 * S)
    after = Outlooks(late, policy).of(view, Used(energy_j=36_000, since_ns=10 * S))
    assert after is not None
    assert after.so_far_eur == pytest.approx(0.01 * 0.2 + 10 * 36 * 2 / 3600)
    # 450 W on average for 50 s more, and 50 of the 60 s of its delay are ahead.
    assert after.to_come_eur == pytest.approx(450 * 50 / 3.6e6 * 0.2 + 50 * 36 * 2 / 3600)


def test_a_waiting_job_ends_at_the_earliest_in_its_fastest_configuration() -> None:
    policy = policy_of("andreas")
    view = training("a", {("V100", 1): 100, ("V100", 2): 60}, due_s=70, high=2)
    seen = snapshot([gpu_node("n0")], [view], budget_w=1000, now_s=20)
    found = Outlooks(seen, policy).of(view, Used())
    assert found is not None
    assert (found.ends_ns, found.late_s, found.at_the_earliest) == (80 * S, 10.0, True)
    assert found.so_far_eur == 0.0
    assert found.to_come_eur
    known = Outlooks(seen, policy).of(view, Used(), start_ns=50 * S)
    assert known is not None
    assert (known.ends_ns, known.at_the_earliest) == (110 * S, False)
    assert Outlooks(seen, FifoEasy()).of(view, Used()).so_far_eur is None  # type: ignore[union-attr]


def test_a_job_without_a_due_date_has_no_outlook() -> None:
    view = training("a", {("V100", 1): 100})
    seen = snapshot([gpu_node("n0")], [view], budget_w=1000)
    assert Outlooks(seen, policy_of("andreas")).of(view, Used()) is None


def test_the_sheet_shows_the_outlook_and_the_lent_cores_and_others_see_neither() -> None:
    shown = pb.Job(job_id="7", state=pb.JOB_STATE_RUNNING)
    shown.due.late_s, shown.due.has_costs, shown.due.so_far_eur = 90.0, True, 0.5
    shown.lendings.add(
        lender_job_id="7", guest_job_id="9", node_id="n0", cores=4, slowdown=1.25, slowdown_limit=10
    )
    lines = "\n".join(job_sheet(shown, 0.0).lines(10_000, "none") or [])
    assert "1m30s late" in lines
    assert "0.50 EUR so far, 0 EUR more expected" in lines.replace("0.00 EUR", "0 EUR")
    assert "4 cores of n0 to job 9" in lines
    assert "slowdown 1.25, limit 10.00" in lines
    stripped = public(shown)
    assert not stripped.HasField("due")
    assert not stripped.lendings


# ---- lent cores --------------------------------------------------------------------------------


def test_who_lends_to_whom_until_when_and_at_which_slowdown() -> None:
    owner = job("o", 1, 4, time_s=1000, current=held("o", "n0:0-1", total_s=2000), started_s=0)
    guest = job(
        "g",
        1,
        4,
        time_s=100,
        submitted_s=5,
        started_s=10,
        current=held("g", "n0:2-3", total_s=200),
    )
    seen = snapshot([node("n0")], [owner, guest], now_s=10)
    (one,) = SlowdownDriven().lendings(seen)
    assert (one.lender, one.guest, one.node_id, one.cores) == ("o", "g", "n0", 2)
    assert one.until_ns == 210 * S
    # 200 s at half speed cost it 100 s of 1000 s.
    assert one.slowdown == pytest.approx(1.1, abs=0.02)
    assert one.limit == 10.0
    told = explain(seen, JobId("o"), SlowdownDriven(), "").lines
    assert any(
        "It lends 2 cores of n0 to job g until that job ends, in about 3 min (predicted "
        f"slowdown {one.slowdown:.2f}, limit 10.00)." == line
        for line in told
    ), told
    told = explain(seen, JobId("g"), SlowdownDriven(), "").lines
    assert any(line.startswith("Job o lends it 2 cores of n0 until it ends") for line in told)
    assert SlowdownDriven().lendings(snapshot([node("n0")], [owner], now_s=10)) == []


# ---- rounds ------------------------------------------------------------------------------------


def calls_of_a_round(waiting: int) -> int:
    """Number of function calls in a round of equipartition, on nodes whose cores are all in use."""
    policy = policy_of("equipartition")
    assert isinstance(policy, Scheduled)
    nodes = [node(f"n{index}", 8) for index in range(20)]
    running = [
        job(f"r{index}", 8, 8, current=held(f"r{index}", f"n{index}:0-7"), started_s=0)
        for index in range(20)
    ]
    jobs = [job(f"w{index}", 1 + index % 4, 8, submitted_s=1) for index in range(waiting)]
    seen = snapshot(nodes, [*running, *jobs], now_s=2, budget_w=20 * 60)
    profile = cProfile.Profile()
    plan = profile.runcall(policy.propose, seen, seen.now_ns, 5.0)
    assert len(plan.waiting) == waiting
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_a_round_of_equipartition_does_not_try_every_job_on_every_node() -> None:
    """Earlier it took hundreds of calls per waiting job on 20 nodes."""
    few, many = calls_of_a_round(200), calls_of_a_round(600)
    assert (many - few) / 400 < 100
