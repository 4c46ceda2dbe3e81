"""Checks of launches, job environments, replayed commands, quotas and records."""

import dataclasses

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.throttle import quota_and_period_us
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import (
    LaunchOrder,
    ResizeMode,
    ShimSetting,
    check_order,
    job_environment,
)
from wattfold.nodeagent.core.replay import ReplayCache
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record

ORDER = LaunchOrder(
    job=JobId("j"),
    argv=("prog",),
    env={},
    cwd="/tmp",
    stdout_path="",
    stderr_path="",
    cpus=CpuSet.parse("0-1"),
    mode=ResizeMode.TEAM,
    launch_cpus=4,
    rank=1,
    ranks=2,
    user="",
)
SHIM = ShimSetting(library="/lib/shim.so", endpoint="ipc:///run/x")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"job": JobId("../x")}, "not a name"),
        ({"argv": ()}, "command is empty"),
        ({"cwd": "tmp"}, "not an absolute path"),
        ({"env": {"A=B": "1"}}, "cannot name"),
        ({"launch_cpus": 1}, "more than launch_cpus 1"),
        ({"rank": 2}, "rank 2 is outside the 2"),
        ({"argv": ("a", "x" * 600_000)}, "bytes"),
    ],
)
def test_wrong_orders_are_refused(change, words):
    with pytest.raises(InvalidRequest, match=words):
        check_order(dataclasses.replace(ORDER, **change))


def test_tasks_share_the_threads_and_are_not_bound_by_launchers():
    given = {"HYDRA_BINDING": "socket", "OMPI_COMM_WORLD_LOCAL_RANK": "3"}
    order = dataclasses.replace(ORDER, launch_cpus=5, tasks_per_node=2, env=given)
    env = job_environment(order, SHIM)
    assert (env["OMP_NUM_THREADS"], env["WATTFOLD_LAUNCH_CPUS"]) == ("2", "2")
    assert env["OMPI_MCA_hwloc_base_binding_policy"] == "none"
    # The user's setting stays. The rank variable of the submitting program is removed.
    assert env["HYDRA_BINDING"] == "socket"
    assert "OMPI_COMM_WORLD_LOCAL_RANK" not in env
    alone = job_environment(dataclasses.replace(ORDER, env=given), SHIM)
    assert "OMPI_MCA_hwloc_base_binding_policy" not in alone
    assert alone["OMPI_COMM_WORLD_LOCAL_RANK"] == "3"


def test_the_environment_is_completed():
    env = job_environment(ORDER, SHIM)
    assert env["OMP_NUM_THREADS"] == "4"
    # The shim handles idle threads.
    assert "OMP_WAIT_POLICY" not in env
    assert env["KMP_BLOCKTIME"] == "1"
    masked = job_environment(dataclasses.replace(ORDER, mode=ResizeMode.MASK), SHIM)
    assert masked["OMP_WAIT_POLICY"] == "passive"
    assert env["WATTFOLD_RESIZE_MODE"] == "team"
    assert env["LD_PRELOAD"] == "/lib/shim.so"
    assert env["WATTFOLD_RANK"] == "1"


def test_a_training_is_told_its_epochs_and_no_other_those_of_one():
    outer = dataclasses.replace(ORDER, env={"WATTFOLD_EPOCHS": "7"})
    assert "WATTFOLD_EPOCHS" not in job_environment(outer, SHIM)
    training = dataclasses.replace(outer, epochs=90)
    assert job_environment(training, SHIM)["WATTFOLD_EPOCHS"] == "90"


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"OMP_WAIT_POLICY": "active"}, "KMP_BLOCKTIME", None),
        ({"KMP_LIBRARY": "throughput"}, "KMP_BLOCKTIME", None),
        ({"KMP_BLOCKTIME": "7"}, "KMP_BLOCKTIME", "7"),
        ({}, "KMP_AFFINITY", "disabled"),
        ({"OMP_PROC_BIND": "false"}, "KMP_AFFINITY", "disabled"),
        ({"OMP_PROC_BIND": "close"}, "KMP_AFFINITY", None),
        ({"OMP_PLACES": "cores"}, "KMP_AFFINITY", None),
        ({"KMP_AFFINITY": "compact"}, "KMP_AFFINITY", "compact"),
    ],
)
def test_who_says_how_threads_wait_and_are_bound_is_heard(given, name, value):
    assert job_environment(dataclasses.replace(ORDER, env=given), SHIM).get(name) == value


def test_threads_that_never_move_keep_what_the_runtime_does():
    fixed = job_environment(dataclasses.replace(ORDER, mode=ResizeMode.FIXED), SHIM)
    assert "KMP_AFFINITY" not in fixed


def test_what_the_job_sets_stays_except_the_contract():
    given = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": "/lib/own.so", "WATTFOLD_JOB_ID": "liar"}
    env = job_environment(dataclasses.replace(ORDER, env=given), SHIM)
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["LD_PRELOAD"] == "/lib/shim.so:/lib/own.so"
    assert env["WATTFOLD_JOB_ID"] == "j"


def test_a_fixed_job_gets_no_shim():
    env = job_environment(dataclasses.replace(ORDER, mode=ResizeMode.FIXED), SHIM)
    assert "LD_PRELOAD" not in env


def test_the_first_answer_is_kept_and_the_oldest_dropped():
    cache: ReplayCache[int] = ReplayCache(limit=2)
    cache.keep("a", 1)
    cache.keep("a", 2)
    assert cache.get("a") == 1
    cache.keep("b", 3)
    cache.keep("c", 4)
    cache.keep("", 5)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (None, 3, 4, 2)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        (1.0, (50_000, 50_000)),
        (0.02, (1_000, 50_000)),
        (0.01, (1_000, 100_000)),
        (0.0, (1_000, 1_000_000)),
    ],
)
def test_small_quotas_get_long_periods(quota, expected):
    assert quota_and_period_us(quota) == expected


def test_a_record_survives_disk_and_its_sequence_goes_on_above():
    job = Job(
        id=JobId("j"),
        state=JobState.RUNNING,
        cpus=CpuSet.parse("0-1"),
        held=CpuSet.parse("0-1"),
        mode=ResizeMode.TEAM,
        launch_cpus=2,
        pid=7,
        seq=900,
    )
    again = from_record("j", to_record(job))
    assert (again.cpus, again.mode, again.pid, again.state) == (
        job.cpus,
        job.mode,
        7,
        JobState.RUNNING,
    )
    assert again.seq > 900
    assert again.seq_reserved > again.seq
    with pytest.raises(ValueError, match="not a record"):
        from_record("j", {"state": "running"})
