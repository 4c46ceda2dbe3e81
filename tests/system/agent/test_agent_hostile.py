"""Jobs of different accounts on one node cannot reach, see, resize, end or starve each other."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.account_install import Installation, installation_for
from system.agent.agent_process import AgentProcess, agent, allowed_cpus, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_shims import SHIM

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

VICTIM, OTHER = "nobody", "daemon"


@pytest.fixture(scope="module")
def installed() -> Installation:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root may become another account (with setpriv)")
    found = installation_for(uid_of(VICTIM))
    if found is None:
        pytest.skip("needs an interpreter another account may execute")
    return found


@pytest.fixture
def running(installed: Installation, tmp_path: Path) -> Iterator[AgentProcess]:
    need_two_cpus()
    flags = ("--masks", "affinity", "--throttle", "signals", *EMULATE)
    with agent("--config", emulation_file(tmp_path), *flags) as started:
        started.work().chmod(0o777)
        yield started


def uid_of(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def python(installed: Installation, script: str, *arguments: object) -> list[str]:
    return [installed.python, "-c", script, *map(str, arguments)]


def as_account(
    name: str, installed: Installation, script: str, *arguments: object
) -> subprocess.CompletedProcess[str]:
    """Run a script as an account, outside every job."""
    uid = str(uid_of(name))
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return subprocess.run(
        [*drop, *python(installed, script, *arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=240,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": installed.libraries},
    )


def job(running: AgentProcess, name: str, user: str, argv: list[str], cpu: int, **env: str) -> int:
    fields = {"user": user, "mode": common.RESIZE_MODE_TEAM, "launch_cpus": 2, "env": env}
    pid: int = running.launch(name, argv, str(cpu), **fields).pid
    return pid


def sleeper(running: AgentProcess, name: str = "a", user: str = VICTIM) -> int:
    return job(running, name, user, ["/bin/sleep", "1000"], CPUS[0])


def obedient(running: AgentProcess, installed: Installation) -> int:
    """A job with a shim that obeys. Waits until the shim is attached."""
    argv = [installed.python, "-c", SHIM, "obey"]
    paths = {"SHIM_PATH": installed.libraries, "PYTHONPATH": installed.libraries}
    pid = job(running, "a", VICTIM, argv, CPUS[0], **paths)
    running.telemetry(lambda m: any(u.job_id == "a" and u.progress.regions == 5 for u in m.jobs))
    return pid


OUTCOME = """
def outcome(act, *words):
    try:
        act(*words)
        return "allowed"
    except OSError as error:
        return type(error).__name__
"""

LOOK = (
    OUTCOME
    + """
import os, socket, sys
for path in sys.argv[1:]:
    connect = socket.socket(socket.AF_UNIX).connect
    print(path, outcome(os.listdir, os.path.dirname(path)), outcome(os.stat, path),
          outcome(open, path), outcome(connect, path))
"""
)


def test_another_account_sees_no_socket_and_no_record(running, installed):
    sleeper(running)
    shims, root = running.root / "run" / "shims", running.root
    paths = [shims / "a" / "sock", root / "state" / "jobs" / "a.json", root / "state" / "agent.pid"]
    assert all(path.exists() for path in paths)
    seen = as_account(OTHER, installed, LOOK, *paths).stdout.splitlines()
    assert [line.split()[1:] for line in seen] == [["PermissionError"] * 4] * 3
    # Only the existence of the agent's own socket is visible.
    agents = as_account(OTHER, installed, LOOK, root / "run" / "agent.sock").stdout.split()
    assert (agents[1], agents[4]) == ("PermissionError", "PermissionError")
    own = as_account(VICTIM, installed, LOOK, paths[0]).stdout.split()
    assert (own[1], own[4]) == ("PermissionError", "allowed")


def test_modes_reveal_nothing(running):
    sleeper(running)
    for path in (running.root / "state").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    shims = running.root / "run" / "shims"
    assert stat.S_IMODE(shims.stat().st_mode) == 0o711
    folder, sock = (shims / "a").stat(), (shims / "a" / "sock").stat()
    # The group bits are the mask of the access list: one account may pass through and connect.
    assert (stat.S_IMODE(folder.st_mode), folder.st_uid) == (0o710, 0)
    assert (stat.S_IMODE(sock.st_mode), sock.st_uid) == (0o660, 0)
    assert stat.S_IMODE((running.root / "run").stat().st_mode) == 0o711


TOUCH = (
    OUTCOME
    + """
import os, sys
path = sys.argv[1]
print(outcome(open, path), outcome(open, path, "r+b"), outcome(os.truncate, path, 0),
      outcome(os.unlink, path))
