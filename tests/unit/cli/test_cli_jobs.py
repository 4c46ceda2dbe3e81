"""Commands that show and control jobs."""

from __future__ import annotations

import time

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W

from wattfold.coordinator.cli.shared.texts import formatting
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1.node_agent_pb2 import ProcessorElement


def job(job_id: str, state: pb.JobState, **fields: object) -> pb.Job:
    spec = pb.JobSpec(
        name=f"name-of-{job_id}",
        argv=["./sim", "a b"],
        cwd="/home/u",
        kind=pb.JOB_KIND_MALLEABLE,
        mode=common.RESIZE_MODE_MASK,
        unit=pb.SIZE_UNIT_CORES,
        size_min=1,
        size_max=4,
        priority=1,
        time_ns=600 * 10**9,
    )
    return pb.Job(job_id=job_id, spec=spec, state=state, submitted_at_s=NOW_S, **fields)


@pytest.fixture(autouse=True)
def cluster(fake: FakeCoordinator) -> None:
    fake.add(
        job(
            "a",
            pb.JOB_STATE_RUNNING,
            started_at_s=NOW_S + 5,
            size=2,
            cap_uw=45 * W,
            shares=[pb.NodeShare(node_id="n1", cpus="0-1")],
            done=0.25,
            remaining_s=90,
            energy_uj=1_500 * W,
        )
    )
    fake.add(job("b", pb.JOB_STATE_PENDING, reason="needs 9.0 W more"))
    fake.add(
        job(
            "c",
            pb.JOB_STATE_FAILED,
            started_at_s=NOW_S + 5,
            ended_at_s=NOW_S + 65,
            exit_code=3,
            progress=common.Progress(done=3, total=4),
        )
    )


def test_expected_starts(wattfold: Command, fake: FakeCoordinator) -> None:
    soon, later = time.time() + 65.5, time.time() + 7205
    fake.add(job("d", pb.JOB_STATE_PENDING, reason="behind", expected_start_at_s=later))
    fake.jobs["d"].start_promised = True
    fake.add(job("e", pb.JOB_STATE_PENDING, reason="first", expected_start_at_s=soon))
    counts, *rows = wattfold("queue", "--start").stdout.splitlines()
    assert counts == "3 waiting"
    assert [row.split()[0] for row in rows] == ["ID", "e", "d", "b"], "who runs is not there"
    assert "START" in rows[0]
    assert f"{formatting.clock(soon)} (in 1m" in rows[1]
    assert "(in 2h" in rows[2]
    assert " by " not in rows[1]
    assert f"by {formatting.clock(later)}" in rows[2], "promised"
    assert "promised start" in wattfold("show", "d").stdout
    assert "expected start" in wattfold("show", "e").stdout
    assert f"{formatting.clock(soon)}" in wattfold("show", "e").stdout
    assert [one["job_id"] for one in wattfold.json("queue", "--start")["jobs"]] == ["e", "d", "b"]


def test_queue_shows_what_waits_and_runs(wattfold: Command) -> None:
    result = wattfold("queue")
    assert result.exit_code == 0
    counts, header, first, second = result.stdout.splitlines()
    assert counts == "1 running, 1 waiting"
    assert header.split()[:4] == ["ID", "NAME", "STATE", "SIZE"]
    for text in ("a ", "name-of-a", "running", "2/1-4", "45.0", "25%", "1m30s", "n1:0-1"):
        assert text in first
    for text in ("b ", "pending", "1-4", "(needs 9.0 W more)"):
        assert text in second


def test_queue_all_shows_ended_jobs(wattfold: Command) -> None:
    last = wattfold("queue", "--all").stdout.splitlines()[-1]
    for text in ("c ", "failed", "1m00s", "75%", "(exit code 3)"):
        assert text in last


