"""Steps of a real Slurm, adopted by a real agent."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import grpc
import pytest
from slurm.adopting import PLUGIN, allowed, attached, live, node_of
from system.agent.agent_process import NOBODY
from waiting import wait_until

from wattfold.coordinator.demo.beside_slurm.cluster import CGROUPS
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

pytestmark = pytest.mark.skipif(not PLUGIN.exists(), reason="needs spank_wattfold.so")


@pytest.fixture
def node(slurm):
    with node_of(slurm) as running:
        yield running


def test_an_unmodified_openmp_program_is_adopted_resized_and_ended(node):
    step = node.cluster.begin("srun", "-n1", "-c2", "--wattfold=team", *node.team("a"))
    node.has_team("a", 2)
    ((job, process),) = live(node).items()
    assert node.lines("a")[2] == f"job {job}"
    assert process.cpus == "0-1"
    groups = Path(f"/proc/{process.pid}/cgroup").read_text()
    ours = sorted(line.split(":")[1] for line in groups.splitlines() if ":/wattfold/" in line)
    assert ours == ["cpu", "cpuacct"], "the agent counts and slows it, Slurm holds it"
    attached(node, job)
    for cpus, size in (("0", 1), ("0-1", 2), ("1", 1), ("0-1", 2)):
        answer = node.agent.mask(job, cpus)
        assert answer.shim == pb.SHIM_STATE_ATTACHED
        assert answer.cpus == cpus
        node.has_team("a", size)
    node.end("a")
    assert step.wait(60) == 7
    ended = node.agent.ended(job)
    assert ended.exit_code == 7
    assert ended.cpu_ns > 0
    wait_until("its cores are free", lambda: not live(node))
    assert not list(CGROUPS.glob(f"*/wattfold/{node.agent.node}-*/{job}"))


def test_a_batch_script_and_its_two_steps_share_and_divide_the_cores(node):
    script = node.work("script.sh")
    lines = [
        "#!/bin/sh",
        f"srun -n1 -c1 --exact {' '.join(node.team('one'))} &",
        f"srun -n1 -c1 --exact {' '.join(node.team('two'))} &",
        "wait",
        f"srun -n1 -c2 {' '.join(node.team('both'))}",
        "exit 5",
    ]
    script.write_text("\n".join(lines) + "\n")
    node.cluster.call("sbatch", "-n2", "--wattfold=team", str(script))
    node.has_team("one", 1)
    node.has_team("two", 1)
    ((job, process),) = live(node).items()
    assert process.cpus == "0-1"
    masks = {allowed(node, "one"), allowed(node, "two")}
    assert masks == {"0", "1"}
    assert node.agent.mask(job, "0").cpus == "0"
    assert {allowed(node, "one"), allowed(node, "two")} == {"0"}
    # A step that starts now begins within the mask of its job.
    node.end("one")
    node.end("two")
    wait_until("the third step runs", lambda: node.lines("both")[:2])
    assert node.lines("both")[1] == "cpus 1"
    node.has_team("both", 1)
    node.agent.mask(job, "0-1")
    node.has_team("both", 2)
    node.end("both")
    ended = node.agent.ended(job)
    assert (ended.exit_code, ended.adoption.owner) == (5, "slurm")


def test_ranks_divide_the_mask_of_their_step(node):
    step = node.cluster.begin("srun", "-n2", "-c1", "--wattfold=team", *node.team("r"))
    node.has_team("r", 1, rank=0)
    node.has_team("r", 1, rank=1)
    ((job, _),) = live(node).items()
    node.end("r")
    assert step.wait(60) == 7
    assert node.agent.ended(job).exit_code == 7


def test_orders_to_a_job_of_slurm_are_refused(node):
    step = node.cluster.begin("srun", "-n1", "--wattfold=mask", *node.team("o"))
    node.has_team("o", 1)
    ((job, _),) = live(node).items()
    agent = node.agent
    calls = (
        lambda: agent.launch(job, ["true"], "0"),
        lambda: agent.signal(job, 15),
        lambda: agent.stub.EndAttempt(
            pb.EndAttemptRequest(header=agent.header(), job_id=job, attempt=1, signal=15)
        ),
        lambda: agent.stub.Suspend(
            pb.SuspendRequest(header=agent.header(), job_id=job, attempt=1, suspended=True)
        ),
    )
    for call in calls:
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "belongs to slurm" in refused.value.details()
    node.end("o")
    assert step.wait(60) == 7


def test_cores_outside_the_allocation_are_refused(node):
    step = node.cluster.begin("srun", "-n1", "-c1", "--wattfold=mask", *node.team("f"))
    node.has_team("f", 1)
    ((job, process),) = live(node).items()
    assert process.adoption.allocated_cpus == process.cpus == "0"
    with pytest.raises(grpc.RpcError) as refused:
        node.agent.mask(job, "0-1")
    assert "that slurm gave it" in refused.value.details()
    node.end("f")
    assert step.wait(60) == 7


def test_a_job_of_another_account_is_adopted(node):
    node.work("s").touch()
    step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("n"), uid=NOBODY)
    node.has_team("n", 1)
    ((job, _),) = live(node).items()
    attached(node, job)
    node.end("n")
    assert step.wait(60) == 7


def test_another_account_cannot_hand_a_step_over(node):
    path = f"{node.agent.root}/run/adopt.sock"
    script = (
        "import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
        f"s.connect({path!r}); s.send(b'x'); print(s.recv(99))"
    )
    command = ["/usr/bin/python3", "-c", script]
    done = subprocess.run(command, user=NOBODY, capture_output=True, text=True, timeout=60)
    assert "PermissionError" in done.stderr
    # Root gets an answer, and a message that is not one is refused.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "not a list of lines" in done.stdout


def test_a_killed_agent_finds_the_job_and_its_new_steps_again(node):
    script = node.work("again.sh")
    lines = [
        "#!/bin/sh",
        f"srun -n1 -c1 --overlap {' '.join(node.team('old'))} &",
        f"while [ ! -e {node.work('go')} ]; do sleep 0.1; done",
        f"srun -n1 -c2 --overlap {' '.join(node.team('new'))} &",
        "wait",
    ]
    script.write_text("\n".join(lines) + "\n")
    node.cluster.call("sbatch", "-n2", "--wattfold=team", str(script))
    node.has_team("old", 1)
    ((job, _),) = live(node).items()
    node.agent.mask(job, "0")
    attached(node, job)
    node.agent.kill()
    # A step that starts while no agent runs has all of its cores, until the agent finds it.
    node.work("go").touch()
    wait_until("the new step runs", lambda: node.lines("new")[:2])
    assert allowed(node, "new") == "0-1"
    node.agent.start()
    found = live(node)[job]
    assert found.cpus == "0"
    wait_until("the new step is confined", lambda: allowed(node, "new") == "0")
    assert allowed(node, "old") == "0"
    attached(node, job)
    assert node.agent.mask(job, "1").cpus == "1"
    assert {allowed(node, "old"), allowed(node, "new")} == {"1"}
    node.end("old")
    node.end("new")
    assert node.agent.ended(job).exit_code == 0


def test_a_job_that_ended_while_no_agent_ran_is_reported_as_lost(node):
    step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("l"))
    node.has_team("l", 1)
    ((job, process),) = live(node).items()
    task = procfs.read_stat(process.pid)
    assert task is not None
    daemon = procfs.read_stat(task.parent)
    assert daemon is not None
    node.agent.kill()
    node.end("l")
    assert step.wait(60) == 7
    # It tells an agent about the end of its step, which may be after the end of srun.
    wait_until(
        "slurmstepd has ended", lambda: not procfs.same_process(daemon.pid, daemon.start_ticks)
    )
    node.agent.start()
    assert node.agent.ended(job).state == pb.PROCESS_STATE_LOST


def test_a_job_starts_without_an_agent(node):
    node.agent.kill()
    step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("w"))
    wait_until("the program runs", lambda: node.lines("w")[2:])
    assert node.lines("w")[2] == "job (null)"
    node.end("w")
    assert step.wait(60) == 7
    node.agent.start()


def test_a_job_starts_beside_an_agent_that_hangs(node):
    node.use_plugin(limit_ms=400)
    node.agent.process.send_signal(signal.SIGSTOP)
    try:
        step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("h"))
        wait_until("the program runs", lambda: node.lines("h")[2:])
        assert node.lines("h")[2] == "job (null)"
    finally:
        node.agent.process.send_signal(signal.SIGCONT)
    node.end("h")
    assert step.wait(60) == 7
    assert "no answer in time" in node.cluster.log(node.cluster.nodes[0])
    # What the agent reads later holds nothing: slurmstepd has ended.
    wait_until("nothing is held", lambda: not live(node))


def test_a_stopping_agent_never_ends_a_job_of_slurm(slurm):
    with node_of(slurm, "--kill-jobs-on-exit") as node:
        step = node.cluster.begin("srun", "-n1", "--wattfold=team", *node.team("k"))
        node.has_team("k", 1)
        assert node.agent.stop() == 0
        assert step.poll() is None
        node.agent.start()
        assert len(live(node)) == 1
        node.end("k")
        assert step.wait(60) == 7


def test_the_name_of_an_application_reaches_the_agent(node):
    app = "--wattfold-app=lulesh"
    step = node.cluster.begin("srun", "-n1", "--wattfold=team", app, *node.team("p"))
    node.has_team("p", 1)
    ((_, process),) = live(node).items()
    adoption = process.adoption
    assert (adoption.app, adoption.uid, list(adoption.steps)) == ("lulesh", 0, ["0"])
    assert adoption.mode == common.RESIZE_MODE_TEAM
    node.end("p")
    assert step.wait(60) == 7
    out = node.cluster.call("srun", "--wattfold-app=a b", "true", check=False)
    assert "expected 1-63 characters" in out


def test_an_agent_without_a_place_for_its_socket_still_serves(slurm):
    with node_of(slurm) as node:
        agent = node.agent
        assert agent.stub.GetInventory(pb.GetInventoryRequest()).adopts_slurm
        assert agent.stop() == 0
        (agent.root / "run" / "adopt.sock").mkdir()
        agent.start()
        assert not agent.stub.GetInventory(pb.GetInventoryRequest()).adopts_slurm
        assert "adoption_not_started" in agent.log()


def test_srun_refuses_an_unknown_mode(node):
    out = node.cluster.call("srun", "--wattfold=fast", "true", check=False)
    assert "must be off, fixed, mask or team" in out
    assert "--wattfold=MODE" in node.cluster.call("srun", "--help")