"""
)


def test_a_notice_is_read_by_its_job_and_written_by_nobody_else(running, installed):
    """A truncated file would kill the agent at its next write."""
    obedient(running, installed)
    [notice] = (running.root / "run" / "shims" / "a").glob("notice.*")
    own = as_account(VICTIM, installed, TOUCH, notice).stdout.split()
    assert own == ["allowed"] + ["PermissionError"] * 3
    other = as_account(OTHER, installed, TOUCH, notice).stdout.split()
    assert other == ["PermissionError"] * 4
    assert (stat.S_IMODE(notice.stat().st_mode), notice.stat().st_uid) == (0o640, 0)


FORGE = """
import sys, zmq
from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType as T
socket = zmq.Context().socket(zmq.DEALER)
socket.setsockopt(zmq.LINGER, 0)
socket.connect("ipc://" + sys.argv[1])
for seq in (0, 999):
    socket.send(ShimMessage(type=T.HELLO).pack())
    socket.send(ShimMessage(type=T.ACK, seq=seq, cores=1).pack())
    socket.send(ShimMessage(type=T.STATUS, done=9.0, total=9.0, text="request=7").pack())
print("answered" if socket.poll(1500) else "silence")
"""


def test_a_process_outside_the_job_speaks_for_nobody(running, installed):
    """Neither another process of the same account nor root is accepted."""
    sleeper(running)
    path = running.root / "run" / "shims" / "a" / "sock"
    for name in (VICTIM, "root"):
        assert as_account(name, installed, FORGE, path).stdout.strip() == "silence"
    usage = running.telemetry(lambda m: bool(m.jobs)).jobs[0]
    assert (usage.shim, usage.progress.done, usage.cores_wanted) == (pb.SHIM_STATE_ABSENT, 0, 0)
    assert "event=shim_unknown job=a" in running.log()
    assert running.mask("a", str(CPUS[-1])).shim == pb.SHIM_STATE_ABSENT


HARM = (
    OUTCOME
    + """
import ctypes, os, signal, sys
pid, keeper = map(int, sys.argv[1:3])
libc = ctypes.CDLL(None, use_errno=True)
def attach(pid):
    if libc.ptrace(16, pid, None, None):
        raise OSError(ctypes.get_errno(), "ptrace")
for victim in (pid, keeper):
    print(outcome(os.kill, victim, signal.SIGTERM), outcome(attach, victim),
          outcome(os.sched_setaffinity, victim, [0]), outcome(open, f"/proc/{victim}/environ"),
          outcome(open, f"/proc/{victim}/mem"))
"""
)


def test_the_kernel_keeps_accounts_apart(running, installed):
    pid = sleeper(running)
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    argv = python(installed, HARM, pid, keeper)
    job(running, "b", OTHER, argv, CPUS[-1])
    assert running.ended("b").exit_code == 0
    words = (running.work() / "wattfold-b.out").read_text().split()
    assert words == ["PermissionError"] * 10
    assert allowed_cpus(pid) == {str(CPUS[0])}


CROWD = """
import os, resource, socket
path = os.environ["WATTFOLD_SHIM_ENDPOINT"].removeprefix("ipc://")
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
crowd, refused = [], 0
print("up", flush=True)
while True:
    try:
        one = socket.socket(socket.AF_UNIX)
        one.connect(path)
        crowd.append(one)
    except OSError:
        refused += 1
        crowd.clear()
"""
FLOOD = """
import os, sys, zmq
from wattfold.contract.shim_protocol import ShimMessage, ShimMessageType as T
frames = [ShimMessage(type=kind, regions=1, text="x" * 900).pack() for kind in (T.STATUS, T.HELLO)]
context = zmq.Context()
sockets = [context.socket(zmq.DEALER) for _ in range(32)]
for socket in sockets:
    socket.connect(os.environ["WATTFOLD_SHIM_ENDPOINT"])
print("up", flush=True)
while True:
    for socket in sockets:
        for frame in (*frames, b"nonsense"):
            try:
                socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                pass
"""
LARGE = """
import os, zmq
context = zmq.Context()
print("up", flush=True)
while True:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 50)
    socket.connect(os.environ["WATTFOLD_SHIM_ENDPOINT"])
    socket.send(b"x" * 10_000_000)
    socket.close()
"""


@pytest.mark.parametrize(
    ("script", "sign"), [(CROWD, "connections_refused"), (FLOOD, "messages_flooded")]
)
def test_a_job_that_runs_riot_delays_no_other(running, installed, script, sign):
    obedient(running, installed)
    argv = python(installed, script)
    job(running, "b", OTHER, argv, CPUS[-1], PYTHONPATH=installed.libraries)
    until(lambda: f"event=shim_{sign} job=b" in running.log())
    for _ in range(20):
        # Within the default deadline of one second.
        assert running.mask("a", str(CPUS[0])).shim == pb.SHIM_STATE_ATTACHED
    assert running.log().count(f"event=shim_{sign}") == 1
    assert memory_mib(running) < 300
    if script is CROWD:
        assert running.mask("b", str(CPUS[-1])).shim == pb.SHIM_STATE_CONFINED


def test_messages_that_are_too_large_take_no_memory(running, installed):
    obedient(running, installed)
    job(running, "b", OTHER, python(installed, LARGE), CPUS[-1], PYTHONPATH=installed.libraries)
    until(lambda: (running.work() / "wattfold-b.out").read_text() == "up\n")
    for _ in range(20):
        assert running.mask("a", str(CPUS[0])).shim == pb.SHIM_STATE_ATTACHED
    assert memory_mib(running) < 300


def memory_mib(running: AgentProcess) -> int:
    assert running.process is not None
    text = Path(f"/proc/{running.process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) // 1024
