"""A job costs a fork of its keeper, and keepers keep all that new processes had."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import tempfile
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.agent.agent_process import (
    NOBODY,
    AgentProcess,
    alive,
    allowed_cpus,
    family,
    name_of,
    until,
    wait_gone,
)
from system.agent.conftest import CPUS, EMULATE

from wattfold.contract.ids import JobId
from wattfold.nodeagent import fork_server
from wattfold.nodeagent.adapters.jobs import keeper_source
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.adapters.jobs.processes import KeeperOrder, Starting, readable
from wattfold.nodeagent.core.errors import NodeFault

FLAGS = (*EMULATE, "--masks", "affinity", "--throttle", "signals")
ONE = str(CPUS[0])
KEEPER = "wattfold-keeper"
HIGH = range(3, 256)
"""Descriptors above those of input, output and errors."""


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wattfold-starts-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def running(root: Path) -> Iterator[AgentProcess]:
    node = AgentProcess(root, *FLAGS, "--kill-jobs-on-exit").start()
    yield node
    assert node.stop() == 0, node.log()


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def parent(pid: int) -> int:
    return int(status(pid)["PPid"])


def descriptors(pid: int) -> dict[int, str]:
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found


def kinds(pid: int, among: Container[int]) -> list[str]:
    """What these descriptors are, in order."""
    found = descriptors(pid).items()
    return sorted(path.partition(":")[0] for number, path in found if number in among)


def server_of(running: AgentProcess) -> int:
    assert running.process is not None
    found = [pid for pid in family(running.process.pid) if name_of(pid) == fork_server.NAME]
    assert len(found) == 1
    return found[0]


def test_keepers_are_forks_of_one_process(running: AgentProcess) -> None:
    jobs = [
        running.launch(name, ["sleep", "1000"], ONE_EACH)
        for name, ONE_EACH in zip("ab", map(str, CPUS), strict=True)
    ]
    keepers = [parent(job.pid) for job in jobs]
    assert {name_of(keeper) for keeper in keepers} == {KEEPER}
    assert {parent(keeper) for keeper in keepers} == {server_of(running)}


def test_a_keeper_has_a_session_and_no_descriptors_but_its_own(running: AgentProcess) -> None:
    keeper = parent(running.launch("a", ["sleep", "1000"], ONE).pid)
    assert os.getsid(keeper) == keeper
    assert os.readlink(f"/proc/{keeper}/cwd") == "/"
    # It leaves the pipes to its agent after it has reported that the job runs. It keeps both ends
    # of its pipe for signals, its agent, and the pipe of the child that it has started.
    own = ["anon_inode", "pipe", "pipe", "pipe"]
    until(lambda: [kinds(keeper, (0, 1, 2)), kinds(keeper, HIGH)] == [["/dev/null"] * 3, own])


def test_a_job_begins_with_the_state_of_a_new_process(running: AgentProcess) -> None:
    pid = running.launch("a", ["sleep", "1000"], ONE, env={"ONLY": "this"}).pid
    until(lambda: name_of(pid) == "sleep")
    found = status(pid)
    assert {found[name] for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")} == {
        "0" * 16
    }
    assert sorted(descriptors(pid)) == [0, 1, 2]
    assert os.getsid(pid) == pid == os.getpgid(pid)
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert b"ONLY=this" in environment
    assert not [entry for entry in environment if entry.startswith(b"LC_ALL=")]
    assert allowed_cpus(pid) == {ONE}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_keeper_has_all_capabilities_and_its_job_none(running: AgentProcess) -> None:
    os.chown(running.work(), NOBODY, NOBODY)
    pid = running.launch("a", ["sleep", "1000"], ONE, user="nobody", uid=NOBODY).pid
    until(lambda: name_of(pid) == "sleep")
    keeper, job, bounds = status(parent(pid)), status(pid), status(os.getpid())["CapBnd"]
    assert keeper["CapEff"] == keeper["CapPrm"] == keeper["CapBnd"] == job["CapBnd"] == bounds
    assert {int(job[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}


def test_keepers_outlive_the_fork_server_and_the_next_job_gets_another(
    running: AgentProcess,
) -> None:
    os.mkfifo(running.work() / "go")
    first = running.launch("a", ["sh", "-c", "read line < go; exit 7"], ONE).pid
    server = server_of(running)
    os.kill(server, signal.SIGKILL)
    assert wait_gone(server)
    assert alive(parent(first))
    second = running.launch("b", ["sleep", "1000"], str(CPUS[1])).pid
    assert parent(parent(second)) == server_of(running) != server
    assert "event=fork_server_lost" in running.log()
    (running.work() / "go").write_text("\n")
    assert running.ended("a").exit_code == 7


def test_the_fork_server_ends_with_a_killed_agent_and_the_next_agent_adopts(root: Path) -> None:
    node = AgentProcess(root, *FLAGS, "--kill-jobs-on-exit").start()
    os.mkfifo(node.work() / "go")
    pid = node.launch("a", ["sh", "-c", "read line < go; exit 7"], ONE).pid
    keeper, server = parent(pid), server_of(node)
    node.kill()
    assert wait_gone(server)
    node.start()
    assert node.processes()["a"].pid == pid
    assert parent(pid) == keeper
    other = node.launch("b", ["sleep", "1000"], str(CPUS[1])).pid
    assert parent(parent(other)) == server_of(node) != server
    (node.work() / "go").write_text("\n")
    assert node.ended("a").exit_code == 7
    assert node.stop() == 0, node.log()


def test_an_agent_that_stops_leaves_no_fork_server(root: Path) -> None:
    node = AgentProcess(root, *FLAGS, "--kill-jobs-on-exit").start()
    node.launch("a", ["true"], ONE)
    server = server_of(node)
    assert node.stop() == 0, node.log()
    assert not alive(server)


def order(folder: Path, *argv: str) -> KeeperOrder:
    return KeeperOrder(
        argv=list(argv),
        env={},
        cwd=str(folder),
        stdout_path="out",
        stderr_path="err",
        snapshot_path="",
        script="",
        keep_output=False,
        affinity=list(CPUS),
        procs_paths=[],
        uid=None,
        gid=None,
        user="",
        exit_path=str(folder / "exit"),
        agent_pid_path=str(folder / "agent.pid"),
        stopped_path="",
        files_soft_max=1024,
        processes_max=0,
        groups=[],
        umask=0o022,
        limits=[],
        inherited=[],
    )


async def run_job(keepers: KeeperSource, wanted: KeeperOrder) -> dict[str, object]:
    """Starts a job, waits for its keeper; what that wrote down."""
    starting = await Starting.prepare(keepers, JobId("1"), wanted)
    ended = os.pidfd_open(starting.keeper)
    await starting.go()
    await readable(ended)
    os.close(ended)
    found: dict[str, object] = json.loads(Path(wanted.exit_path).read_bytes())
    return found


def test_an_order_may_be_longer_than_a_socket_takes_at_once(tmp_path: Path) -> None:
    async def run() -> dict[str, object]:
        with contextlib.closing(KeeperSource()) as keepers:
            wanted = order(tmp_path, "/bin/sh", "-c", 'test "${#W9}" = 100000')
            env = {f"W{number}": "x" * 100_000 for number in range(10)}
            return await run_job(keepers, replace(wanted, env=env))

    assert asyncio.run(run())["exit_code"] == 0


def test_descriptors_that_a_job_inherits_get_their_numbers(tmp_path: Path) -> None:
    """Also the numbers that the fork server has for others of them meanwhile."""
    wanted = order(tmp_path, "/bin/cat", "/proc/self/fd/10", "/proc/self/fd/9")
    wanted = replace(wanted, inherited=[9, 10])
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "two").write_text("two\n")

    async def run() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with (
            ours,
            theirs,
            open(tmp_path / "one") as one,
            open(tmp_path / "two") as two,
            contextlib.closing(KeeperSource()) as keepers,
        ):
            end = theirs.fileno()
            pid = await keepers.keeper({0: end, 1: end, 10: one.fileno(), 9: two.fileno()})
            ended = os.pidfd_open(pid)
            for line, answer in ((wanted.line(), b"pid"), ("go", b"running")):
                await loop.sock_sendall(ours, line.encode() + b"\n")
                assert answer in await loop.sock_recv(ours, 4096)
            await readable(ended)
            os.close(ended)

    asyncio.run(run())
    assert (tmp_path / "out").read_text() == "one\ntwo\n"


def test_a_server_that_does_not_answer_is_ended_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> str:
        with contextlib.closing(KeeperSource()) as keepers:
            await run_job(keepers, order(tmp_path, "/bin/true"))
            server = keepers.pid
            os.kill(server, signal.SIGSTOP)
            with monkeypatch.context() as impatient:
                impatient.setattr(keeper_source, "_ANSWER_S", 0.01)
                with pytest.raises(NodeFault) as refused:
                    await Starting.prepare(keepers, JobId("1"), order(tmp_path, "/bin/true"))
            assert not alive(server)
            await run_job(keepers, order(tmp_path, "/bin/true"))
            assert keepers.pid not in (0, server)
        return str(refused.value)

    why = os.strerror(errno.ETIMEDOUT)
    assert asyncio.run(run()) == f"job 1: cannot start a keeper: {why}"


def test_an_answer_to_a_launch_that_was_given_up_is_not_taken_for_another(tmp_path: Path) -> None:
    async def run() -> None:
        with contextlib.closing(KeeperSource()) as keepers:
            await run_job(keepers, order(tmp_path, "/bin/true"))
            server = keepers.pid
            os.kill(server, signal.SIGSTOP)
            ours, theirs = socket.socketpair()
            given_up = asyncio.create_task(keepers.keeper({0: theirs.fileno(), 1: theirs.fileno()}))
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            theirs.close()
            ours.close()
            starting = await Starting.prepare(keepers, JobId("1"), order(tmp_path, "/bin/true"))
            assert parent(starting.keeper) == keepers.pid != server
            assert parent(starting.pid) == starting.keeper
            await starting.abandon()

    asyncio.run(run())


def test_an_agent_that_dies_with_an_answer_unread_starts_no_job(tmp_path: Path) -> None:
    """The keeper then leaves nothing, though the kernel tells it of an error, not of the end."""

    async def run() -> None:
        with contextlib.closing(KeeperSource()) as keepers:
            ours, theirs = socket.socketpair()
            pid = await keepers.keeper({0: theirs.fileno(), 1: theirs.fileno()})
            theirs.close()
            ended = os.pidfd_open(pid)
            ours.sendall(order(tmp_path, "/bin/true").line().encode() + b"\n")
            await readable(ours.fileno())
            ours.close()
            await readable(ended)
            os.close(ended)

    asyncio.run(run())
    assert {path.name for path in tmp_path.iterdir()} <= {"out", "err"}


def test_no_descriptor_is_left_in_the_agent(tmp_path: Path) -> None:
    async def run() -> None:
        with contextlib.closing(KeeperSource()) as keepers:
            await run_job(keepers, order(tmp_path, "/bin/true"))
            before = os.listdir("/proc/self/fd")
            await run_job(keepers, order(tmp_path, "/bin/true"))
            with pytest.raises(Exception, match="no-such-command"):
                await run_job(keepers, order(tmp_path, "no-such-command"))
            assert os.listdir("/proc/self/fd") == before

    asyncio.run(run())
