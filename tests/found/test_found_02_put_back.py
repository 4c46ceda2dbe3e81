"""A refusal caused by the node costs a job nothing, in the core and in the simulator."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest
from simulation.cluster import Cluster, S, W, node_spec
from unit.core.stage import NODES, Stage, job_spec, on, terminate

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.launch_data import may_start
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, JobSpec, ResizeMode
from wattfold.coordinator.policies.fifo.policy import FifoEasy
from wattfold.coordinator.policies.parm.policy import Parm
from wattfold.coordinator.policies.parm.settings import ParmSettings
from wattfold.nodeagent.adapters.jobs.processes import Failure, refusal
from wattfold.nodeagent.core.errors import InvalidRequest, NodeFault, NotPermitted
from wattfold.nodeagent.service.jobs.starts import Starts
from wattfold.simulator.messages.faults import Faults, Incident, IncidentKind

FULL = "No space left on device"


KINDS = [JobKind.RIGID, JobKind.MALLEABLE]


def sim_spec(seconds: int, cores: int, kind: JobKind) -> JobSpec:
    """A job for the simulator."""
    return JobSpec(
        name="sim",
        app="sim",
        argv=("run", str(seconds)),
        kind=kind,
        size_min=1 if kind is JobKind.MALLEABLE else cores,
        size_max=cores,
        time_ns=seconds * S,
    )


def planned(stage: Stage) -> set[str]:
    """Nodes on which policies may start jobs."""
    return {
        view.spec.node_id
        for view in stage.core.snapshot(stage.now_ns).nodes
        if view.spec.cpus - view.blocked
    }


def starting(stage: Stage, *places: str, **fields: object) -> None:
    stage.submit("a", job_spec(**fields))
    stage.need_plan()
    stage.plan(on("a", *places))
    assert stage.job("a").state is JobState.STARTING


def test_the_job_waits_at_its_place_with_its_attempt_and_the_node_is_closed() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    starting(stage, "n0:0-1")
    stage.submit("b")
    stage.refused_by_node("n0", "a", FULL)
    job = stage.job("a")
    assert (job.state, job.attempt, job.attempts) == (JobState.PENDING, 1, ())
    assert job.reason == f"node n0 cannot start jobs: {FULL}"
    assert [view.job_id for view in stage.core.snapshot(0).jobs] == ["a", "b"]
    assert planned(stage) == {"n1"}
    assert stage.core.state.solving
    stage.plan(on("a", "n0:0-1"))
    assert "cannot start jobs" in stage.job("a").reason
    assert stage.job("a").state is JobState.PENDING
    stage.need_plan()
    stage.plan(on("a", "n1:0-1"))
    stage.launched("n1", "a")
    assert (stage.job("a").state, stage.job("a").attempt) == (JobState.RUNNING, 1)
    stage.fault("n0", "")
    assert planned(stage) == {"n0", "n1"}


def test_jobs_run_on_where_others_cannot_start() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("r", "n0:0-1")
    stage.fault("n0", FULL)
    assert not stage.core.state.nodes[NodeId("n0")].takes_jobs
    assert stage.job("r").state is JobState.RUNNING
    assert [view.job_id for view in stage.core.snapshot(0).jobs] == ["r"]
    stage.process_ended("n0", "r")
    assert stage.job("r").state is JobState.COMPLETED


def test_what_was_to_start_there_and_has_not_is_put_back() -> None:
    stage = Stage()
    stage.up("n0")
    stage.run_job("r", "n0:0-3")
    stage.submit("a")
    stage.need_plan()
    stage.plan(on("r", "n0:0-1"), on("a", "n0:2-3"))
    assert stage.job("a").state is JobState.STARTING
    assert not stage.job("a").ranks
    stage.fault("n0", FULL)
    assert (stage.job("a").state, stage.job("a").target) == (JobState.PENDING, None)


def test_a_node_tells_it_when_it_connects_and_an_order_leaves_it_closed() -> None:
    stage = Stage()
    stage.up("n0")
    stage.fault("n0", FULL)
    stage.order("n0", NodeOrder.DRAIN)
    stage.order("n0", NodeOrder.RESUME)
    assert not planned(stage)
    stage.silent("n0")
    stage.connect("n0")
    assert planned(stage) == {"n0"}


@pytest.mark.parametrize("requeue_max", [0, 3])
@pytest.mark.parametrize("own_launcher", [False, True])
@pytest.mark.parametrize(("full", "other"), [("n0", "n1"), ("n1", "n0")])
def test_of_a_job_on_two_nodes_the_other_part_is_ended_first(
    full: str, other: str, own_launcher: bool, requeue_max: int
) -> None:
    stage = Stage()
    stage.up("n0", "n1")
    fields = {"low": 2, "high": 2, "unit": NODES, "requeue_max": requeue_max}
    starting(stage, "n0", "n1", own_launcher=own_launcher, **fields)
    stage.launched(other, "a")
    assert terminate(other, "a") in stage.refused_by_node(full, "a", FULL)
    assert stage.job("a").state is JobState.ENDING
    assert may_start(stage.job("a")), "its environment is needed again"
    stage.process_ended(other, "a", exit_code=143)
    job = stage.job("a")
    assert (job.state, job.attempt) == (JobState.PENDING, 2)
    assert [(one.lost, one.why) for one in job.attempts] == [
        (False, f"node {full} cannot start jobs: {FULL}")
    ]


def test_a_job_that_both_of_its_nodes_refuse_waits_again() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    starting(stage, "n0", "n1", low=2, high=2, unit=NODES)
    stage.refused_by_node("n0", "a", FULL)
    stage.refused_by_node("n1", "a", FULL)
    assert stage.job("a").state is JobState.PENDING
    assert not planned(stage)


def test_a_cancelled_job_is_over_though_its_node_is_full() -> None:
    stage = Stage()
    stage.up("n0")
    starting(stage, "n0:0-1")
    stage.cancel("a")
    stage.refused_by_node("n0", "a", FULL)
    stage.process_ended("n0", "a", exit_code=143)
    assert stage.job("a").state is JobState.CANCELLED
    assert not planned(stage)


def test_a_restart_at_another_size_waits_in_the_queue() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", low=2, mode=ResizeMode.RESTART)
    stage.need_plan()
    stage.plan(on("a", "n0:0-1"))
    stage.process_ended("n0", "a", exit_code=143)
    assert (stage.job("a").state, stage.job("a").attempt) == (JobState.STARTING, 2)
    stage.refused_by_node("n0", "a", FULL)
    job = stage.job("a")
    assert (job.state, job.attempt, len(job.attempts)) == (JobState.PENDING, 2, 1)
    assert job.ordered_ns == -1, "waiting in the queue is no cost of a restart"


def test_a_simulated_cluster_waits_for_a_full_node_and_uses_no_attempt() -> None:
    cluster = Cluster([node_spec("n0"), node_spec("n1")], FifoEasy(), 200 * W)
    cluster.happen(
        Incident(time_ns=0, kind=IncidentKind.FULL_DISK, node_id=NodeId("n0"), for_ns=100 * S)
    )
    for index in range(4):
        cluster.go(str(index), sim_spec(30, 4, JobKind.RIGID))
    cluster.run(50 * S)
    jobs = cluster.core.state.jobs.values()
    assert cluster.core.state.nodes[NodeId("n0")].fault
    assert not [rank for job in jobs for rank in job.ranks if rank == "n0"]
    cluster.run(1000 * S, lambda: all(job.final for job in jobs))
    assert {(job.state, job.attempt) for job in jobs} == {(JobState.COMPLETED, 1)}
    cluster.run(110 * S)
    assert not cluster.core.state.nodes[NodeId("n0")].fault


@pytest.mark.parametrize("seed", range(6))
def test_full_disks_beside_other_faults_lose_no_job(seed: int) -> None:
    rng = random.Random(seed)
    policy = [FifoEasy(), Parm(ParmSettings(solver="greedy", resize_interval_s=2))][seed % 2]
    nodes = [node_spec(f"n{index}") for index in range(3)]
    faults = Faults(lose=0.05, late=0.03, double=0.05, delay_ns=200_000_000)
    cluster = Cluster(nodes, policy, 130 * W, seed, faults)
    for index in range(16):
        spec = sim_spec(rng.randint(2, 20), rng.choice([1, 2, 4]), rng.choice(KINDS))
        cluster.clock.later(rng.randint(0, 60) * S, lambda i=index, s=spec: cluster.go(str(i), s))
    for _ in range(6):
        node, at_ns, for_ns = (
            f"n{rng.randint(0, 2)}",
            rng.randint(1, 60) * S,
            rng.randint(1, 20) * S,
        )
        fault = rng.choice([cluster.fill_disk, cluster.fill_disk, cluster.cut])
        cluster.clock.later(at_ns, lambda f=fault, n=node, t=for_ns: f(NodeId(n), t))
    cluster.clock.later(30 * S, lambda: cluster.kill_coordinator(3 * S))
    cluster.run(61 * S)
    cluster.run(3000 * S, lambda: all(job.final for job in cluster.core.state.jobs.values()))
    jobs = cluster.core.state.jobs
    assert {job.state for job in jobs.values()} == {JobState.COMPLETED}
    assert not any(attempt.lost for job in jobs.values() for attempt in job.attempts)


USERS_STEPS = ("open the output", "enter the directory", "make the snapshot folder", "execute")


@pytest.mark.parametrize("step", [*USERS_STEPS, "find the command", "prepare (ValueError)"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENOMEM, 0])
def test_what_fails_at_a_choice_of_the_user_is_no_fault_of_the_node(step, number):
    found = refusal(JobId("1"), Failure(step, "/home/u/x", number))
    assert isinstance(found, InvalidRequest)
    assert not isinstance(found, NodeFault)


@pytest.mark.parametrize("step", ["start a keeper", "set up its keeper", "enter the cgroup"])
def test_what_fails_before_the_job_is_a_fault_of_the_node(step):
    for number in (errno.ENOSPC, errno.EAGAIN, errno.EIO):
        found = refusal(JobId("1"), Failure(step, "", number))
        assert isinstance(found, NodeFault)
    unknown = Failure("become the user", "u", errno.EPERM)
    assert isinstance(refusal(JobId("1"), unknown), NotPermitted)


def test_a_node_opens_when_the_probe_finds_nothing_and_pauses_grow_while_launches_fail():
    pauses: list[float] = []
    found = iter([FULL, "read-only", "", "", ""])
    told: list[str] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def probe() -> str:
        return next(found)

    async def run() -> None:
        tasks: list[asyncio.Task[None]] = []
        starts = Starts(
            probe,
            lambda work: tasks.append(asyncio.get_running_loop().create_task(work)),
            lambda: told.append(starts.fault),
            pause,
        )
        starts.refused(FULL)
        starts.refused("once more, before it opens")
        await tasks.pop()
        assert not tasks
        assert told == [FULL, "read-only", ""]
        starts.refused("what no probe finds")
        await tasks.pop()
        starts.refused("what no probe finds")
        await tasks.pop()
        starts.succeeded()
        assert starts.fault == ""

    asyncio.run(run())
    assert pauses == [0.5, 1.0, 2.0, 1.0, 2.0]
