"""What users, operators and accidents do to jobs of Slurm that an agent has adopted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from slurm.adopting import PLUGIN, Node, allowed, attached, live, node_of
from waiting import wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster, slurm_cluster
from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="needs spank_wattfold.so")


@pytest.fixture(scope="module")
def shared(slurm: SlurmCluster) -> Iterator[Node]:
    with node_of(slurm) as running:
        yield running


@pytest.fixture
def node(shared: Node) -> Iterator[Node]:
    """The agent of the module, without jobs."""
    yield shared
    shared.cluster.cancel_all()
    wait_until("no job is left", lambda: not live(shared))


def test_tasks_of_an_array_are_jobs(node: Node) -> None:
    script = node.work("array.sh")
    script.write_text(f"#!/bin/sh\nexec {node.program} {node.work('t')}$SLURM_ARRAY_TASK_ID $1\n")
    stop = node.work("t-stop")
    node.cluster.call("sbatch", "-a1-2", "-n1", "--wattfold=team", str(script), str(stop))
    node.has_team("t1", 1)
    node.has_team("t2", 1)
    assert sorted(process.cpus for process in live(node).values()) == ["0", "1"]
    stop.touch()
    wait_until("both have ended", lambda: not live(node))


def test_a_suspended_job_is_resized_and_resumed(node: Node) -> None:
    step = node.cluster.begin("srun", "-n1", "-c2", "--wattfold=team", *node.team("s"))
    node.has_team("s", 2)
    ((job, _),) = live(node).items()
    attached(node, job)
    number = job.removeprefix("slurm-")
    node.cluster.call("scontrol", "suspend", number)
    assert node.agent.mask(job, "0", deadline_s=0.2).cpus == "0"
    node.cluster.call("scontrol", "resume", number)
    node.has_team("s", 1)
    assert allowed(node, "s") == "0"
    node.agent.mask(job, "0-1")
    node.has_team("s", 2)
    node.end("s")
    assert step.wait(60) == 7


def test_a_requeued_job_is_adopted_again(node: Node) -> None:
    script = node.work("requeue.sh")
    script.write_text(f"#!/bin/sh\nexec {' '.join(node.team('q'))}\n")
    done = node.cluster.call("sbatch", "-n1", "--requeue", "--wattfold=team", str(script))
    number = done.split()[-1]
    node.has_team("q", 1)
    ((job, first),) = live(node).items()
    node.cluster.call("scontrol", "requeue", number)
    node.agent.ended(job)
    ended_s = time.time()
    node.work("q.0").unlink()

    def runs_again() -> bool:
        # When a requeue is complete, Slurm sets the start to two minutes later. A node refuses a
        # credential of the second in which it killed the job.
        if time.time() > ended_s + 2:
            change = "scontrol", "update", f"JobId={number}", "StartTime=now"
            node.cluster.call(*change, check=False)
        return bool(live(node))

    wait_until("the second attempt runs", runs_again)
    node.has_team("q", 1)
    ((again, second),) = live(node).items()
    assert again == job
    assert second.attempt == first.attempt + 1


def test_a_step_gets_the_threads_of_its_own_cores(node: Node) -> None:
    script, out = node.work("threads.sh"), node.work("threads")
    lines = ["#!/bin/sh", "echo $OMP_NUM_THREADS", "srun -n1 -c1 printenv OMP_NUM_THREADS"]
    lines += ["export OMP_NUM_THREADS=5", "srun -n1 -c1 printenv OMP_NUM_THREADS"]
    script.write_text("\n".join(lines) + "\n")
    node.cluster.call("sbatch", "-W", "-n2", "--wattfold=mask", "-o", str(out), str(script))
    assert out.read_text().split() == ["2", "1", "5"]


def test_a_drained_node_keeps_its_job(node: Node) -> None:
    step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("d"))
    node.has_team("d", 1)
    (name,) = node.cluster.nodes
    node.cluster.call("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    assert len(live(node)) == 1
    node.cluster.call("scontrol", "update", f"nodename={name}", "state=resume")
    node.end("d")
    assert step.wait(60) == 7


def test_a_restart_of_the_controller_changes_nothing(node: Node) -> None:
    step = node.cluster.begin("srun", "-n1", "-c2", "--wattfold=team", *node.team("c"))
    node.has_team("c", 2)
    ((job, _),) = live(node).items()
    attached(node, job)
    state, began_ns = node.cluster.root / "state" / "job_state", time.time_ns()
    wait_until("Slurm has saved the job", lambda: state.stat().st_mtime_ns > began_ns)
    controller = node.cluster.daemons["slurmctld"]
    controller.kill()
    controller.wait()
    assert node.agent.mask(job, "1").cpus == "1"
    node.has_team("c", 1)
    node.cluster.start_controller(clear=False)
    wait_until("it answers", node.cluster.is_up)
    assert allowed(node, "c") == "1"
    node.end("c")
    assert step.wait(60) == 7
    wait_until("its cores are free", lambda: not live(node))


def test_cores_are_held_until_the_last_process_has_ended(node: Node) -> None:
    step = node.cluster.begin("srun", "-n1", "--wattfold=mask", *node.team("e"))
    node.has_team("e", 1)
    ((_, process),) = live(node).items()
    keeper = parent(process.pid)
    assert "slurmstepd" in Path(f"/proc/{keeper}/comm").read_text()
    # An accident, or an administrator: the task lives on without slurmstepd.
    os.kill(keeper, signal.SIGKILL)
    wait_until("slurmstepd has ended", lambda: parent(process.pid) != keeper)
    assert len(live(node)) == 1
    node.end("e")
    wait_until("its cores are free", lambda: not live(node))
    step.kill()


def parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def test_a_step_on_cores_of_another_job_runs_without_wattfold(node: Node) -> None:
    node.agent.launch("own", ["/bin/sleep", "1000"], "1")
    try:
        step = node.cluster.begin("srun", "-n1", "-c2", "--wattfold=team", *node.team("x"))
        node.has_team("x", 2)
        assert list(live(node)) == ["own"]
        assert allowed(node, "x") == "0-1"
        log = node.cluster.log(node.cluster.nodes[0])
        assert "CPUs 1 are held by job own" in log
        node.end("x")
        assert step.wait(60) == 7
    finally:
        node.agent.signal("own", signal.SIGKILL)
        node.agent.ended("own")


def test_a_plugin_that_is_missing_fails_no_job(node: Node) -> None:
    node.cluster.plugstack("optional /no/such/spank_wattfold.so\n")
    try:
        assert node.cluster.call("srun", "-n1", "echo", "fine").strip().endswith("fine")
    finally:
        node.use_plugin()


def test_a_default_mode_and_how_a_user_declines(node: Node) -> None:
    node.use_plugin(arguments="default=mask")
    try:
        job = "echo $WATTFOLD_RESIZE_MODE."
        assert node.cluster.call("srun", "-Q", "-n1", "sh", "-c", job).strip() == "mask."
        off = node.cluster.call("srun", "-Q", "-n1", "--wattfold=off", "sh", "-c", job)
        assert off.strip() == "."
    finally:
        node.use_plugin()


def test_wrong_arguments_fail_no_job(node: Node) -> None:
    node.use_plugin(arguments="speed=11")
    try:
        out = node.cluster.call("srun", "-Q", "-n1", "--wattfold=team", "sh", "-c", "echo fine")
        assert "fine" in out
        assert not live(node)
    finally:
        node.use_plugin()


def test_slurm_counts_the_cpu_time_itself() -> None:
    with slurm_cluster(gather="jobacct_gather/cgroup") as cluster, node_of(cluster) as node:
        step = cluster.begin("srun", "-Q", "-n1", "--wattfold=team", *node.team("g"))
        node.has_team("g", 1)
        ((job, process),) = live(node).items()
        cgroup = Path(f"/proc/{process.pid}/cgroup").read_text()
        assert "cpuacct:/slurm_" in cgroup
        node.agent.telemetry(lambda m: m.jobs[0].cpu_ns > 0 and m.jobs[0].threads > 0)
        node.end("g")
        assert step.wait(60) == 7
        assert node.agent.ended(job).cpu_ns > 0


def test_a_job_of_two_nodes_is_one_job_on_each_of_them() -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(slurm_cluster(nodes=2))
        nodes = [stack.enter_context(node_of(cluster)) for _ in cluster.nodes]
        for name, node in zip(cluster.nodes, nodes, strict=True):
            (cluster.root / name).symlink_to(f"{node.agent.root}/run")
        path = f"{cluster.root}/%n/adopt.sock"
        cluster.plugstack(f"optional {PLUGIN} agent={path} limit_ms=60000\n")
        first = nodes[0]
        step = cluster.begin("srun", "-N2", "-c2", "--wattfold=team", *first.team("m"))
        first.has_team("m", 2, rank=0)
        first.has_team("m", 2, rank=1)
        (job,) = {job for node in nodes for job in live(node)}
        for node in nodes:
            attached(node, job)
        nodes[1].agent.mask(job, "0")
        first.has_team("m", 1, rank=1)
        first.has_team("m", 2, rank=0)
        first.end("m")
        assert step.wait(60) == 7
        for node in nodes:
            assert node.agent.ended(job).state == pb.PROCESS_STATE_ENDED
