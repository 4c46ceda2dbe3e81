"""A job costs the execution of a small keeper, and keepers have all that new processes have."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest
from keeper_orders import found_keeper, order, run_job
from system.agent.agent_process import (
    NOBODY,
    AgentProcess,
    allowed_cpus,
    family,
    name_of,
    until,
)
from system.agent.conftest import CPUS, EMULATE

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.adapters.jobs.processes import Starting, readable
from wattfold.nodeagent.core.errors import Broken
from wattfold.v1 import node_agent_pb2 as pb

FLAGS = (*EMULATE, "--masks", "affinity", "--throttle", "signals")
ONE = str(CPUS[0])
ROOT = Path(__file__).resolve().parents[2]
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


def test_keepers_are_children_of_their_agent(running: AgentProcess) -> None:
    assert running.process is not None
    jobs = [
        running.launch(name, ["sleep", "1000"], ONE_EACH)
        for name, ONE_EACH in zip("ab", map(str, CPUS), strict=True)
    ]
    keepers = [parent(job.pid) for job in jobs]
    assert {name_of(keeper) for keeper in keepers} == {KEEPER}
    assert {parent(keeper) for keeper in keepers} == {running.process.pid}


def test_an_agent_collects_the_keepers_that_have_ended(running: AgentProcess) -> None:
    assert running.process is not None
    running.launch("a", ["true"], ONE)
    assert running.ended("a").exit_code == 0
    with pytest.raises(grpc.RpcError, match="cannot find the command"):
        running.launch("b", ["no-such-command"], ONE)
    until(lambda: KEEPER not in map(name_of, family(running.process.pid)))


def test_a_keeper_has_a_session_and_no_descriptors_but_its_own(running: AgentProcess) -> None:
    keeper = parent(running.launch("a", ["sleep", "1000"], ONE).pid)
    assert os.getsid(keeper) == keeper
    assert os.readlink(f"/proc/{keeper}/cwd") == "/"
    # It leaves the socket to its agent after it has reported that the job runs. It keeps its
    # descriptors of signals and of its agent.
    own = ["anon_inode", "anon_inode"]
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


def test_keepers_outlive_a_killed_agent_and_the_next_agent_adopts(root: Path) -> None:
    node = AgentProcess(root, *FLAGS, "--kill-jobs-on-exit").start()
    os.mkfifo(node.work() / "go")
    pid = node.launch("a", ["sh", "-c", "read line < go; exit 7"], ONE).pid
    keeper = parent(pid)
    node.kill()
    node.start()
    assert node.processes()["a"].pid == pid
    assert parent(pid) == keeper
    (node.work() / "go").write_text("\n")
    assert node.ended("a").exit_code == 7
    assert node.stop() == 0, node.log()


def test_a_program_that_was_replaced_stays_that_of_a_running_agent(tmp_path: Path) -> None:
    """An upgrade puts the keeper of the next version there."""
    program = tmp_path / "keeper"
    shutil.copy(found_keeper(), program)

    async def run() -> dict[str, object]:
        with contextlib.closing(KeeperSource(program)) as keepers:
            await run_job(keepers, order(tmp_path, "/bin/true"))
            program.unlink()
            program.write_text("#!/bin/false\n")
            return await run_job(keepers, order(tmp_path, "/bin/sh", "-c", "exit 7"))

    assert asyncio.run(run())["exit_code"] == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\necho wattfold-keeper 0\n", "is 'wattfold-keeper 0', and this agent needs"),
        ("#!/bin/sh\nexit 1\n", "cannot execute"),
        ("", "cannot execute"),
        (None, "cannot open"),
    ],
)
def test_a_keeper_that_does_not_fit_is_told(tmp_path: Path, text: str | None, why: str) -> None:
    program = tmp_path / "keeper"
    if text is not None:
        program.write_text(text)
        program.chmod(0o755)
    assert why in KeeperSource(program).fault()

    async def launch() -> None:
        await Starting.prepare(KeeperSource(program), JobId("1"), order(tmp_path, "/bin/true"))

    before = os.listdir("/proc/self/fd")
    with pytest.raises(Broken, match=why):
        asyncio.run(launch())
    assert os.listdir("/proc/self/fd") == before


def test_an_order_may_be_longer_than_a_socket_takes_at_once(tmp_path: Path) -> None:
    async def run() -> dict[str, object]:
        with contextlib.closing(KeeperSource()) as keepers:
            wanted = order(tmp_path, "/bin/sh", "-c", 'test "${#W9}" = 100000')
            env = {f"W{number}": "x" * 100_000 for number in range(10)}
            return await run_job(keepers, replace(wanted, env=env))

    assert asyncio.run(run())["exit_code"] == 0


def test_descriptors_that_a_job_inherits_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("one\n")
    (tmp_path / "two").write_text("two\n")

    async def run() -> None:
        with contextlib.closing(KeeperSource()) as keepers:
            # Jobs get no others: those between and above them are closed.
            fds = [os.open(tmp_path / name, os.O_RDONLY) for name in ("two", "one", "two")]
            os.set_inheritable(fds[1], True)
            paths = [f"/proc/self/fd/{fd}" for fd in fds]
            script = f"cat {paths[2]} {paths[0]}; test ! -e {paths[1]}"
            wanted = order(tmp_path, "/bin/sh", "-c", script, env={"PATH": os.defpath})
            found = await run_job(keepers, replace(wanted, inherited=[fds[2], fds[0]]))
            assert found["exit_code"] == 0
            os.close(fds[1])

    asyncio.run(run())
    assert (tmp_path / "out").read_text() == "two\ntwo\n"


def test_an_agent_that_dies_with_an_answer_unread_starts_no_job(tmp_path: Path) -> None:
    """The keeper then leaves nothing, though the kernel tells it of an error, not of the end."""

    async def run() -> None:
        with contextlib.closing(KeeperSource()) as keepers:
            ours, theirs = socket.socketpair()
            pid = keepers.keeper(theirs.fileno(), ())
            theirs.close()
            ended = os.pidfd_open(pid)
            ours.sendall(order(tmp_path, "/bin/true").message())
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


def test_a_node_without_a_keeper_says_so_and_starts_jobs_when_it_is_there(root: Path) -> None:
    """It keeps caps meanwhile, and starts jobs when the program is there."""
    places = copied_sources(root)
    node = AgentProcess(root, *FLAGS, "--kill-jobs-on-exit")
    node.libraries = places.libraries
    node.start()
    why = "no wattfold-keeper, the program that starts jobs: install wattfold-shims"
    assert "event=node_cannot_start_jobs" in node.log()
    assert why in node.log()
    node.lease()
    assert node.caps(package_0=40)[0].status == pb.CAP_STATUS_OK
    with pytest.raises(grpc.RpcError, match=why):
        node.launch("a", ["true"], ONE)
    shutil.copy(found_keeper(), places.lib / KEEPER)
    until(lambda: "event=node_can_start_jobs" in node.log())
    node.launch("a", ["true"], ONE)
    assert node.ended("a").exit_code == 0
    assert node.stop() == 0, node.log()


@dataclass(frozen=True)
class Copied:
    """Sources as an installation has them, and the folder of their compiled files."""

    libraries: str
    lib: Path


def copied_sources(root: Path) -> Copied:
    """The sources of this checkout in another place, so that nothing built is found there."""
    shims = root / "installed"
    shutil.copytree(ROOT / "runtime_shims/src", shims)
    lib = shims / "wattfold/shims/lib"
    lib.mkdir()
    own = str(ROOT / "runtime_shims/src")
    return Copied(":".join([str(shims), *(p for p in sys.path if p and p != own)]), lib)
