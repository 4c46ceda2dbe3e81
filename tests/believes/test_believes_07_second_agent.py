"""A second agent on a node does not take the place of the first one, and changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import NOBODY, AgentProcess
from system.agent.conftest import EMULATE

from wattfold.nodeagent.adapters.locks import InUseError, check_unused, lock_folder
from wattfold.v1 import node_agent_pb2 as pb

INITIAL_PIDS = "pid:[4026531836]"
"""The PID namespace of the machine itself (include/linux/proc_ns.h)."""

FLAGS = (*EMULATE, "--masks", "affinity", "--throttle", "signals")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent with caps above its floors, and a socket outside its run folder."""
    root = tmp_path_factory.mktemp("first")
    agent = AgentProcess(root, *FLAGS, "--listen", f"unix:{root}/sockets/agent.sock").start()
    agent.lease(3600)
    (result,) = agent.caps(package_0=40)
    assert result.enforced_uw == 40_000_000
    yield agent
    assert agent.stop() == 0
    assert not (root / "sockets/agent.sock").exists()


def told(first: AgentProcess, folder: Path, *flags: str) -> str:
    """What a second agent says that is started with these flags; the first one is as before."""
    socket_before = (first.root / "sockets/agent.sock").stat().st_ino
    second = AgentProcess(folder, *FLAGS, *flags)
    try:
        second.start()
    except AssertionError:
        assert second.process is not None
        assert second.process.wait(240) == 1
    else:
        second.stop()
        pytest.fail("the second agent serves")
    assert "Traceback" not in second.log()
    assert (first.root / "sockets/agent.sock").stat().st_ino == socket_before
    found = first.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)
    assert {zone.name: zone.cap_uw for zone in found.zones}["package-0"] == 40_000_000
    return second.log()


def by(first: AgentProcess) -> str:
    assert first.process is not None
    return f"another agent (process {first.process.pid}) uses this folder; stop it, or set another"


def test_the_run_folder_of_an_agent_is_refused(first: AgentProcess, tmp_path: Path) -> None:
    run = f"{first.root}/run"
    assert f"{run}: {by(first)} run_dir" in told(first, tmp_path, "--run-dir", run)


def test_the_power_zones_of_an_agent_are_refused(first: AgentProcess, tmp_path: Path) -> None:
    zones = f"{first.root}/run/powercap"
    assert f"{zones}: {by(first)} powercap_root" in told(first, tmp_path, "--powercap-root", zones)


def test_the_socket_of_an_agent_is_refused(first: AgentProcess, tmp_path: Path) -> None:
    path = f"{first.root}/sockets/agent.sock"
    assert f"{path}: another process listens on this socket" in told(
        first, tmp_path, "--listen", f"unix:{path}"
    )


def test_an_agent_that_was_killed_keeps_nobody_away(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, *FLAGS).start()
    agent.kill()
    assert (tmp_path / "run/agent.sock").exists()
    agent.start()
    assert agent.stop() == 0
    assert not (tmp_path / "run/agent.sock").exists()


def test_a_socket_that_is_left_over_is_not_in_use(tmp_path: Path) -> None:
    path = tmp_path / "s"
    check_unused(path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(InUseError, match="set another address in listen"):
            check_unused(path)
    check_unused(path)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("flock"), reason="needs root and flock")
@pytest.mark.parametrize("left", [False, True], ids=["held", "left to a child"])
def test_a_lock_of_an_ordinary_account_does_not_keep_an_agent_from_starting(
    left: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if left and os.readlink("/proc/self/ns/pid") != INITIAL_PIDS:
        pytest.skip("in a PID namespace /proc/locks hides the lock of a process that has ended")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        # With a child in the background, the process that took the lock ends at once.
        script = "sleep 600 & echo $!" if left else "echo $$; exec sleep 600"
        command = ["flock", *([] if left else ["-F"]), folder, "sh", "-c", script]
        job = subprocess.Popen(command, stdout=subprocess.PIPE, user=NOBODY, group=NOBODY, cwd="/")
        assert job.stdout is not None
        holder = int(job.stdout.readline())
        try:
            if left:
                job.wait(240)
            os.close(lock_folder(Path(folder), "set another powercap_root"))
            assert f"event=foreign_lock_ignored path={folder} pid={job.pid} " in caplog.text
        finally:
            os.kill(holder, signal.SIGKILL)
            job.wait(240)
            job.stdout.close()
