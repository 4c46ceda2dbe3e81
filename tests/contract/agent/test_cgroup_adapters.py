"""Masks and quotas on trees of plain files, for cgroups v1 and v2."""

from pathlib import Path

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism, choose_masks
from wattfold.nodeagent.adapters.jobs.job_groups import EndMechanism, choose_groups, pids_here
from wattfold.nodeagent.adapters.jobs.throttle import ThrottleMechanism, choose_throttle
from wattfold.nodeagent.core.errors import Broken

JOB = JobId("j")


def v1(root: Path) -> Path:
    (root / "cpuset").mkdir()
    (root / "cpuset/cpuset.cpus").write_text("0-3\n")
    (root / "cpuset/cpuset.mems").write_text("0\n")
    (root / "cpu").mkdir()
    (root / "cpu/cpu.shares").write_text("1024\n")
    return root


def v2(root: Path) -> Path:
    # The kernel gives every group its list of controllers; plain files need it created.
    for group in ("", "wattfold", "wattfold/n", "wattfold/n/j"):
        (root / group).mkdir(exist_ok=True)
        (root / group / "cgroup.controllers").write_text("cpuset cpu memory\n")
        (root / group / "cpuset.mems").write_text("")
    # The kernel's answer: no group above this group restricts the written values.
    (root / "wattfold/n/j/cpuset.cpus.effective").symlink_to("cpuset.cpus")
    return root


@pytest.mark.parametrize(
    ("build", "mechanism", "base"),
    [
        (v1, MaskMechanism.CPUSET_V1, "cpuset/wattfold/n"),
        (v2, MaskMechanism.CPUSET_V2, "wattfold/n"),
    ],
)
def test_masks_by_cpuset(tmp_path, build, mechanism, base):
    masks = choose_masks(build(tmp_path), "n", CpuSet.parse("0-3"), "auto")
    assert masks.mechanism is mechanism
    procs = masks.prepare(JOB, CpuSet.parse("0-1"))
    group = tmp_path / base / "j"
    assert procs == (group / "cgroup.procs",)
    assert (group / "cpuset.cpus").read_text() == "0-1"
    masks.confine(JOB, [], 0, CpuSet.parse("2"))
    assert masks.read(JOB, 0) == CpuSet.parse("2")
    # Inside a cpuset, the process's own affinity must not prevent growth.
    assert masks.affinity_at_start(CpuSet.parse("0-1")) == CpuSet.parse("0-3")


def test_v2_refuses_a_mask_that_the_kernel_does_not_hold(tmp_path):
    masks = choose_masks(v2(tmp_path), "n", CpuSet.parse("0-3"), "auto")
    masks.prepare(JOB, CpuSet.parse("0-1"))
    effective = tmp_path / "wattfold/n/j/cpuset.cpus.effective"
    effective.unlink()
    effective.write_text("0-1\n")
    with pytest.raises(Broken, match="confines it to CPUs 0-1 instead of 2"):
        masks.confine(JOB, [], 0, CpuSet.parse("2"))
    assert (tmp_path / "wattfold/n/j/cpuset.cpus").read_text() == "0-1"


def test_v1_sets_memory_nodes(tmp_path):
    masks = choose_masks(v1(tmp_path), "n", CpuSet.parse("0-3"), "auto")
    masks.prepare(JOB, CpuSet.parse("0"))
    assert (tmp_path / "cpuset/wattfold/n/j/cpuset.mems").read_text() == "0"


def test_v2_enables_controllers(tmp_path):
    choose_masks(v2(tmp_path), "n", CpuSet.parse("0-3"), "auto")
    for group in (".", "wattfold"):
        assert (tmp_path / group / "cgroup.subtree_control").read_text() == "+cpuset +cpu"


@pytest.mark.parametrize(
    ("build", "file", "text"),
    [
        (v1, "cpu/wattfold/n/j/cpu.cfs_quota_us", "25000"),
        (v2, "wattfold/n/j/cpu.max", "25000 50000"),
    ],
)
def test_quotas(tmp_path, build, file, text):
    throttle = choose_throttle(build(tmp_path), "n", "auto", tmp_path)
    assert throttle.mechanism is ThrottleMechanism.CPU_BANDWIDTH
    throttle.prepare(JOB, 0.5)
    assert (tmp_path / file).read_text() == text


def test_without_cgroups_plain_means_are_used(tmp_path):
    assert choose_masks(tmp_path, "n", CpuSet.of([0]), "auto").mechanism is MaskMechanism.AFFINITY
    assert choose_throttle(tmp_path, "n", "auto", tmp_path).mechanism is ThrottleMechanism.SIGNALS
    with pytest.raises(OSError, match=r"cgroup\.controllers"):
        choose_masks(tmp_path, "n", CpuSet.of([0]), "cgroup")
    with pytest.raises(OSError, match=r"cgroup\.controllers"):
        choose_throttle(tmp_path, "n", "cgroup", tmp_path)


GROUPS = {
    "cgroup.kill": EndMechanism.KILL,
    "cgroup.freeze": EndMechanism.FREEZE,
}


def made(root: Path, *files: str) -> None:
    """Create the files that the kernel puts into a new group."""
    root.mkdir(parents=True, exist_ok=True)
    for file in files:
        (root / file).write_text("")


@pytest.mark.parametrize("file", GROUPS)
def test_v2_ends_and_limits_jobs_in_one_group(tmp_path, file):
    v2(tmp_path)
    for group in ("", "wattfold", "wattfold/n", "wattfold/n/j"):
        made(tmp_path / group, "cgroup.procs", "pids.max", file)
        (tmp_path / group / "cgroup.controllers").write_text("cpuset cpu pids\n")
    groups = choose_groups(tmp_path, "n", "cgroup", 300)
    assert (groups.mechanism, groups.processes_max) == (GROUPS[file], 0)
    assert groups.prepare(JOB) == (tmp_path / "wattfold/n/j/cgroup.procs",)
    assert groups.of(JOB) == [str(tmp_path / "wattfold/n/j")]
    assert (tmp_path / "wattfold/n/j/pids.max").read_text() == "300"
    assert (tmp_path / "wattfold/cgroup.subtree_control").read_text() == "+cpuset +cpu +pids"


def test_v1_ends_by_the_freezer_and_limits_by_pids(tmp_path):
    for controller, file in (("freezer", "freezer.state"), ("pids", "pids.max")):
        for group in ("", "wattfold", "wattfold/n", "wattfold/n/j"):
            made(tmp_path / controller / group, "cgroup.procs", file)
    groups = choose_groups(tmp_path, "n", "auto", 300)
    assert (groups.mechanism, groups.processes_max) == (EndMechanism.FREEZER_V1, 0)
    assert groups.prepare(JOB) == (
        tmp_path / "freezer/wattfold/n/j/cgroup.procs",
        tmp_path / "pids/wattfold/n/j/cgroup.procs",
    )
    assert groups.of(JOB) == [str(tmp_path / "freezer/wattfold/n/j")]


def test_without_groups_jobs_end_by_signals_and_their_account_is_limited(tmp_path):
    groups = choose_groups(tmp_path, "n", "auto", 300)
    assert (groups.mechanism, groups.processes_max) == (EndMechanism.SIGNALS, 300)
    assert (groups.prepare(JOB), groups.of(JOB), groups.processes(JOB)) == ((), [], [])
    # At most a part of the kernel's process limit.
    assert choose_groups(tmp_path, "n", "off", 10**9).processes_max == pids_here()
    with pytest.raises(OSError, match="no control group can end a job"):
        choose_groups(tmp_path, "n", "cgroup", 300)
