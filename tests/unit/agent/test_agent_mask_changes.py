"""Order of mask changes of a job with tasks: no task receives a core before it may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import CpuPlace, Topology
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.mask_changes import JobRecords, MaskChanges, ShimFollower
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record
from wattfold.nodeagent.service.jobs.strays import Strays
from wattfold.nodeagent.service.jobs.tasks import NodeTasks

TWO_SOCKETS = Topology.of(
    CpuPlace(cpu=cpu, package=cpu // 4, numa_node=cpu // 4, siblings=CpuSet.of([cpu]))
    for cpu in range(8)
)


class Stage:
    """A job of two tasks with one shim each, and the changes made to it, in order."""

    def __init__(self, cpus: str, tasks: int = 2) -> None:
        self.done: list[str] = []
        mask = CpuSet.parse(cpus)
        self.job = Job(
            id=JobId("j"),
            state=JobState.RUNNING,
            cpus=mask,
            held=mask,
            mode=ResizeMode.TEAM,
            launch_cpus=8,
            tasks_per_node=tasks,
        )
        self.ranks = Ranks(TWO_SOCKETS, self.done)
        self.job.division = self.job.allowed = self.ranks.divide(self.job, mask)
        ports = JobPorts(
            store=None,
            masks=(masks := Masks(self.done)),
            groups=None,
            clock=None,
            firmware=None,
            boot_id="",
            shim_library="",
            files_soft_max=0,
            steps=None,
            node_id="n0",
            remote_shell="",
        )
        records = JobRecords(members=lambda _: [], save=lambda _: None, note=lambda _: None)
        shims = Shims(self.done, tasks)
        follower = ShimFollower(shims, self.ranks)
        jobs = {self.job.id: self.job}
        strays = Strays(jobs, masks, lambda _: [], lambda: None)
        self.changes = MaskChanges(jobs, ports, records, follower, follower, self.ranks, strays)

    def to(self, cpus: str) -> list[str]:
        self.done.clear()
        asyncio.run(self.changes.change(self.job, CpuSet.parse(cpus), 1.0))
        return list(self.done)


class Masks:
    """The kernel's mask of the job."""

    mechanism = MaskMechanism.CPUSET_V1

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def confine(self, job: JobId, members: list[int], keeper: int, cpus: CpuSet) -> None:
        self._done.append(f"cpuset {cpus}")


class Ranks(NodeTasks):
    """Ranks whose pid is their number, with recorded affinities."""

    def __init__(self, topology: Topology, done: list[str]) -> None:
        super().__init__(topology, lambda _: [])
        self._done = done

    def cpus_of(self, job: Job, pid: int) -> CpuSet:
        return job.division[pid] if job.division else job.cpus

    def allow(self, job: Job, allowed: tuple[CpuSet, ...]) -> None:
        job.allowed = allowed
        self._done.append("affinity " + " ".join(map(str, allowed)))


class Shims:
    """Shims of the ranks. They obey immediately."""

    def __init__(self, done: list[str], peers: int) -> None:
        self._done = done
        self._peers = peers

    def attached(self, job: JobId) -> bool:
        return True

    def publish(self, job: JobId, uid: int, teams: list[int], seq: int) -> None:
        self._published = seq
        self._done.append("teams " + " ".join(map(str, teams)))

    async def tell(
        self, job: JobId, seq: int, order_for: Callable[[int], MaskOrder], deadline_s: float
    ) -> bool:
        told = [order_for(pid) for pid in range(self._peers)]
        assert {order.seq for order in told} == {seq} == {self._published}
        self._done.append("told " + " ".join(str(order.cpus) for order in told))
        return True


def test_four_to_two_and_back():
    stage = Stage("0-3")
    assert stage.job.division == (CpuSet.parse("0-1"), CpuSet.parse("2-3"))
    assert stage.to("0,2") == [
        "affinity 0-1 2-3",
        "teams 2 1 1",
        "told 0 2",
        "affinity 0 2",
        "cpuset 0,2",
    ]
    assert stage.to("0-3") == [
        "cpuset 0-3",
        "affinity 0-1 2-3",
        "teams 4 2 2",
        "told 0-1 2-3",
        "affinity 0-1 2-3",
    ]


def test_a_core_that_goes_from_one_task_to_the_other():
    stage = Stage("0-3")
    assert stage.to("0-1") == [
        "affinity 0-1 1-3",
        "teams 2 1 1",
        "told 0 1",
        "affinity 0 1",
        "cpuset 0-1",
    ]


def test_fewer_cores_than_tasks():
    stage = Stage("0-1")
    assert stage.to("1") == [
        "affinity 0-1 1",
        "teams 1 1 1",
        "told 1 1",
        "affinity 1 1",
        "cpuset 1",
    ]
    assert stage.to("4-7") == [
        "cpuset 1,4-7",
        "affinity 1,4-5 1,6-7",
        "teams 4 2 2",
        "told 4-5 6-7",
        "affinity 4-5 6-7",
        "cpuset 4-7",
    ]


def test_a_job_of_one_task_is_changed_as_ever():
    stage = Stage("0-3", tasks=1)
    assert stage.job.division == ()
    assert stage.to("0-1") == ["teams 2", "told 0-1", "cpuset 0-1"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_division_survives_the_agent(tasks: int):
    stage = Stage("0-3", tasks=tasks)
    stage.to("0,2-3")
    again = from_record("j", to_record(stage.job))
    assert again.division == again.allowed == stage.job.division
    assert (again.tasks_per_node, again.uid) == (tasks, stage.job.uid)


def test_a_process_is_told_the_cores_its_job_is_to_have_while_it_still_holds_others() -> None:
    """At a shrink, the shim receives the smaller mask before the kernel's mask changes."""
    ranks = NodeTasks(TWO_SOCKETS, lambda _: [])
    job = Stage("0-3", tasks=1).job
    job.cpus = CpuSet.parse("0-1")
    assert str(job.held) == "0-3"
    assert str(ranks.cpus_of(job, 7)) == "0-1"
    job.cpus = job.held = CpuSet()
    job.resident, job.berth = True, CpuSet.parse("5")
    assert str(ranks.cpus_of(job, 7)) == "5"
