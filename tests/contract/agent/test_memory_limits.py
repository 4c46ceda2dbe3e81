"""Memory limits on trees like those of the kernel, in both cgroup versions."""

import os

import pytest

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.memory_limits import MemoryMechanism, choose_memory_limits

A = JobId("a")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another account tries the kernel's own")


def v1(root, told="oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"):
    memory = root / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("9223372036854771712")
    (memory / "memory.oom_control").write_text(told)
    return root


def v2(root, controllers="cpuset cpu memory pids"):
    for folder in ("", "wattfold", "wattfold/n"):
        (root / folder).mkdir(exist_ok=True)
        (root / folder / "cgroup.controllers").write_text(controllers)
        (root / folder / "cgroup.subtree_control").write_text("")
    return root


def test_version_2_swaps_nothing_and_ends_all(tmp_path):
    limits = choose_memory_limits(v2(tmp_path), "n", "auto")
    assert limits.mechanism is MemoryMechanism.CGROUP_V2
    assert not limits.watched
    for folder in ("", "wattfold", "wattfold/n"):
        assert (tmp_path / folder / "cgroup.subtree_control").read_text() == "+memory"
    group = tmp_path / "wattfold/n/a"
    group.mkdir()
    for name in ("memory.swap.max", "memory.oom.group"):
        (group / name).write_text("?")
    assert limits.prepare(A, 5000) == (group / "cgroup.procs",)
    found = [(group / f"memory.{n}").read_text() for n in ("max", "swap.max", "oom.group")]
    assert found == ["5000", "0", "1"]
    assert not limits.hit(A), "nothing is told yet"
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")
    assert not limits.hit(A), "reaching it is not being ended for it"
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert limits.hit(A)


def test_version_1_counts_swap_where_it_can(tmp_path):
    limits = choose_memory_limits(v1(tmp_path), "n", "cgroup")
    assert limits.mechanism is MemoryMechanism.CGROUP_V1
    group = tmp_path / "memory/wattfold/n/a"
    group.mkdir()
    (group / "memory.memsw.limit_in_bytes").write_text("?")
    assert limits.prepare(A, 5000) == (group / "cgroup.procs",)
    assert (group / "memory.limit_in_bytes").read_text() == "5000"
    assert (group / "memory.memsw.limit_in_bytes").read_text() == "5000"
    (group / "memory.oom_control").write_text("under_oom 0\noom_kill 2\n")
    assert limits.hit(A)


def test_a_job_without_a_limit_has_no_group(tmp_path):
    limits = choose_memory_limits(v2(tmp_path), "n", "auto")
    assert limits.prepare(A, 0) == ()
    assert not (tmp_path / "wattfold/n/a").exists()


@pytest.mark.parametrize(
    "tree", [lambda root: root, lambda root: v2(root, "cpu"), lambda root: v1(root, "under_oom 0")]
)
def test_without_a_controller_that_tells_jobs_are_watched(tmp_path, tree):
    root = tree(tmp_path)
    limits = choose_memory_limits(root, "n", "auto")
    assert (limits.mechanism, limits.watched) == (MemoryMechanism.WATCHED, True)
    assert limits.prepare(A, 5) == ()
    with pytest.raises(OSError, match="no memory controller"):
        choose_memory_limits(root, "n", "cgroup")


def test_watching_can_be_wanted(tmp_path):
    assert choose_memory_limits(v2(tmp_path), "n", "watch").watched
