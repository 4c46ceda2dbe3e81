"""Jobs of a resource manager: caps and cores are ours, starts and ends are not."""

from __future__ import annotations

from typing import Any

import pytest
from unit.core.stage import S, Stage, caps, ended, mask, on
from unit.core.test_core_reservations import window

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.adopted import AdoptedJob
from wattfold.coordinator.core.model.emergency import EmergencyBegun, EmergencyOrder, JobStep
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobKind, ResizeMode
from wattfold.coordinator.core.model.resource_manager import (
    ManagedEnd,
    ManagedJob,
    ManagedState,
    ManagerConfigured,
    ManagerLost,
    ManagerSeen,
)
from wattfold.coordinator.core.rules.jobs import job_ends

S7 = JobId("slurm-7")
N0 = NodeId("n0")
ENDS = (act.Launch, act.Terminate, act.Suspend)


class Guest(Stage):
    """A core in guest mode, and everything it ever ordered."""

    def __init__(self, budget_w: float = 1000, *nodes: str) -> None:
        super().__init__(budget_w)
        self.orders: list[act.Action] = []
        self.send(ManagerConfigured(name="slurm"))
        self.up(*(nodes or ("n0",)))

    def send(self, event: ev.Event) -> list[act.Action]:
        out = super().send(event)
        self.__dict__.setdefault("orders", []).extend(out)
        return out

    def slurm(self, *jobs: ManagedJob, complete: bool = True, **more: Any) -> list[act.Action]:
        return self.send(ManagerSeen(manager="slurm", complete=complete, jobs=jobs, **more))

    def adopt(self, job: str, cpus: str, allocated: str = "", node: str = "n0") -> list[act.Action]:
        there = AdoptedJob(
            job_id=JobId(job),
            cpus=CpuSet.parse(cpus),
            allocated=CpuSet.parse(allocated or cpus),
            mode=ResizeMode.TEAM,
            app="solver",
        )
        return self.send(reports.AdoptedJobsSeen(node_id=NodeId(node), jobs=(there,)))

    def of(self, job: str = S7) -> Job:
        return self.core.state.jobs[JobId(job)]


def job(number: int = 7, cores: int = 2, **fields: Any) -> ManagedJob:
    values: dict[str, Any] = {
        "state": ManagedState.RUNNING,
        "nodes": (N0,),
        "submitted": "100",
        "started": "200",
        **fields,
    }
    if values["state"] is ManagedState.PENDING:
        values |= {"nodes": (), "started": ""}
    return ManagedJob(
        job_id=JobId(f"slurm-{number}"),
        name="run.sh",
        user="ada",
        uid=1000,
        partition="main",
        cores=cores,
        label=str(number),
        **values,
    )


def pending(number: int = 7, **fields: Any) -> ManagedJob:
    return job(number, state=ManagedState.PENDING, reason="Priority", **fields)


def test_a_running_job_gets_a_cap_and_its_end_takes_it_back() -> None:
    site = Guest()
    site.slurm(job())
    assert site.of().state is JobState.RUNNING
    assert site.of().target == on(S7, "n0:0-1", cap_w=10)
    assert site.plan(on(S7, "n0:2-3", cap_w=50)) == [caps("n0", 30)]
    assert site.of().target == on(S7, "n0:0-1", cap_w=50)
    site.caps_are("n0", 30)
    out = site.slurm(complete=False, ended=(ManagedEnd(job_id=S7, exit_code=3),))
    assert caps("n0", 10) in out
    assert (site.of().state, site.of().exit_code) == (JobState.FAILED, 3)
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_a_pending_job_waits_in_slurm_and_no_policy_sees_it() -> None:
    site = Guest()
    site.slurm(pending())
    assert site.of().state is JobState.WAITING
    assert site.of().reason == "waits in Slurm: Priority"
    assert site.core.snapshot(site.now_ns).jobs == ()
    assert not site.plan(on(S7, "n0:0-1"))
    assert site.of().state is JobState.WAITING


