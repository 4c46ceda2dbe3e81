"""Adoption of Slurm's steps: what is refused, and what ends with slurmstepd."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.step_groups import StepGroups
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.adoption import StepOpened, TaskExited, TaskForked
from wattfold.nodeagent.core.errors import NotPermitted, WrongState
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.background import Background
from wattfold.nodeagent.service.jobs.adopted import AdoptedJobs
from wattfold.nodeagent.service.jobs.job_ends import JobEnds
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.records import Job, JobState

JOB = JobId("slurm-7")
TASK_PID = 4_000_000
"""No process of this host has this number: it exists in the test's own tree only."""


class Uncounted:
    """A clock without control groups."""

    def prepare(self, job: JobId) -> tuple[Path, ...]:
        return ()

    def count_in(self, job: JobId, group: Path) -> None:
        return


class Sockets:
    """Sockets of shims: the jobs that have one."""

    def __init__(self) -> None:
        self.opened: list[JobId] = []

    def endpoint(self, job: JobId) -> str:
        return f"ipc:///run/{job}"

    def open(self, job: JobId, uid: int) -> None:
        self.opened.append(job)


class Node:
    """A node with CPUs 0-3, a tree of control groups and a process as slurmstepd."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = StateStore(folder / "state")
        self.jobs: dict[JobId, Job] = {}
        self.sockets = Sockets()
        self.over: list[JobId] = []
        self.background = Background()
        ports = JobPorts(
            store=self.store,
            masks=None,  # type: ignore[arg-type]
            groups=None,  # type: ignore[arg-type]
            clock=Uncounted(),  # type: ignore[arg-type]
            firmware=None,
            boot_id="boot",
            shim_library="/lib/shim.so",
            files_soft_max=0,
            steps=None,  # type: ignore[arg-type]
            node_id="n0",
            remote_shell="",
            slurm=StepGroups(folder, proc=folder / "proc"),
        )
        files, spawn = JobFiles(self.store), self.background.spawn
        ends = JobEnds(ports, files, None, None, spawn, self._ended)  # type: ignore[arg-type]
        cpus, sockets = CpuSet.parse("0-3"), self.sockets
        self.adopted = AdoptedJobs(
            self.jobs,
            cpus,
            ports,
            files,
            ends,
            sockets,
            spawn,
            lambda: None,  # type: ignore[arg-type]
        )
        self.slurmstepd = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def _ended(self, job: Job) -> None:
        self.over.append(job.id)
        job.over.set()

    def end_slurmstepd(self) -> None:
        assert self.slurmstepd.stdin is not None
        self.slurmstepd.stdin.close()
        self.slurmstepd.wait()

    def group(self, job: int = 7, step: str = "0", cpus: str = "0-1", pid: int = TASK_PID) -> Path:
        """Let Slurm make the cpusets of a step, and put a task into it."""
        group = self.folder / "cpuset" / f"job_{job}" / f"step_{step}"
        group.mkdir(parents=True)
        for path in (group, group.parent):
            (path / "cpuset.cpus").write_text(cpus)
        process = self.folder / "proc" / str(pid)
        process.mkdir(parents=True)
        (process / "cgroup").write_text(f"1:cpuset:/job_{job}/step_{step}\n")
        return group

    async def open(self, step: str = "0", job: JobId = JOB, **fields: Any) -> dict[str, str]:
        values = {"uid": 1000, "tasks": 1, "cpus": 2, "mode": ResizeMode.TEAM} | fields
        opened = StepOpened(job=job, step=step, **values)
        return await self.adopted.answer(opened, self.slurmstepd.pid)

    async def task(self, step: str = "0", job: JobId = JOB, pid: int = TASK_PID) -> None:
        forked = TaskForked(job=job, step=step, task=0, pid=pid)
        await self.adopted.answer(forked, self.slurmstepd.pid)

    async def exited(self, code: int, step: str = "0", signal: int = 0) -> None:
        exited = TaskExited(job=JOB, step=step, task=0, code=code, signal=signal)
        await self.adopted.answer(exited, self.slurmstepd.pid)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.end_slurmstepd()
    made.store.close()


def run(node: Node, test: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        async with asyncio.timeout(120):
            await test()
        for job in node.jobs.values():
            job.close_watches()
        node.background.stop()

    asyncio.run(go())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_a_step_is_adopted_with_its_first_task(node: Node) -> None:
    async def test() -> None:
        node.group()
        env = await node.open()
        assert env["WATTFOLD_SHIM_ENDPOINT"] == "ipc:///run/slurm-7"
        assert not node.jobs, "a step without a task holds nothing"
        await node.task()
        job = node.jobs[JOB]
        assert (str(job.cpus), str(job.allocation), job.owner) == ("0-1", "0-1", "slurm")
        assert node.sockets.opened == [JOB]
        assert node.store.read("jobs/slurm-7.json")["steps"][0]["name"] == "0"

    run(node, test)


def test_an_opened_step_ends_with_its_slurmstepd(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        assert node.adopted.opened == {(JOB, "0")}
        node.end_slurmstepd()
        await until(lambda: not node.adopted.opened)
        with pytest.raises(WrongState, match="was not opened"):
            await node.task()

    run(node, test)


def test_a_step_that_is_opened_again_is_watched_once(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        await node.open()
        await node.task()
        assert not node.adopted.opened

    run(node, test)


def test_a_job_ends_with_its_last_step(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        await node.task()
        await node.exited(3)
        node.end_slurmstepd()
        await until(lambda: node.over == [JOB])
        assert (node.jobs[JOB].state, node.jobs[JOB].exit_code) == (JobState.ENDED, 3)

    run(node, test)


def test_the_status_of_a_batch_script_is_that_of_its_job(node: Node) -> None:
    async def test() -> None:
        node.group(step="batch")
        await node.open("batch")
        await node.task("batch")
        node.jobs[JOB].exit_code = 9
        await node.exited(0, "batch")
        assert node.jobs[JOB].exit_code == 0
        await node.exited(0, "batch", signal=15)
        assert (node.jobs[JOB].exit_code, node.jobs[JOB].signal) == (143, 15)

    run(node, test)


def test_a_job_of_the_same_number_begins_anew(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        await node.task()
        node.jobs[JOB].state = JobState.ENDED
        node.jobs[JOB].steps.clear()
        await node.open()
        await node.task()
        assert (node.jobs[JOB].state, node.jobs[JOB].attempt) == (JobState.RUNNING, 2)

    run(node, test)


def test_the_strictest_mode_of_the_steps_is_that_of_the_job(node: Node) -> None:
    async def test() -> None:
        node.group()
        node.group(step="1", pid=TASK_PID + 1)
        await node.open(mode=ResizeMode.FIXED)
        await node.task()
        await node.open("1", mode=ResizeMode.TEAM)
        await node.task("1", pid=TASK_PID + 1)
        assert node.jobs[JOB].mode is ResizeMode.FIXED
        del node.jobs[JOB].steps["0"]
        node.group(step="2", pid=TASK_PID + 2)
        await node.open("2", mode=ResizeMode.MASK)
        await node.task("2", pid=TASK_PID + 2)
        assert node.jobs[JOB].mode is ResizeMode.TEAM

    run(node, test)


def refused_task(node: Node, reason: str) -> None:
    async def test() -> None:
        await node.open()
        with pytest.raises(Exception, match=reason):
            await node.task()
        assert JOB not in node.jobs
        assert not node.store.job_ids()

    run(node, test)


def test_a_task_without_a_cpuset_is_refused(node: Node) -> None:
    refused_task(node, "TaskPlugin=task/cgroup with ConstrainCores=yes")


def test_cores_outside_of_the_node_are_refused(node: Node) -> None:
    node.group(cpus="3-4")
    refused_task(node, "CPUs 4 are not CPUs of this node")


def test_cores_of_another_job_are_refused(node: Node) -> None:
    async def test() -> None:
        node.group()
        node.group(job=8, cpus="1-2", pid=TASK_PID + 1)
        await node.open()
        await node.task()
        other = JobId("slurm-8")
        await node.open(job=other)
        with pytest.raises(WrongState, match="CPUs 1 are held by job slurm-7"):
            await node.task(job=other, pid=TASK_PID + 1)
        assert other not in node.jobs

    run(node, test)


def test_a_step_of_another_account_is_refused(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        await node.task()
        with pytest.raises(NotPermitted, match="belongs to account 1000, not 2000"):
            await node.open("1", uid=2000)

    run(node, test)


def test_a_new_step_begins_within_the_mask_of_its_job(node: Node) -> None:
    async def test() -> None:
        node.group()
        await node.open()
        await node.task()
        job = node.jobs[JOB]
        job.cpus = job.held = CpuSet.parse("1")
        second = node.group(step="1", pid=TASK_PID + 1)
        await node.open("1")
        await node.task("1", pid=TASK_PID + 1)
        assert (second / "cpuset.cpus").read_text() == "1"

    run(node, test)
