"""The whole core on a simulated cluster: budget and masks hold under every named fault."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from effort import examples
from simulation.cluster import GPU_W, Cluster, Faults, S, W, node_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.rules.power.unaccounted_power import unaccounted_power
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.fifo.easy_uniform import EasyUniform
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm, ParmVersion
from wattfold.coordinator.policies.parm.settings import ParmSettings

POLICIES: list[Policy] = [
    Parm(ParmSettings(solver="greedy", resize_interval_s=2)),
    Parm(ParmSettings(solver="greedy"), version=ParmVersion.NOSE),
    Parm(ParmSettings(solver="greedy"), version=ParmVersion.NOMM),
    FifoEasy(),
]


def job(
    seconds: int,
    low: int = 1,
    high: int = 4,
    kind: JobKind = JobKind.MALLEABLE,
    mode: ResizeMode = ResizeMode.MASK,
) -> JobSpec:
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds)),
        kind=kind,
        size_min=low,
        size_max=high,
        time_ns=seconds * S,
        mode=mode,
    )


def by_turns(index: int) -> ResizeMode:
    """Every other job is a Charm++ program: its agent checks the maps of all commands."""
    return ResizeMode.MAP if index % 2 else ResizeMode.MASK


def with_gpus(spec: JobSpec, rng: random.Random, gpus: int) -> JobSpec:
    """The job, possibly with GPUs under a cap if nodes have GPUs."""
    if not gpus or rng.random() < 0.4:
        return spec
    return replace(spec, gpus=1, levels=Levels(gpu_uw=rng.randint(3, GPU_W) * W))


def finished(cluster: Cluster) -> bool:
    return all(j.final for j in cluster.core.state.jobs.values())


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_jobs_end_and_the_budget_holds(policy: Policy) -> None:
    nodes = [node_spec(f"n{i}") for i in range(4)]
    cluster = Cluster(nodes, policy, 150 * W)
    for index in range(12):
        cluster.clock.later(index * 3 * S, lambda i=index: cluster.go(str(i), job(10 + i)))
    cluster.run(40 * S)
    cluster.run(600 * S, lambda: finished(cluster))
    states = {j.state for j in cluster.core.state.jobs.values()}
    assert states == {JobState.COMPLETED}
    assert cluster.meter.peak_bound_uw > 120 * W, "the budget should be used, not only kept"


def test_one_cap_feeds_all_nodes_and_follows_the_budget() -> None:
    """76 W idle; 74 W above are 18.5 W per node. Under 112 W it is 9 W, also for running jobs."""
    cluster = Cluster([node_spec(f"n{i}") for i in range(4)], EasyUniform(), 150 * W)
    for index in range(8):
        cluster.go(str(index), job(200, 4, 4, JobKind.RIGID))
    cluster.run(15 * S)
    running = [j for j in cluster.core.state.jobs.values() if j.state is JobState.RUNNING]
    assert [j.target.cap_uw for j in running if j.target] == [27_500_000] * 4
    assert cluster.meter.peak_bound_uw == 150 * W
    cluster.set_budget(112 * W, 15 * S)
    cluster.run(40 * S)
    assert [j.target.cap_uw for j in running if j.target] == [18 * W] * 4
    assert cluster.core.state.ledger.committed_uw == 112 * W
    cluster.run(2000 * S, lambda: finished(cluster))
    assert {j.state for j in cluster.core.state.jobs.values()} == {JobState.COMPLETED}


@pytest.mark.parametrize("mode", [ResizeMode.MASK, ResizeMode.MAP])
def test_wse_shrinks_for_newcomers_and_expands_again(mode: ResizeMode) -> None:
    cluster = Cluster([node_spec("n0")], POLICIES[0], 60 * W)
    cluster.go("a", job(1000, mode=mode))
    cluster.run(5 * S)
    first = cluster.core.state.jobs[JobId("a")]
    assert len(first.ranks["n0"].held) == 4
    cluster.go("b", job(1000))
    cluster.run(10 * S)
    assert len(first.ranks["n0"].held) < 4
    assert cluster.core.state.jobs[JobId("b")].state is JobState.RUNNING
    cluster.post(ev.JobCancelRequested(job_id=JobId("b")))
    cluster.run(20 * S)
    assert len(first.ranks["n0"].held) == 4
    assert first.resizes >= 2


@pytest.mark.parametrize("seed", range(examples(24)))
def test_faults_never_break_budget_or_masks(seed: int) -> None:
    rng, gpus = random.Random(seed), seed // 4 % 2
    nodes = [node_spec(f"n{i}", cores=rng.choice([2, 4, 8]), gpus=gpus) for i in range(4)]
    cluster = Cluster(
        nodes,
        POLICIES[seed % len(POLICIES)],
        (rng.randint(140, 220) + 4 * gpus * GPU_W) * W,
        seed,
        Faults(lose=0.08, delay_ns=200_000_000),
    )
    for index in range(20):
        kind = rng.choice(list(JobKind)[1:])
        at_ns = rng.randint(0, 60) * S
        spec = with_gpus(job(rng.randint(2, 30), 1, 2, kind, by_turns(index)), rng, gpus)
        cluster.clock.later(at_ns, lambda i=index, s=spec: cluster.go(str(i), s))
    for _ in range(4):
        node, at_ns, for_ns = f"n{rng.randint(0, 3)}", rng.randint(5, 60) * S, rng.randint(1, 15)
        cluster.clock.later(at_ns, lambda n=node, f=for_ns: cluster.cut(NodeId(n), f * S))
    cluster.clock.later(25 * S, lambda: cluster.kill_coordinator(rng.randint(1, 12) * S))
    cluster.clock.later(50 * S, lambda: cluster.set_budget(cluster.budget_uw - 20 * W, 15 * S))
    cluster.run(61 * S)
    cluster.run(2000 * S, lambda: finished(cluster))
    for j in cluster.core.state.jobs.values():
        assert j.state is JobState.COMPLETED, (j.job_id, j.state, j.message, j.reason)
    assert cluster.clashes == 0, "only a late command may ask for cores that are held"


@pytest.mark.parametrize("seed", range(examples(24)))
def test_late_and_doubled_messages_lying_zones_and_dead_agents(seed: int) -> None:
    rng, gpus = random.Random(1000 + seed), seed // 4 % 2
    cluster = Cluster(
        [node_spec(f"n{i}", cores=rng.choice([2, 4, 8]), gpus=gpus) for i in range(4)],
        POLICIES[seed % len(POLICIES)],
        (rng.randint(120, 200) + 4 * gpus * GPU_W) * W,
        seed,
        Faults(lose=0.05, late=0.05, double=0.05, refuse=0.02, delay_ns=200_000_000),
    )
    for index in range(25):
        kind = rng.choice(list(JobKind)[1:])
        spec = with_gpus(job(rng.randint(2, 30), 1, 2, kind, by_turns(index)), rng, gpus)
        cluster.clock.later(rng.randint(0, 60) * S, lambda i=index, s=spec: cluster.go(str(i), s))
    for _ in range(4):
        node, at_ns = f"n{rng.randint(0, 3)}", rng.randint(5, 70) * S
        for_ns = rng.randint(1, 10) * S
        dead_ns = min(for_ns, 4 * S)
        fault = rng.choice(
            [
                lambda n=node, f=for_ns: cluster.cut(NodeId(n), f),
                lambda n=node, f=dead_ns: cluster.kill_agent(NodeId(n), f),
                lambda n=node: cluster.cut(NodeId(n), S // 10),
            ]
        )
        cluster.clock.later(at_ns, fault)
    for at_s in (20, 45):
        away_ns = rng.choice([S // 20, S, 8 * S])
        cluster.clock.later(at_s * S, lambda a=away_ns: cluster.kill_coordinator(a))
    for _ in range(3):
        name = JobId(str(rng.randint(0, 24)))
        cluster.clock.later(
            rng.randint(61, 70) * S,
            lambda n=name: cluster.post(ev.JobCancelRequested(job_id=n)),
        )
    cluster.run(75 * S)
    cluster.run(3000 * S, lambda: finished(cluster))
    sent = {name for a in cluster.actions if isinstance(a, act.SetCaps) for name, _ in a.caps}
    assert bool(gpus) == any(name.startswith("gpu-") for name in sent)
    ends = {j.state for j in cluster.core.state.jobs.values()}
    assert ends <= {JobState.COMPLETED, JobState.CANCELLED}


def test_replay_gives_the_same_state() -> None:
    cluster = Cluster([node_spec("n0"), node_spec("n1")], POLICIES[0], 100 * W)
    for index in range(5):
        cluster.go(str(index), job(5 + index))
    cluster.run(8 * S)
    fresh = CoordinatorCore(100 * W, cluster.core.state.settings)
    for event, time_ns in cluster.journal:
        fresh.handle(event, time_ns)
    assert fresh.state == cluster.core.state


def test_a_lower_budget_is_kept_within_its_deadline() -> None:
    cluster = Cluster([node_spec(f"n{i}") for i in range(4)], POLICIES[0], 200 * W)
    for index in range(6):
        cluster.go(str(index), job(100))
    cluster.run(10 * S)
    assert cluster.core.state.ledger.committed_uw > 150 * W
    cluster.set_budget(110 * W, 2 * S)
    cluster.run(12 * S)
    assert cluster.core.state.ledger.committed_uw <= 110 * W
    cluster.run(60 * S)


def test_a_node_that_does_not_fit_is_refused_and_the_others_go_on_when_it_is_accepted() -> None:
    cluster = Cluster([node_spec("n0"), node_spec("n1", base_w=80)], POLICIES[0], 60 * W)
    cluster.go("a", job(3))
    cluster.run(60 * S, lambda: finished(cluster))
    assert cluster.core.state.jobs[JobId("a")].state is JobState.PENDING, "n1 draws all there is"
    accepted_uw = unaccounted_power(cluster.core.state).drawn_uw
    cluster.post(ev.BudgetChanged(budget_uw=60 * W, accepted_outside_uw=accepted_uw))
    cluster.run(120 * S, lambda: finished(cluster))
    assert cluster.core.state.jobs[JobId("a")].state is JobState.COMPLETED
    refused = cluster.core.state.nodes["n1"]
    assert not refused.admitted
    assert "exceed the free budget" in refused.message


def test_a_retired_node_goes_when_its_lease_is_over_and_its_jobs_are_lost() -> None:
    cluster = Cluster([node_spec("n0"), node_spec("n1")], POLICIES[0], 120 * W)
    for index in range(2):
        cluster.go(str(index), job(500, 4, 4, JobKind.RIGID))
    cluster.run(5 * S)
    assert {j.state for j in cluster.core.state.jobs.values()} == {JobState.RUNNING}
    cluster.agents[NodeId("n1")].connected = False
    cluster.post(ev.NodeRetired(node_id=NodeId("n1")))
    cluster.run(8 * S)
    assert "n1" in cluster.core.state.nodes, "its lease may still hold"
    cluster.run(30 * S)
    assert "n1" not in cluster.core.state.nodes
    assert "n1" not in cluster.core.state.ledger.accounts
    states = sorted(j.state.value for j in cluster.core.state.jobs.values())
    assert states == ["lost", "running"]


def test_a_job_submitted_while_another_starts_gets_its_share() -> None:
    cluster = Cluster([node_spec("n0")], POLICIES[0], 60 * W)
    cluster.messages.faults = Faults(delay_ns=2 * S)
    cluster.go("a", job(1000))
    cluster.run(1 * S)
    cluster.go("b", job(1000))
    cluster.run(25 * S)
    assert cluster.core.state.jobs[JobId("b")].state is JobState.RUNNING


@pytest.mark.parametrize("seed", range(4))
def test_jobs_with_launchers_of_their_own_end_with_their_first_node(seed: int) -> None:
    """Even if messages are lost, the processes on other nodes run until they are ended."""
    faults = Faults(lose=0.08, delay_ns=200_000_000)
    cluster = Cluster([node_spec(f"n{i}") for i in range(4)], FifoEasy(), 200 * W, seed, faults)
    for index in range(4):
        spec = JobSpec(
            name="sim",
            app="sim",
            argv=("run", "20"),
            unit=SizeUnit.NODES,
            size_min=2,
            size_max=2,
            time_ns=20 * S,
            own_launcher=True,
        )
        cluster.go(str(index), spec)
    cluster.run(600 * S, lambda: finished(cluster))
    states = {j.job_id: (j.state, j.message) for j in cluster.core.state.jobs.values()}
    assert {state for state, _ in states.values()} == {JobState.COMPLETED}, states
    cluster.run(cluster.clock.now_ns + 30 * S)
    assert not [agent.running for agent in cluster.agents.values() if agent.running]


@pytest.mark.parametrize("seed", range(examples(24)))
def test_announced_budgets_are_kept_from_the_first_instant_on(seed: int) -> None:
    """`SimulatedCluster` compares the possible power of nodes with the budget at every instant,
    without grace. Nodes are cut off, and agents and the coordinator are killed, even while caps are
    falling.
    """
    rng = random.Random(2000 + seed)
    cluster = Cluster(
        [node_spec(f"n{i}", cores=rng.choice([2, 4, 8])) for i in range(4)],
        POLICIES[seed % len(POLICIES)],
        200 * W,
        seed,
        Faults(lose=0.05, late=0.03, double=0.05, delay_ns=200_000_000),
    )
    for index in range(24):
        kind = rng.choice(list(JobKind)[1:])
        spec = job(rng.randint(5, 40), 1, 2, kind, by_turns(index))
        cluster.clock.later(rng.randint(0, 90) * S, lambda i=index, s=spec: cluster.go(str(i), s))
    times_s = sorted(rng.sample(range(30, 150), 5))
    for at_s in times_s:
        budget_w = rng.choice([85, 100, 130, 160, 200])
        said_ns = rng.randint(1, max(at_s - 25, 1)) * S
        cluster.clock.at(said_ns, lambda a=at_s, b=budget_w: cluster.announce_budget(b * W, a * S))
    for _ in range(4):
        node, before_s = NodeId(f"n{rng.randint(0, 3)}"), rng.uniform(0, 18)
        fault = rng.choice([cluster.cut, cluster.kill_agent])
        at_ns, for_ns = round((rng.choice(times_s) - before_s) * S), rng.randint(1, 20) * S
        cluster.clock.at(max(at_ns, S), lambda n=node, f=for_ns, do=fault: do(n, f))
    for at_s in rng.sample(times_s, 2):
        away_ns = rng.choice([S, 8 * S, 30 * S])
        cluster.clock.at(
            round((at_s - rng.uniform(0, 15)) * S), lambda a=away_ns: cluster.kill_coordinator(a)
        )
    cluster.run(160 * S)
    cluster.run(3000 * S, lambda: finished(cluster))
    assert cluster.core.state.announcements > 0
    assert not cluster.core.state.announced
    assert cluster.core.state.ledger.budget_uw == cluster.budget_uw