def test_an_adopted_job_shrinks_and_grows_within_its_allocation() -> None:
    site = Guest()
    site.slurm(job())
    site.adopt(S7, "2-3")
    assert site.of().target == on(S7, "n0:2-3", cap_w=10)
    assert site.of().spec.kind is JobKind.MALLEABLE
    assert (site.of().spec.app, site.of().spec.mode) == ("solver", ResizeMode.TEAM)
    assert mask("n0", S7, "2") in site.plan(on(S7, "n0:0", cap_w=10))
    site.mask_is("n0", S7, "2")
    site.adopt("slurm-8", "0", "0-1")
    assert mask("n0", S7, "2-3") in site.plan(on(S7, "n0:0-1", cap_w=10))


def test_a_job_that_is_not_adopted_is_never_resized() -> None:
    site = Guest()
    site.slurm(job())
    assert site.plan(on(S7, "n0:0", cap_w=10)) == []
    assert site.of().target == on(S7, "n0:0-1", cap_w=10)


def test_adopted_jobs_have_their_own_cores_and_the_others_get_the_rest() -> None:
    site = Guest()
    site.slurm(job(7), job(8))
    site.adopt("slurm-8", "0-1")
    assert site.of("slurm-8").target == on("slurm-8", "n0:0-1", cap_w=10)
    assert site.of("slurm-7").target == on("slurm-7", "n0:2-3", cap_w=10)


def test_more_cores_than_the_node_has_are_not_counted_twice() -> None:
    site = Guest()
    site.slurm(job(7, cores=3), job(8, cores=3), job(9, cores=3))
    assert site.of("slurm-8").target == on("slurm-8", "n0:3", cap_w=10)
    assert site.of("slurm-9").target is None
    assert [one.job_id for one in site.core.snapshot(0).jobs] == ["slurm-7", "slurm-8"]
    assert site.plan(on(S7, "n0:0-2", cap_w=50)) == [caps("n0", 40)]
    site.slurm(job(8, cores=3), job(9, cores=3))
    assert site.of("slurm-9").target == on("slurm-9", "n0:3", cap_w=10)


def test_the_last_step_of_a_job_ends_without_the_job() -> None:
    site = Guest()
    site.slurm(job())
    site.adopt(S7, "2-3")
    site.plan(on(S7, "n0:0", cap_w=10))
    site.mask_is("n0", S7, "2")
    used = ended(S7, energy_uj=5, cpu_ns=6)
    site.send(reports.ProcessEnded(node_id=N0, process=used))
    assert site.of().state is JobState.RUNNING
    assert site.of().target == on(S7, "n0:2-3", cap_w=10)
    assert site.of().spec.kind is JobKind.RIGID
    site.slurm(complete=False, ended=(ManagedEnd(job_id=S7),))
    assert site.of().ranks[N0].end.energy_uj == 5
    assert site.of().state is JobState.COMPLETED


def test_steps_without_a_job_keep_their_cores() -> None:
    site = Guest()
    site.slurm(job())
    site.adopt(S7, "2-3")
    site.slurm()
    assert site.of().state is JobState.LOST
    assert {str(cpus) for cpus in site.core.state.nodes[N0].foreign.values()} == {"2-3"}
    site.slurm(job(8, cores=4))
    assert site.of("slurm-8").target == on("slurm-8", "n0:0-1", cap_w=10)
    site.order("n0", ev.NodeOrder.FORGET_OUTSIDE, "test")
    site.order("n0", ev.NodeOrder.RESUME)
    site.send(reports.ProcessEnded(node_id=N0, process=ended(S7)))
    assert not site.core.state.nodes[N0].foreign
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_a_number_that_is_used_again_is_another_job() -> None:
    site = Guest()
    site.slurm(job())
    site.adopt(S7, "0-1")
    site.send(ev.JobResizeRequested(job_id=S7, size=1))
    site.send(reports.ProcessEnded(node_id=N0, process=ended(S7)))
    site.slurm()
    site.slurm(job(submitted="900", started="901", cores=1))
    assert site.of().state is JobState.RUNNING
    assert site.of().target == on(S7, "n0:0", cap_w=10)
    site.slurm(job(submitted="950", started="951", cores=4))
    assert site.of().target == on(S7, "n0:0-3", cap_w=10)
    assert site.of().size_asked == 0


