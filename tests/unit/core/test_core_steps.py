"""Jobs with their own launcher: start of the processes, and the process that ends the job."""

from __future__ import annotations

from dataclasses import replace

from unit.core.stage import NODES, Stage, ended, forget, job_spec, node_spec, on, terminate

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.job import JobState


def stage_with_launches() -> tuple[Stage, list[act.Launch]]:
    stage = Stage()
    for name in ("n0", "n1", "n2"):
        stage.register(name)
        stage.connect(replace(node_spec(name), steps_address=f"tcp:{name}:7071"))
        stage.leased(name)
    stage.submit("a", job_spec(3, 3, unit=NODES, own_launcher=True))
    done = stage.plan(on("a", "n2", "n0", "n1", cap_w=10))
    return stage, [action for action in done if isinstance(action, act.Launch)]


def running() -> Stage:
    stage, _ = stage_with_launches()
    for node in ("n2", "n0", "n1"):
        stage.launched(node, "a")
    assert stage.job("a").state is JobState.RUNNING
    return stage


def test_the_command_runs_on_the_first_node_and_the_others_take_steps() -> None:
    _, launches = stage_with_launches()
    assert [(a.node_id, a.rank, a.steps_only) for a in launches] == [
        ("n2", 0, False),
        ("n0", 1, True),
        ("n1", 2, True),
    ]
    for launch in launches:
        assert [(n.node_id, n.address, n.cpus) for n in launch.step_nodes] == [
            ("n2", "tcp:n2:7071", 4),
            ("n0", "tcp:n0:7071", 4),
            ("n1", "tcp:n1:7071", 4),
        ]


def test_other_jobs_are_told_no_nodes() -> None:
    stage = Stage()
    stage.up("n0", "n1")
    stage.submit("a", job_spec(2, 2, unit=NODES))
    launches = [a for a in stage.plan(on("a", "n0", "n1", cap_w=10)) if isinstance(a, act.Launch)]
    assert [(a.steps_only, a.step_nodes) for a in launches] == [(False, ()), (False, ())]


def test_the_end_of_the_launcher_is_the_end_of_the_job() -> None:
    for code, state in ((0, JobState.COMPLETED), (3, JobState.FAILED)):
        stage = running()
        out = stage.process_ended("n2", "a", code)
        assert out[:3] == [forget("n2", "a"), terminate("n0", "a"), terminate("n1", "a")]
        assert stage.job("a").state is JobState.ENDING
        stage.process_ended("n0", "a", 0)
        # A killed step host does not count, nor does a step host whose end was not seen.
        stage.send(reports.ProcessEnded(node_id=NodeId("n1"), process=ended("a", 137, lost=True)))
        assert stage.job("a").state is state
        assert stage.job("a").exit_code == code


def test_a_step_host_that_ends_by_itself_fails_the_job() -> None:
    for code in (0, 137):
        stage = running()
        out = stage.process_ended("n0", "a", code)
        assert out[:3] == [forget("n0", "a"), terminate("n2", "a"), terminate("n1", "a")]
        stage.process_ended("n2", "a", 143)
        stage.process_ended("n1", "a", 0)
        job = stage.job("a")
        assert job.state is JobState.FAILED
        assert job.exit_code == (code or 1)
        assert job.message == "the step host on n0 ended before the launcher"


def test_a_lost_step_host_loses_the_job() -> None:
    stage = running()
    stage.send(reports.ProcessEnded(node_id=NodeId("n0"), process=ended("a", lost=True)))
    stage.process_ended("n2", "a", 143)
    stage.process_ended("n1", "a", 0)
    assert stage.job("a").state is JobState.LOST


def test_a_node_that_can_never_start_its_step_host_fails_the_job() -> None:
    stage, _ = stage_with_launches()
    stage.launched("n2", "a")
    stage.launch_failed("n0", "a", permanent=True)
    stage.process_ended("n2", "a", 143)
    stage.launched("n1", "a")
    stage.process_ended("n1", "a", 0)
    assert stage.job("a").state is JobState.FAILED
    assert stage.job("a").exit_code == 127


def test_a_launcher_that_ends_before_all_step_hosts_have_started() -> None:
    stage, _ = stage_with_launches()
    stage.launched("n2", "a")
    stage.process_ended("n2", "a", 0)
    assert terminate("n0", "a") in stage.launched("n0", "a")
    stage.process_ended("n0", "a", 0)
    assert terminate("n1", "a") in stage.launched("n1", "a")
    stage.process_ended("n1", "a", 143)
    assert stage.job("a").state is JobState.COMPLETED


def test_a_cancelled_job_is_cancelled_in_whatever_order_its_processes_end() -> None:
    stage = running()
    assert stage.cancel("a") == [
        terminate("n2", "a"),
        terminate("n0", "a"),
        terminate("n1", "a"),
    ]
    stage.process_ended("n0", "a", 0)
    stage.process_ended("n2", "a", 143)
    assert stage.job("a").state is JobState.ENDING
    stage.process_ended("n1", "a", 137)
    assert stage.job("a").state is JobState.CANCELLED
