"""Safety rules on power and cores that lacked a test. Each rule was broken once."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from property.agent.emulated_node import EmulatedNode
from property.agent.emulated_node import S as NS
from unit.core.stage import Stage, W, caps, job_spec, leave, on, running

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId, ZoneName
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.events import NodeOrder
from wattfold.coordinator.core.power.ledger import PowerLedger
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.caps import CapStatus
from wattfold.nodeagent.core.errors import WrongState
from wattfold.nodeagent.core.gpus import NodeGpu
from wattfold.nodeagent.core.launch import LaunchOrder, ResizeMode
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.service.jobs.job_files import JobFiles
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.jobs.records import Job, JobState

N0, N1, N2 = NodeId("n0"), NodeId("n1"), NodeId("n2")


def leased_node() -> EmulatedNode:
    node = EmulatedNode(load_fixture("xeon-e5-2620").machine)
    node.start()
    assert node.renew(3600 * NS)
    return node


def test_a_raise_that_was_refused_is_not_made_later() -> None:
    """The answer says that 50 W hold, so the ledger gives the rest to other nodes."""
    node = leased_node()
    folder = node.folders["package-0"]
    node.set_caps({"package-0": 50 * W})
    file = "constraint_0_power_limit_uw"
    node.model.fail_next(folder, file, errno.EIO, 1)
    (outcome,) = node.set_caps({"package-0": 80 * W})
    assert outcome.status is CapStatus.DEVICE_ERROR
    node.pass_time(20)
    assert node.model.enforced_uw(folder) == 50 * W


@pytest.mark.parametrize("end", ["expired", "stopped", "left"])
def test_the_guard_is_told_that_the_lease_has_ended(end: str) -> None:
    """Otherwise the guard of a killed agent would wait for the original end of the lease."""
    node = leased_node()
    assert node.power is not None
    assert node.guard.deadline_ns > 0
    if end == "expired":
        assert node.renew(NS)
        node.pass_time(15)
    elif end == "stopped":
        node.power.stop()
    else:
        node.power.leave()
    assert node.guard.deadline_ns == 0


def test_a_guard_takes_over_at_once_where_a_stop_could_not_reach_the_floor() -> None:
    node = leased_node()
    folder = node.folders["package-0"]
    node.set_caps({"package-0": 80 * W})
    node.model.fail_next(folder, "constraint_0_power_limit_uw", errno.EIO, 2)
    assert not node.stop()
    node.pass_time(1)
    node.model.zones[folder].faults.clear()
    assert node.guard.acted


def test_power_outside_the_ledger_is_not_free() -> None:
    ledger = PowerLedger(budget_uw=100)
    ledger.open(N0, 20, {ZoneName("package-0"): 10})
    ledger.outside_uw = 30
    assert (ledger.room_uw, ledger.free_uw) == (70, 40)
    assert not ledger.may_raise(N0, {ZoneName("package-0"): 51})
    ledger.outside_uw = 90
    assert ledger.free_uw == 0


def test_a_raise_leaves_room_for_a_node_outside_while_another_cap_settles() -> None:
    """n2 was removed as off but answers: its 20 W and the 60 W that n1 may still draw count."""
    stage = Stage(100)
    stage.up("n0", "n1", "n2")
    stage.run_job("a", "n1:0-3", cap_w=50)
    stage.silent("n2")
    stage.after(30)
    stage.order("n2", NodeOrder.FORGET_UNPOWERED)
    stage.connect("n2")
    assert stage.committed_w == 80
    stage.submit("b")
    stage.need_plan()
    stage.plan(on("a", "n1:0-3", cap_w=20), on("b", "n0:0-3", cap_w=20))
    stage.launched("n0", "b")
    stage.leased("n0")
    stage.leased("n1", 50)
    sent = stage.confirm("n1")
    assert caps("n0", 20) not in sent, "the window of n1 has not passed"
    assert caps("n0", 20) in stage.after(1)


@pytest.mark.parametrize("error", ["", "refused"])
def test_a_zone_that_refuses_its_caps_is_not_at_its_floor_when_the_lease_ends(error: str) -> None:
    stage = Stage(100)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=50)
    stage.cancel("a")
    stage.process_ended("n0", "a")
    stage.caps_are("n0", 50, error=error)
    stage.silent("n0")
    stage.after(60)
    stage.after(60)
    assert stage.charge_w("n0") == (60 if error else 20)
    stage.connect("n0", 10)
    stage.after(2)
    assert stage.charge_w("n0") == 20, "what is read back counts"


def test_a_leave_is_due_when_no_lost_command_can_arrive_any_more() -> None:
    stage = Stage(1000)
    stage.up("n0")
    stage.after(4)
    node = stage.core.state.nodes[N0]
    stage.send(reports.LeaseUnconfirmed(node_id=N0, request_id=node.lease_request, reason="lost"))
    from_ns = node.leave_from_ns
    assert leave("n0") not in stage.order("n0", NodeOrder.LEAVE)
    while node.leave_from_ns > stage.now_ns:
        if node.lease_request:
            stage.leased("n0")
        assert stage.wake_ns > stage.now_ns
        assert stage.wake_ns <= from_ns, "it would be late"
        stage.now_ns = stage.wake_ns
        sent = stage.send(ev.TimePassed())
    assert stage.now_ns == from_ns
    assert leave("n0") in (sent if not node.lease_request else stage.leased("n0"))


def test_a_running_job_with_a_stray_process_elsewhere_stays_in_the_snapshot() -> None:
    """Otherwise a policy gives its cores and power to other jobs."""
    stage = Stage(1000)
    stage.up("n0", "n1")
    stage.run_job("a", "n0:0-3", cap_w=30)
    stage.connect("n1", processes=(running("a", "0-1"),))
    assert stage.core.state.stray_jobs() == {JobId("a")}
    assert [view.job_id for view in stage.core.snapshot(stage.now_ns).jobs] == ["a"]


def test_a_job_whose_process_is_not_there_yet_is_in_the_snapshot_with_what_it_has() -> None:
    stage = Stage(1000)
    stage.up("n0")
    stage.submit("a")
    stage.plan(target := on("a", "n0:0-3", cap_w=30))
    assert not any(rank.running for rank in stage.job("a").ranks.values())
    (view,) = stage.core.snapshot(stage.now_ns).jobs
    assert (view.job_id, view.current) == ("a", target)


def test_a_job_with_a_stray_process_does_not_start_a_second_time() -> None:
    stage = Stage(1000)
    stage.up("n0")
    stage.submit("a", job_spec())
    stage.connect("n0", processes=(running("a", "0-1"),))
    assert not stage.core.snapshot(stage.now_ns).jobs or stage.job("a").ranks


# The agent.


class Groups:
    """Neither cgroups nor masks: these tests start no process."""

    mechanism = MaskMechanism.CPUSET_V1

    def keep_only(self, live: Iterable[JobId]) -> None:
        del live

    def __getattr__(self, name: str) -> Any:
        def nothing(*_: Any, **__: Any) -> None:
            return None

        return nothing


def node_jobs(store: StateStore, folder: Path, boot_id: str = "boot-1") -> NodeJobs:
    ports = JobPorts(
        store=store,
        masks=Groups(),  # type: ignore[arg-type]
        groups=Groups(),  # type: ignore[arg-type]
        clock=Groups(),  # type: ignore[arg-type]
        firmware=None,
        boot_id=boot_id,
        shim_library="",
        files_soft_max=0,
        steps=Groups(),  # type: ignore[arg-type]
        node_id="n0",
        remote_shell="",
        gpus=(NodeGpu(id="GPU-a"), NodeGpu(id="GPU-b")),
    )
    return NodeJobs(CpuSet.parse("0-7"), ports, folder / "s", lambda: None)


def held_job(**fields: Any) -> Job:
    mask = CpuSet.parse("0-1")
    about = {"state": JobState.RUNNING, "cpus": mask, "held": mask, "boot_id": "boot-1"}
    return Job(id=JobId("a"), mode=ResizeMode.MASK, launch_cpus=2, **about | fields)


@pytest.mark.parametrize("state", [JobState.STARTING, JobState.RUNNING])
def test_the_agent_gives_no_gpu_to_a_second_job(tmp_path: Path, state: JobState) -> None:
    jobs = node_jobs(StateStore(tmp_path / "state"), tmp_path)
    jobs.jobs[JobId("a")] = held_job(state=state, gpus=("GPU-a",))
    order = LaunchOrder(
        job=JobId("b"),
        argv=("true",),
        env={},
        cwd="/",
        cpus=CpuSet.parse("2-3"),
        launch_cpus=2,
        gpus=("GPU-a",),
        stdout_path="",
        stderr_path="",
        mode=ResizeMode.MASK,
        rank=0,
        ranks=1,
        user="",
    )
    with pytest.raises(WrongState, match="GPU GPU-a is held by job a"):
        asyncio.run(jobs.launch(order))
    assert list(jobs.jobs) == ["a"]
    with pytest.raises(WrongState, match="GPU GPU-a is held by job a"):
        asyncio.run(jobs.launch(replace(order, gpus=("GPU-b", "GPU-a"))))


def test_jobs_of_another_boot_are_lost_and_never_adopted(tmp_path: Path) -> None:
    """Their process numbers may belong to any process by now."""

    async def run() -> Job:
        store = StateStore(tmp_path / "state")
        JobFiles(store).save(held_job(pid=1, keeper=2**30, keeper_ticks=1))
        jobs = node_jobs(store, tmp_path, boot_id="boot-2")
        jobs.start()
        jobs.stop()
        return jobs.jobs[JobId("a")]

    job = asyncio.run(run())
    assert job.state is JobState.LOST
    assert job.message == "exit status unknown: the node was rebooted"