def test_a_requeued_job_waits_and_starts_again() -> None:
    site = Guest()
    site.slurm(job())
    site.plan(on(S7, "n0:0-1", cap_w=50))
    site.slurm(pending(), complete=False)
    assert (site.of().state, site.of().target) == (JobState.WAITING, None)
    site.slurm(job(started="300"), complete=False)
    assert site.of().state is JobState.RUNNING
    assert site.of().target == on(S7, "n0:0-1", cap_w=10)


def test_times_of_slurm_count_until_now() -> None:
    site = Guest()
    site.now_ns = 500 * S
    site.slurm(job(submitted="100", started="200"), pending(8, submitted="900"))
    assert (site.of().submitted_ns, site.of().started_ns) == (100 * S, 200 * S)
    site.slurm(pending(8, submitted="Unknown"))
    assert site.of("slurm-8").submitted_ns == 500 * S


def test_a_restart_between_two_looks_is_another_start() -> None:
    site = Guest()
    site.slurm(job())
    site.plan(on(S7, "n0:0-1", cap_w=50))
    site.now_ns += 5
    site.slurm(job(started="300"), complete=False)
    assert site.of().started_ns == site.now_ns
    assert site.of().target == on(S7, "n0:0-1", cap_w=10)


def test_a_waiting_job_with_a_number_that_is_used_again_is_another_job() -> None:
    site = Guest()
    site.slurm(pending())
    site.now_ns += 5
    site.slurm(pending())
    assert site.of().submitted_ns == 0
    site.slurm(pending(submitted="900"))
    assert site.of().submitted_ns == 5


def test_a_suspended_job_keeps_its_cap() -> None:
    site = Guest()
    site.slurm(job())
    site.plan(on(S7, "n0:0-1", cap_w=50))
    site.caps_are("n0", 30)
    site.slurm(job(state=ManagedState.SUSPENDED), complete=False)
    assert site.of().state is JobState.SUSPENDED
    assert caps("n0", 10) not in site.after(60)
    site.slurm(job(), complete=False)
    assert site.of().state is JobState.RUNNING
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_a_job_on_two_nodes_keeps_its_cores_and_shares_power() -> None:
    site = Guest(1000, "n0", "n1")
    both = job(cores=6, nodes=(N0, NodeId("n1"), NodeId("unknown")))
    site.slurm(both)
    target = site.of().target
    assert target == on(S7, "n0:0-1", "n1:0-1", cap_w=10)
    out = site.plan(on(S7, "n0:0-1", "n1:0-1", cap_w=50))
    assert out == [caps("n0", 30), caps("n1", 30)]
    site.adopt(S7, "2-3", node="n1")
    assert site.of().target == on(S7, "n0:0-1", "n1:2-3", cap_w=50)


def test_nothing_changes_while_slurm_is_silent() -> None:
    site = Guest()
    site.slurm(job())
    before = site.of().target
    assert site.send(ManagerLost(manager="slurm", reason="squeue failed")) == []
    assert (site.core.state.manager.reachable, site.of().target) == (False, before)
    site.slurm(job())
    assert site.core.state.manager.reachable