def test_queue_fits_80_columns_and_is_whole_in_a_pipe(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    reason = "a long reason " * 10
    fake.add(job("d", pb.JOB_STATE_PENDING, reason=reason))
    narrow = wattfold("queue", env={"COLUMNS": "80"}).stdout
    assert max(map(len, narrow.splitlines())) <= 80
    # A long reason wraps within its column and is complete.
    assert " ".join(narrow.split()).count("a long reason") == 10
    assert reason.strip() in wattfold("queue").stdout


def test_an_empty_queue_says_so(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.jobs.clear()
    assert wattfold("queue").stdout.startswith("No jobs are waiting or running")
    assert wattfold.json("queue") == {
        "schema": 1,
        "jobs": [],
        "planner": "",
        "total": 0,
        "counts": [],
    }


def test_a_planner_in_trouble_is_told_above_the_queue(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.planner = "the planner is late: it has worked on the current plan since 12:00:00"
    assert wattfold("queue").stdout.startswith(f"Note: {fake.planner}.\n1 running, 1 waiting\nID ")
    assert wattfold.json("queue")["planner"] == fake.planner
    fake.power.planner = fake.planner
    assert fake.planner in wattfold("power").stdout


def test_queue_as_json(wattfold: Command) -> None:
    jobs = wattfold.json("queue", "--all")["jobs"]
    assert [entry["job_id"] for entry in jobs] == ["a", "b", "c"]
    assert jobs[0]["cap_uw"] == 45 * W
    assert jobs[0]["spec"]["time_ns"] == 600 * 10**9


def test_show(wattfold: Command) -> None:
    text = wattfold("show", "a").stdout
    for part in ("./sim 'a b'", "malleable, resized by mask", "2/1-4 cores", "45.0 W per node"):
        assert part in text
    assert "1.50 kJ" in text
    assert "n1 CPUs 0-1" in text
    assert "exit code 3" in wattfold("show", "c").stdout
    assert wattfold.json("show", "a")["energy_uj"] == 1_500 * W


def test_explain(wattfold: Command) -> None:
    lines = wattfold("explain", "a").stdout.splitlines()
    assert lines[0] == "job a has 2 cores"
    assert lines[2] == "  one more core costs 9.0 W"
    assert wattfold.json("explain", "a")["job"]["job_id"] == "a"


@pytest.mark.parametrize("command", ["show", "explain", "cancel", "hold", "release"])
def test_no_such_job(wattfold: Command, command: str) -> None:
    result = wattfold(command, "nobody")
    assert result.exit_code == 4
    assert "no job" in result.stderr
    assert "nobody" in result.stderr


def test_cancel_goes_on_after_a_job_that_is_not_there(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    result = wattfold("cancel", "nobody", "a", "b", "a")
    assert result.exit_code == 4
    assert result.stdout == "b cancelled\na cancelled\n"
    assert fake.jobs["a"].state == pb.JOB_STATE_CANCELLED


def test_hold_and_release(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("hold", "b").stdout == "b held\n"
    assert fake.jobs["b"].state == pb.JOB_STATE_HELD
    assert wattfold("release", "b").stdout == "b released\n"
    assert fake.jobs["b"].state == pb.JOB_STATE_PENDING


def test_hold_of_a_running_job_is_refused(wattfold: Command) -> None:
    result = wattfold("hold", "a")
    assert result.exit_code == 1
    assert result.stderr == ("wattfold: a: job a does not wait any more; cancel it instead\n")


def test_results_of_each_job_as_json(wattfold: Command) -> None:
    assert wattfold.json("cancel", "a")["jobs"] == [
        {"job_id": "a", "result": "cancelled", "error": None}
    ]


def test_show_tells_what_a_job_left_on_cores_it_has_lost(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    left = [
        pb.Residual(node_id="n1", job_id="r", cpu=3, cpu_ns=7_200_000_000, load=0.25, alarm=True),
        pb.Residual(node_id="n1", job_id="r", cpu=5, cpu_ns=1_000_000_000, alarm=True),
    ]
    fields = {
        "residual": left,
        "residual_alarm": True,
        "residual_cpu_ns": 8_200_000_000,
        "threads": 12,
        "runnable_threads": 4,
        "excess_runnable_ns": 3_000_000_000,
        "voluntary_switches": 17,
        "involuntary_switches": 23,
        "memory_bytes": 12 * 2**20,
        "memory_bytes_max": 3 * 2**30,
        "core_ns": 60_000_000_000,
        "energy_uj": 1_500 * W,
        "idle_energy_uj": 20 * W,
        "gpu_energy_uj": 30_000 * W,
        "gpus": [
            pb.JobGpu(node_id="n1", gpu="GPU-a", power_uw=150 * W, busy_percent=97),
            pb.JobGpu(node_id="n1", gpu="GPU-b", power_uw=40 * W, memory_bytes=3 << 30),
        ],
    }
    fake.add(job("r", pb.JOB_STATE_RUNNING, **fields))
    text = wattfold("show", "r").stdout
    for part in (
        "8.2s, recently 0.25 cores (above the threshold)",
        "n1 CPU 3: 7.2s, recently 0.25 cores",
        "n1 CPU 5: 1.0s",
        "12, 4 runnable; 3.0s of waiting for cores",
        "12.0 MiB, peak 3.0 GiB",
        "17 voluntary, 23 involuntary",
        "1.50 kJ, idle share 20.0 J, GPUs 30.00 kJ",
        "GPU-a on n1: 150.0 W, 97 % busy\n",
        "GPU-b on n1: 40.0 W, 3.0 GiB in use\n",
        "1m00s",
    ):
        assert part in text
    shown = wattfold.json("show", "r")
    assert [core["cpu"] for core in shown["residual"]] == [3, 5]
    assert shown["residual_alarm"] is True


def a_charm_job(**fields: object) -> pb.Job:
    found = job(
        "p",
        pb.JOB_STATE_RUNNING,
        started_at_s=NOW_S,
        size=2,
        shares=[pb.NodeShare(node_id="n1", cpus="0-1")],
        **fields,
    )
    found.spec.mode = common.RESIZE_MODE_MAP
    return found


PES = [
    ProcessorElement(pe=0, enabled=True, objects=12, pid=70),
    ProcessorElement(pe=1, enabled=True, objects=4, pid=71),
    ProcessorElement(
        pe=2, enabled=False, objects=3, pid=72, cpu_ns=2 * 10**9, memory_bytes=9 << 20
    ),
    ProcessorElement(pe=3, enabled=False, objects=0),
]


def test_the_map_of_a_charm_job_is_told(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.add(
        a_charm_job(
            processor_map="1100", map_applied=True, processors=PES, surplus_processes=1, threads=4
        )
    )
    assert "n1:0-1, PEs 2 of 4: 1100" in wattfold("queue").stdout
    sheet = wattfold("show", "p").stdout
    for text in (
        "resized by map",
        "PEs 2 of 4: 1100",
        "12 4, and 3 on residual PEs",
        "PE 2, process 72, 2.0s of CPU time, 9.0 MiB, 3 objects",
        "1 process from previous sizes",
    ):
        assert text in sheet
    assert "PE 3" not in sheet
    assert "change pending" not in sheet


def test_a_map_that_is_late_says_why(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.add(a_charm_job(processor_map="1111", map_message="no step yet", confined=True))
    assert "PEs 4 of 4: 1111, change pending" in wattfold("queue").stdout
    sheet = wattfold("show", "p").stdout
    assert "PEs 4 of 4: 1111, change pending (no step yet)" in sheet
    assert "confined by its mask" in sheet


def test_a_socket_that_is_flooded_is_told_of(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.add(a_charm_job(shim_message="more than 100 connections a second"))
    assert (
        "some may be rejected: more than 100 connections a second" in wattfold("show", "p").stdout
    )
    fake.add(a_charm_job())
    assert "rejected" not in wattfold("show", "p").stdout


def test_of_a_program_that_is_not_up_the_reason_is_told(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    fake.add(a_charm_job(map_message="nobody listens"))
    assert "unknown (nobody listens)" in wattfold("show", "p").stdout


def test_long_maps_are_counted(wattfold: Command, fake: FakeCoordinator) -> None:
    fake.add(a_charm_job(processor_map="1" * 40 + "0" * 24, map_applied=True))
    assert "PEs 40 of 64\n" in wattfold("queue").stdout
    assert "1111" not in wattfold("show", "p").stdout


def test_levels_are_told_where_there_are_any(wattfold: Command, fake: FakeCoordinator) -> None:
    assert "DRAM" not in wattfold("show", "a").stdout + wattfold("queue").stdout
    spec = pb.JobSpec(name="l", gpus=1, gpu_cap_uw=150 * W)
    held = {"size": 1, "cap_uw": 45 * W, "dram_cap_uw": 11 * W, "gpu_cap_uw": 150 * W}
    fake.add(
        pb.Job(
            job_id="l",
            spec=spec,
            state=pb.JOB_STATE_RUNNING,
            shares=[pb.NodeShare(node_id="n1", cpus="0")],
            **held,
        )
    )
    assert "n1:0 (DRAM 11.0 W, GPU 150.0 W)" in wattfold("queue").stdout
    sheet = wattfold("show", "l").stdout
    assert "11.0 W per node" in sheet
    assert "150.0 W per GPU, fixed" in sheet
    assert wattfold.json("show", "l")["dram_cap_uw"] == 11 * W


def test_what_it_loses_on_fewer_cores_is_told_once_it_was_seen(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    assert "half" not in wattfold("show", "a").stdout
    running = pb.JOB_STATE_RUNNING
    speeds = [pb.SeenSpeed(cores=cores, rate_per_s=9, seen_s=5) for cores in (8, 4)]
    fake.add(pb.Job(job_id="s", state=running, speeds=speeds, half_speed=0.8))
    assert "80% of full speed, measured on 4 and 8 cores" in wattfold("show", "s").stdout
    assert wattfold.json("show", "s")["half_speed"] == 0.8
