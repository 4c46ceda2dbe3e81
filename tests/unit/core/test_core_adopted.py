"""Jobs of Slurm that the agents of a site report: their cores are reserved, and nothing more."""

from __future__ import annotations

from unit.core.stage import Stage, forget, launch, on, running, solve

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.adopted import AdoptedJob

N0 = NodeId("n0")
SLURM = JobId("slurm-7")


def seen(stage: Stage, cpus: str, job: JobId = SLURM) -> list[act.Action]:
    jobs = (AdoptedJob(job_id=job, cpus=CpuSet.parse(cpus)),)
    return stage.send(reports.AdoptedJobsSeen(node_id=N0, jobs=jobs))


def test_cores_of_an_adopted_job_are_reserved_until_its_end() -> None:
    stage = Stage()
    stage.up("n0")
    assert seen(stage, "0-1") == []
    stage.submit("a")
    assert stage.plan(on("a", "n0:1-2", cap_w=10)) == []
    assert "in use by processes" in stage.job("a").reason
    assert stage.process_ended("n0", SLURM) == [forget("n0", SLURM, 0), solve(2)]
    assert stage.plan(on("a", "n0:1-2", cap_w=10)) == [launch("n0", "a", "1-2")]


def test_cores_that_an_adopted_job_has_lost_are_free() -> None:
    stage = Stage()
    stage.up("n0")
    seen(stage, "0-1")
    seen(stage, "0")
    stage.submit("a")
    assert stage.plan(on("a", "n0:1-2", cap_w=10)) == [launch("n0", "a", "1-2")]


def test_a_restarted_coordinator_leaves_adopted_jobs_alone() -> None:
    stage = Stage()
    stage.up("n0")
    seen(stage, "0-1")
    stage.silent("n0")
    actions = stage.connect("n0", 10, (running(SLURM, "0-1"),))
    assert not [a for a in actions if isinstance(a, act.Terminate)]
    assert str(stage.core.state.nodes[N0].foreign[SLURM]) == "0-1"
    assert SLURM not in stage.core.state.jobs


def test_a_node_cannot_name_a_job_of_the_coordinator_as_adopted() -> None:
    stage = Stage()
    stage.up("n0")
    stage.submit("a")
    seen(stage, "0-1", JobId("a"))
    assert not stage.core.state.nodes[N0].foreign


def test_the_report_of_a_silent_node_is_late() -> None:
    stage = Stage()
    stage.up("n0")
    stage.silent("n0")
    assert seen(stage, "0-1") == []
    assert not stage.core.state.nodes[N0].foreign