def test_our_orders_do_not_reach_a_job_of_slurm() -> None:
    site = Guest()
    site.slurm(job(), pending(8))
    for name in (S7, JobId("slurm-8")):
        site.send(ev.JobCancelRequested(job_id=name, force=True))
        site.send(ev.JobHeld(job_id=name))
        site.send(ev.JobReleased(job_id=name))
        site.send(ev.JobSuspendRequested(job_id=name))
        site.send(ev.JobRequeueRequested(job_id=name))
    assert site.of().state is JobState.RUNNING
    assert site.of("slurm-8").state is JobState.WAITING
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_a_node_that_returns_has_the_cores_that_its_agent_reports() -> None:
    site = Guest()
    site.slurm(job())
    site.adopt(S7, "2-3")
    site.silent("n0")
    there = AdoptedJob(
        job_id=S7, cpus=CpuSet.parse("3"), allocated=CpuSet.parse("2-3"), mode=ResizeMode.MASK
    )
    process = reports.ProcessReading(job_id=S7, running=True, pid=4, cpus=there.cpus, adopted=there)
    out = site.connect("n0", 10, (process,))
    assert site.of().state is JobState.RUNNING
    assert mask("n0", S7, "2-3") in out
    site.silent("n0")
    site.connect("n0", 10)
    assert site.of().state is JobState.RUNNING
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_the_configuration_gives_the_jobs_up() -> None:
    site = Guest()
    site.slurm(job())
    site.send(ManagerConfigured(name=""))
    assert site.of().state is JobState.LOST
    assert site.slurm(job()) == []


def test_the_journal_replays_all_of_it() -> None:
    site = Guest(1000, "n0", "n1")
    site.slurm(job(), pending(8))
    site.adopt(S7, "2-3")
    site.plan(on(S7, "n0:0", cap_w=10))
    site.mask_is("n0", S7, "2")
    site.slurm(job(8, cores=4, nodes=(NodeId("n1"),)), complete=False)
    again = Stage(1000, start=False)
    for event, now_ns in site.history:
        loaded = codec.load_event(*codec.dump_event(event))
        assert loaded == event
        again.core.handle(loaded, now_ns)
    assert codec.dump_state(again.core.state) == codec.dump_state(site.core.state)
    assert codec.load_state(codec.dump_state(again.core.state)) == again.core.state


@pytest.mark.parametrize("count", [1, 3])
def test_the_budget_is_never_exceeded_by_jobs_of_slurm(count: int) -> None:
    site = Guest(45)
    site.slurm(*(job(number, cores=1) for number in range(count)))
    site.plan(*(on(f"slurm-{n}", f"n0:{n}", cap_w=50) for n in range(count)))
    assert site.core.state.ledger.committed_uw <= site.core.state.ledger.budget_uw


@pytest.mark.parametrize("step", [JobStep.SUSPEND, JobStep.END])
def test_an_emergency_below_the_floors_stops_no_job_of_slurm(step: JobStep) -> None:
    site = Guest()
    site.slurm(job())
    site.send(EmergencyBegun(limit_uw=1, order=EmergencyOrder(jobs=step)))
    site.after(30)
    assert site.of().state is JobState.RUNNING
    assert not [order for order in site.orders if isinstance(order, ENDS)]


def test_a_reservation_ends_no_job_of_slurm() -> None:
    site = Guest()
    site.slurm(job())
    site.send(ev.ReservationMade(reservation=window(5, 50, end_jobs=True)))
    site.after(10)
    assert (site.of().state, site.of().reason) == (JobState.RUNNING, "")
    assert not job_ends.begin_ending(site.core.state, site.of(), site.now_ns)
    assert site.of().state is JobState.RUNNING


def test_a_forgotten_node_leaves_its_job_to_slurm() -> None:
    site = Guest(1000, "n0", "n1")
    site.slurm(job(cores=4, nodes=(N0, NodeId("n1"))))
    site.silent("n0")
    site.order("n0", ev.NodeOrder.FORGET_UNPOWERED, "burnt")
    assert site.of().state is JobState.RUNNING
    assert site.of().target == on(S7, "n1:0-1", cap_w=10)
    site.slurm(job(cores=4, nodes=(N0, NodeId("n1"))))
    assert [*site.of().ranks] == ["n1"]
