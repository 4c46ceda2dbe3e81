"""Control groups of Slurm's steps, on trees like those of cgroup versions 1 and 2."""

from __future__ import annotations

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.topology import Topology
from wattfold.nodeagent.adapters.jobs import step_groups
from wattfold.nodeagent.adapters.jobs.step_groups import StepGroups, step_name, step_processes
from wattfold.nodeagent.core.errors import Broken
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record
from wattfold.nodeagent.service.jobs.slurm_steps import SlurmStep, confine_steps

V1 = (
    "4:cpuacct:/slurm_n0/uid_0/job_7/step_0/task_0\n3:cpuset:/slurm_n0/uid_0/job_7/step_0\n"
    "2:cpu,x:/\n0::/\n"
)
V2 = "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n"


def found(tmp_path, text, call, job=7):
    (tmp_path / "proc" / "5").mkdir(parents=True)
    (tmp_path / "proc" / "5" / "cgroup").write_text(text)
    groups = StepGroups(tmp_path, proc=tmp_path / "proc")
    path = getattr(groups, call)(5, job)
    return None if path is None else str(path.relative_to(tmp_path))


def test_the_cpuset_of_a_step(tmp_path):
    assert found(tmp_path, V1, "find") == "cpuset/slurm_n0/uid_0/job_7/step_0"


def test_the_cpuset_of_a_step_of_version_2(tmp_path):
    path = found(tmp_path, V2, "find")
    assert path == "system.slice/slurmstepd.scope/job_7/step_batch"
    assert step_name(tmp_path / path) == "batch"


@pytest.mark.parametrize("text", [V1, V2])
def test_a_process_of_another_job_is_in_no_step(tmp_path, text):
    assert found(tmp_path, text, "find", job=8) is None


@pytest.mark.parametrize("text", ["3:cpuset:/\n0::/\n", "0::/user.slice\n", "", "junk\n"])
def test_a_process_outside_of_slurm_is_in_no_step(tmp_path, text):
    assert found(tmp_path, text, "find") is None


def test_a_process_that_has_ended_is_in_no_step(tmp_path):
    assert StepGroups(tmp_path, proc=tmp_path).find(5, 7) is None


def test_slurm_counts_the_cpu_time_of_a_job(tmp_path):
    assert found(tmp_path, V1, "accounting") == "cpuacct/slurm_n0/uid_0/job_7"


def test_slurm_counts_no_cpu_time(tmp_path):
    text = V1.replace("cpuacct:/slurm_n0/uid_0/job_7/step_0/task_0", "cpuacct:/")
    assert found(tmp_path, text, "accounting") is None


def test_version_2_counts_in_the_group_of_the_job(tmp_path):
    assert found(tmp_path, V2, "accounting") == "system.slice/slurmstepd.scope/job_7"


def step_group(tmp_path, name="step_0", cpus="0-3"):
    group = tmp_path / "job_7" / name
    group.mkdir(parents=True)
    (group / "cpuset.cpus").write_text(cpus + "\n")
    (group / "cgroup.procs").write_text("11\n12\n")
    return group


def test_a_step_is_confined(tmp_path):
    group, groups = step_group(tmp_path), StepGroups(tmp_path)
    groups.confine(group, CpuSet.parse("1"))
    assert str(groups.read(group)) == "1"


def test_a_kernel_that_confines_otherwise_is_an_error(tmp_path):
    group, groups = step_group(tmp_path), StepGroups(tmp_path)
    (group / "cpuset.cpus.effective").write_text("2\n")
    with pytest.raises(Broken, match="confines it to CPUs 2 instead of 1"):
        groups.confine(group, CpuSet.parse("1"))
    assert (group / "cpuset.cpus").read_text() == "0-3"


def test_processes_of_a_step_are_those_of_its_tasks_too(tmp_path):
    group = step_group(tmp_path)
    (group / "task_0").mkdir()
    (group / "task_0" / "cgroup.procs").write_text("13\n")
    assert sorted(step_processes(group)) == [11, 12, 13]
    assert step_processes(tmp_path / "gone") == []


def test_siblings_are_the_steps_of_the_job(tmp_path):
    group = step_group(tmp_path)
    other = step_group(tmp_path, "step_batch")
    (tmp_path / "job_7" / "x").mkdir()
    assert sorted(StepGroups(tmp_path).siblings(group)) == [group, other]
    assert StepGroups(tmp_path).siblings(tmp_path / "gone" / "step_0") == []


def step(tmp_path, name="0", cpus="0-1", **fields):
    values = {
        "keeper": 11,
        "keeper_ticks": 1,
        "mode": ResizeMode.TEAM,
        "group": tmp_path / "job_7" / f"step_{name}",
        "cpus": CpuSet.parse(cpus),
    }
    return SlurmStep(name=name, **values | fields)


def job(tmp_path, *steps, cpus="0-3"):
    mask = CpuSet.parse(cpus)
    return Job(
        id=JobId("slurm-7"),
        state=JobState.RUNNING,
        cpus=mask,
        held=mask,
        mode=ResizeMode.TEAM,
        launch_cpus=4,
        owner="slurm",
        allocation=CpuSet.parse("0-3"),
        steps={one.name: one for one in steps},
        cpu_group="/cg",
    )


def test_steps_share_or_divide_the_mask_of_their_job(tmp_path):
    groups = StepGroups(tmp_path)
    for name, cpus in (("step_0", "0-1"), ("step_1", "2-3"), ("step_batch", "0-3")):
        step_group(tmp_path, name, cpus)
    steps = step(tmp_path), step(tmp_path, "1", "2-3"), step(tmp_path, "batch", "0-3")
    one = job(tmp_path, *steps)
    for mask, wanted in (("0,2", ["0", "2", "0,2"]), ("0", ["0", "0", "0"])):
        confine_steps(groups, one.id, steps, CpuSet.parse(mask))
        assert [str(groups.read(s.group)) for s in steps] == wanted
    confine_steps(groups, one.id, steps, one.allocation)
    assert [str(groups.read(s.group)) for s in steps] == ["0-1", "2-3", "0-3"]


def test_a_step_that_has_just_ended_hinders_nobody(tmp_path):
    confine_steps(StepGroups(tmp_path), JobId("slurm-7"), [step(tmp_path)], CpuSet.parse("0"))


def test_the_record_of_an_adopted_job_returns(tmp_path):
    before = job(tmp_path, step(tmp_path, pids={0: 5, 1: 6}, tasks=2), cpus="0")
    after = from_record("slurm-7", to_record(before))
    assert (after.owner, after.allocation, after.cpu_group) == ("slurm", before.allocation, "/cg")
    assert after.steps == before.steps


@pytest.mark.parametrize("change", [{"group": 1, "cpus": "x"}, {"mode": "fast"}, {"pids": []}])
def test_a_damaged_record_of_a_step_is_refused(tmp_path, change):
    record = to_record(job(tmp_path, step(tmp_path)))
    record["steps"][0] |= change
    with pytest.raises(ValueError, match=r"not a record|CPU|ResizeMode"):
        from_record("slurm-7", record)


def test_tasks_of_a_step_divide_its_mask(tmp_path):
    one = step(tmp_path, cpus="0-3", tasks=2, pids={0: 1})
    cpus = one.cpus_of(1, CpuSet.parse("0-3"), Topology())
    assert str(cpus) == "0-1"
    assert str(one.cpus_of(1, CpuSet.parse("0,3"), Topology())) == "0"
    assert step_groups.step_name(one.group) == "0"
