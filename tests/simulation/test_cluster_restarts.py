"""Jobs resized by restarts, on a cluster: the cost of restarts, and no lost work."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from effort import examples
from simulation.cluster import Cluster, Faults, S, W, node_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.simulator.messages.agent import Agent
from wattfold.simulator.messages.restarts import RestartTimes

TIMES = RestartTimes(save_ns=3 * S, start_ns=4 * S)


def spec(seconds: int, unit: SizeUnit = SizeUnit.NODES, high: int = 3) -> JobSpec:
    """A job with this run time on one node or one core."""
    cores = 4 if unit is SizeUnit.NODES else 1
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds * cores)),
        kind=JobKind.MALLEABLE,
        mode=ResizeMode.RESTART,
        unit=unit,
        size_min=1,
        size_max=high,
        time_ns=seconds * S,
        snapshot_grace_ns=60 * S,
    )


class Watched(Cluster):
    """Checks at every change whether two attempts of a job are alive at once."""

    def _changed(self, agent: Agent) -> None:
        super()._changed(agent)
        alive: dict[JobId, int] = {}
        for one in self.agents.values():
            for process in one.running:
                first = alive.setdefault(process.job_id, process.attempt)
                assert first == process.attempt, f"two attempts of job {process.job_id} at once"


def cluster(nodes: int = 3, budget_w: int = 200, **fields: object) -> Watched:
    specs = [node_spec(f"n{index}") for index in range(nodes)]
    return Watched(specs, FifoEasy(), budget_w * W, restarts=TIMES, **fields)  # type: ignore[arg-type]


def end_s(one: Cluster) -> float:
    one.run(4000 * S, lambda: bool(one.core.state.jobs) and not one.core.state.open_jobs)
    assert one.core.state.jobs[JobId("a")].state is JobState.COMPLETED
    return one.truth.runs[JobId("a")].totals.end_ns / S


def test_a_restart_is_charged_with_its_stall() -> None:
    """60 s on three nodes: 20 s of them are done there, then 120 s of work remain for one node."""
    still, moved = cluster(), cluster()
    for one in (still, moved):
        one.clock.later(S, partial(one.go, "a", spec(180)))
    moved.clock.later(21 * S, lambda: moved.resize(JobId("a"), 1))
    assert end_s(still) == pytest.approx(61, abs=1)
    assert end_s(moved) == pytest.approx(21 + 7 + 120, abs=2)
    totals = moved.truth.runs[JobId("a")].totals
    assert (totals.first_size, totals.last_size, totals.resizes) == (12, 4, 1)
    assert totals.stalled_ns / S == pytest.approx(7, abs=0.5)
    (cost,) = moved.core.state.restarts.values()
    assert cost.stall_ns / S == pytest.approx(3, abs=0.5)
    assert not still.core.state.restarts


def test_what_is_not_saved_in_time_is_done_again() -> None:
    one = cluster()
    short = replace(spec(180), snapshot_grace_ns=S)
    one.clock.later(S, lambda: one.go("a", short))
    one.clock.later(21 * S, lambda: one.resize(JobId("a"), 2))
    assert end_s(one) == pytest.approx(21 + 1 + 4 + 90, abs=2)
    assert "killed" in one.core.state.jobs[JobId("a")].attempts[0].why


def test_parm_resizes_jobs_on_cores_by_restarts() -> None:
    """A job shrinks for another job with a higher value, and grows again."""
    policy = Parm(ParmSettings(solver="greedy", resize_interval_s=10))
    one = Watched([node_spec("n0", cores=8)], policy, 80 * W, restarts=TIMES)
    worth = replace(spec(120, SizeUnit.CORES, 8), priority=20.0)
    one.clock.later(S, lambda: one.go("a", spec(800, SizeUnit.CORES, 8)))
    one.clock.later(40 * S, lambda: one.go("b", worth))
    one.run(4000 * S, lambda: one.submitted == 2 and not one.core.state.open_jobs)
    jobs = one.core.state.jobs.values()
    assert {job.state for job in jobs} == {JobState.COMPLETED}
    first = one.core.state.jobs[JobId("a")]
    assert [attempt.resized for attempt in first.attempts] == [True, True], "less, and more again"
    assert not one.clashes


def whole_node_jobs(policy: Parm, others: int = 0) -> Watched:
    """A job on four nodes, and later a job with a higher value that could use three of them.

    The other nodes are of another kind, and a job occupies them all the time.
    """
    specs = [node_spec(f"n{index}") for index in range(4)]
    specs += [node_spec(f"o{index}", cores=8) for index in range(others)]
    one = Watched(specs, policy, (220 + 90 * others) * W, restarts=TIMES)
    worth = replace(spec(300), priority=20.0)
    always = replace(
        spec(20_000, SizeUnit.CORES, 8), size_min=8, kind=JobKind.RIGID, mode=ResizeMode.MASK
    )
    for index in range(others):
        one.clock.later(S // 2, partial(one.go, f"o{index}", replace(always, priority=1e3)))
    one.clock.later(S, lambda: one.go("a", spec(2000, high=4)))
    one.clock.later(40 * S, lambda: one.go("b", worth))
    open_jobs = one.core.state.index.open
    one.run(9000 * S, lambda: one.submitted == 2 + others and not open_jobs)
    assert {job.state for job in one.core.state.jobs.values()} == {JobState.COMPLETED}
    assert not one.clashes
    return one


@pytest.mark.parametrize("solver", ["greedy", "lagrangian"])
@pytest.mark.parametrize("others", [0, 1])
def test_parm_resizes_jobs_on_whole_nodes_by_restarts(solver: str, others: int) -> None:
    one = whole_node_jobs(Parm(ParmSettings(solver=solver, resize_interval_s=10)), others)
    first = one.core.state.jobs[JobId("a")]
    assert [attempt.resized for attempt in first.attempts] == [True, True], "less, and more again"
    assert one.truth.runs[JobId("a")].totals.resizes == 2
    second = one.truth.runs[JobId("b")].totals
    assert second.start_ns < 60 * S, "it did not have to wait for the end of the first"


def test_parm_leaves_a_job_alone_for_which_a_restart_costs_more_than_it_gains() -> None:
    one = Watched(
        [node_spec("n0"), node_spec("n1")],
        Parm(ParmSettings(solver="greedy", resize_interval_s=1)),
        200 * W,
    )
    one.clock.later(S, lambda: one.go("b", replace(spec(40, high=1), priority=5.0)))
    one.clock.later(2 * S, lambda: one.go("a", spec(50, high=2)))
    one.run(4000 * S, lambda: one.submitted == 2 and not one.core.state.open_jobs)
    # The first restart is expected to take 60 s, longer than the rest of the job.
    assert not one.core.state.jobs[JobId("a")].attempts


@pytest.mark.parametrize("seed", range(examples(15)))
def test_orders_losses_and_faults_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    faults = Faults(lose=0.05, late=0.05, double=0.05, refuse=0.02, delay_ns=200_000_000)
    unlike = (4, 4, 4, 4) if seed < 6 else (4, 8, 4, 8)
    specs = [node_spec(f"n{index}", cores=cores) for index, cores in enumerate(unlike)]
    policy = Parm(ParmSettings(solver="greedy", resize_interval_s=3)) if seed % 2 else FifoEasy()
    one = Watched(specs, policy, 190 * W, seed, faults, TIMES)
    for index in range(5):
        unit = rng.choice([SizeUnit.CORES, SizeUnit.NODES])
        job = spec(rng.randint(20, 90), unit, 3)
        one.clock.later(rng.randint(1, 9) * S, partial(one.go, str(index), job))
    for _ in range(25):
        at_ns = rng.randint(5 * S, 120 * S)
        job_id, size = JobId(str(rng.randrange(5))), rng.randint(0, 3)
        one.clock.later(at_ns, partial(one.resize, job_id, size))
    for happen in (one.cut, one.kill_agent, one.stop_agent):
        node = NodeId(f"n{rng.randrange(4)}")
        one.clock.later(rng.randint(10, 60) * S, partial(happen, node, rng.randint(1, 8) * S))
    one.clock.later(rng.randint(15, 60) * S, lambda: one.kill_coordinator(3 * S))
    one.clock.later(125 * S, lambda: [one.resize(JobId(str(job)), 0) for job in range(5)])
    one.run(9000 * S, lambda: one.submitted >= 4 and not one.core.state.open_jobs)
    assert not one.core.state.open_jobs
    assert not one.clashes
    for job in one.core.state.jobs.values():
        # Its end report can be lost with a killed agent; its work is never cut short.
        assert job.state is JobState.COMPLETED, job
        assert one.truth.runs[job.job_id].done >= 0.999
    assert any(job.attempts for job in one.core.state.jobs.values())
    again = CoordinatorCore(190 * W, CoreSettings(check_every=1))
    for event, now_ns in one.journal:
        again.handle(event, now_ns)
    assert again.state == one.core.state
