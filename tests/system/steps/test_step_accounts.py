"""Steps of a job of an ordinary account on an agent of root: only that account gets in."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from system.account_install import Installation, installation_for
from system.agent.agent_process import AgentProcess

from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as pb

OWNER, OTHER = 65534, 65533
KEY = b"k" * 32
CPUS = sorted(os.sched_getaffinity(0))[:2]


class OpenAgent(AgentProcess):
    """An agent of root that other accounts could also run, as on a cluster."""

    readable_by = OWNER


@pytest.fixture
def installed(root: None) -> Installation:
    found = installation_for(OWNER)
    if found is None:
        pytest.skip("needs an interpreter another account may execute")
    return found


@pytest.fixture
def node(installed: Installation) -> Iterator[AgentProcess]:
    cpus = ",".join(map(str, CPUS))
    flags = ("--emulate", "--cpus", cpus, "--masks", "affinity", "--throttle", "signals")
    with tempfile.TemporaryDirectory(prefix="wattfold-") as folder:
        Path(folder).chmod(0o755)
        running = OpenAgent(Path(folder), *flags, "--kill-jobs-on-exit")
        running.start()
        yield running
        assert running.stop() == 0, running.log()


def take_steps(node: AgentProcess, job: str = "j", **fields: object) -> pb.LaunchResponse:
    """Let the node take the steps of a job of the account `nobody` that runs on n0."""
    address = node.stub.GetInventory(pb.GetInventoryRequest(), timeout=240).steps_address
    nodes = [
        pb.StepNode(node_id="n0", cpus=1),
        pb.StepNode(node_id=node.node, address=address, cpus=1),
    ]
    values = {"user": "nobody", "steps_only": True, "step_nodes": nodes, "step_key": KEY}
    node.work().chmod(0o777)
    return node.launch(
        job, ["mpirun"], str(CPUS[0]), rank=1, ranks=2, launch_cpus=1, **(values | fields)
    )


def shell(
    node: AgentProcess,
    installed: Installation,
    command: str,
    uid: int = OWNER,
    key: bytes = KEY,
    wait_s: str = "2",
) -> subprocess.CompletedProcess[str]:
    """The remote shell under an account, with the job variables of that account."""
    folder = node.root / f"folder-{uid}"
    folder.mkdir(exist_ok=True)
    address = node.stub.GetInventory(pb.GetInventoryRequest(), timeout=240).steps_address
    (folder / "nodes").write_text(f"n0 - -\n{node.node} {address} -\n")
    (folder / "key").write_bytes(key)
    folder.chmod(0o755)
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": installed.libraries,
        "WATTFOLD_STEPS": str(folder),
        "WATTFOLD_NODE_ID": "n0",
        "WATTFOLD_JOB_ID": "j",
        "WATTFOLD_STEP_WAIT_S": wait_s,
    }
    return subprocess.run(
        [installed.python, "-m", "wattfold.coordinator.cli.rsh.rsh", node.node, command],
        env=environment,
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_step_runs_as_the_account_of_its_job(node: AgentProcess, installed: Installation) -> None:
    take_steps(node)
    done = shell(node, installed, "id -un; echo $WATTFOLD_RANK", wait_s="30")
    assert (done.returncode, done.stdout) == (0, "nobody\n1\n"), done.stderr


def test_another_account_starts_nothing_even_with_the_key(
    node: AgentProcess, installed: Installation
) -> None:
    take_steps(node)
    assert shell(node, installed, "true", wait_s="30").returncode == 0
    done = shell(node, installed, "touch /tmp/x", uid=OTHER)
    assert done.returncode == 255
    assert "no step host of job j on this node" in done.stderr


def test_the_account_itself_starts_nothing_with_a_wrong_key(
    node: AgentProcess, installed: Installation
) -> None:
    take_steps(node)
    done = shell(node, installed, "true", key=b"x" * 32, wait_s="30")
    assert done.returncode == 255
    assert "not a remote shell of job j" in done.stderr


def test_a_shell_in_a_running_job_is_of_its_account(
    node: AgentProcess, installed: Installation, tmp_path: Path
) -> None:
    node.work().chmod(0o777)
    given = {
        "env": {"COLOUR": "blue"},
        "umask": 0o027,
        "resource_limits": [common_pb2.ResourceLimit(name="nofile", soft=333)],
    }
    node.launch("j", ["sleep", "1000"], str(CPUS[0]), user="nobody", attempt=1, **given)
    request = pb.OpenShellRequest(header=node.header(), job_id="j", attempt=1, step_key=KEY)
    node.stub.OpenShell(request, timeout=240)
    request.header.CopyFrom(node.header())
    node.stub.OpenShell(request, timeout=240)
    tells = "id -un; id -G; umask; ulimit -Sn; echo $COLOUR; pwd; echo $PPID"
    done = shell(node, installed, tells, wait_s="30")
    groups = " ".join(map(str, os.getgrouplist("nobody", OWNER)))
    *told, host = done.stdout.splitlines()
    # The remote shell asks for its own folder.
    assert told == ["nobody", groups, "0027", "333", "blue", "/"], done.stderr
    assert "-c" in Path(f"/proc/{host}/cmdline").read_text(), "one host for both calls"
    refused = shell(node, installed, "true", uid=OTHER)
    assert "no step host of job j on this node" in refused.stderr
    request.header.CopyFrom(node.header())
    request.attempt = 2
    with pytest.raises(grpc.RpcError) as early:
        node.stub.OpenShell(request, timeout=240)
    assert "attempt 1 here, not 2" in str(early.value)
    node.signal("j", 15)
    assert node.ended("j").exit_code == 143
    assert not Path(f"/proc/{host}").exists()


def run_as(uid: int, command: str) -> tuple[int, str]:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_the_folder_of_the_job_is_for_its_account_to_read_and_for_no_other(
    node: AgentProcess,
) -> None:
    take_steps(node)
    folder = node.root / "run/steps/j"
    assert run_as(OWNER, f"cat {folder}/key") == (0, KEY.decode())
    assert "n0" in run_as(OWNER, f"ls {folder} > /dev/null && cat {folder}/nodes")[1]
    # The agent connects and removes as root: no file of the account may block it.
    for change in (f"rm {folder}/key", f"ln -s /etc {folder}/x", f"echo x > {folder}/nodes"):
        assert run_as(OWNER, change)[0] != 0, change
    for look in (f"cat {folder}/key", f"ls {folder}", f"cat {folder}/nodes"):
        assert run_as(OTHER, look)[0] != 0, look
    node.signal("j", 15)
    # 143: before it could handle the signal.
    assert node.ended("j").exit_code in (0, 143)
    assert not folder.exists()


def test_an_agent_that_is_not_told_the_nodes_takes_no_steps(node: AgentProcess) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        take_steps(node, step_nodes=[])
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
