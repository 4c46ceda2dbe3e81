"""Traces of jobs of units: conversion, invalid lines, unions, and accompanying tables."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from unit.workloads.trace_files import line, trace

from wattfold.simulator.engine.machines.machine_file import read_machine
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.job_requests import (
    JobRequest,
    read_requests,
    write_requests,
)
from wattfold.simulator.workloads.log_reader import read_log
from wattfold.simulator.workloads.odd_rows import (
    FaultKind,
    OddRowPolicy,
    RowOutcome,
    Treatment,
)
from wattfold.simulator.workloads.trace_tables import (
    read_predicted_powers,
    read_waits,
)
from wattfold.simulator.workloads.unit_traces import read_unit_trace, read_unit_traces

GIB = 1 << 30
FAIL = OddRowPolicy(default=Treatment.FAIL)


def test_a_line_becomes_a_job_whose_size_counts_units(tmp_path: Path) -> None:
    gpu = "7;8;2;0;2097152#9;8;2;0;2097152#7;8;2;0;2097152#"
    read = read_log(trace(tmp_path, line(41, units=gpu, walltime="01:30", queue="long")), FAIL)
    jobs = read.workload
    assert (jobs.job_ids[0], jobs.sizes[0], jobs.submit_s[0]) == (41, 3, 0)
    assert (jobs.wait_s[0], jobs.run_s[0], jobs.requested_s[0]) == (60, 600, 5400)
    assert (jobs.requested_memory_kb[0], jobs.status[0]) == (2097152, 1)
    assert (read.queue_names, jobs.queues[0]) == (("long",), 0)
    asked = JobRequest(cores=8, memory_bytes=2 * GIB, gpus=2, features=("gpu",))
    assert read.requests == {41: asked}


def test_mics_are_gpus_of_nodes_with_that_feature(tmp_path: Path) -> None:
    read = read_log(trace(tmp_path, line(1, units="3;1;0;2;1024#")), FAIL)
    assert read.requests[1] == JobRequest(cores=1, memory_bytes=1 << 20, gpus=2, features=("mic",))


def test_a_run_beyond_its_walltime_is_cut_to_it(tmp_path: Path) -> None:
    read = read_log(trace(tmp_path, line(1, walltime="00:05")))
    assert read.workload.run_s[0] == 300
    assert [(row.line, row.rule) for row in read.report.rows] == [(1, FaultKind.RUN_OVER_REQUESTED)]


def test_jobs_come_by_submission_and_keep_their_requests(tmp_path: Path) -> None:
    late = line(1, submit="2020-05-04 10:00:30", units="3;4;0;0;1024#")
    read = read_log(trace(tmp_path, late, "", line(2)))
    assert read.workload.job_ids.tolist() == [2, 1]
    assert read.workload.submit_s.tolist() == [0, 30]
    assert [read.requests[job].cores for job in (2, 1)] == [2, 4]


@pytest.mark.parametrize(
    ("odd", "rule"),
    [
        (line(2).replace("__", "_", 1), FaultKind.COLUMN_COUNT),
        (line(2, units="3;2;0;0#"), FaultKind.COLUMN_COUNT),
        (line("x"), FaultKind.BAD_NUMBER),
        (line(2, units="3;two;0;0;1#"), FaultKind.BAD_NUMBER),
        (line(2, units="3;0;0;0;1#"), FaultKind.BAD_NUMBER),
        (line(2, units="3;2;1;1;1#"), FaultKind.BAD_NUMBER),
        (line(2, submit="yesterday"), FaultKind.BAD_NUMBER),
        (line(2, walltime="30"), FaultKind.BAD_NUMBER),
        (line(2, units=""), FaultKind.NO_SIZE),
    ],
)
def test_lines_that_are_no_jobs(tmp_path: Path, odd: str, rule: FaultKind) -> None:
    path = trace(tmp_path, line(1), odd)
    read = read_log(path)
    assert read.workload.job_ids.tolist() == [1]
    assert [(row.line, row.rule, row.outcome) for row in read.report.rows] == [
        (2, rule, RowOutcome.DROPPED)
    ]
    assert read.report.data_lines == 2
    with pytest.raises(LogError, match=rf"trace:2: {rule.value}"):
        read_log(path, FAIL)


def test_unlike_units_count_as_the_greatest(tmp_path: Path) -> None:
    path = trace(tmp_path, line(1, units="3;2;0;0;2048#4;4;0;0;1024#"), line(2))
    read = read_log(path)
    assert read.requests[1] == JobRequest(cores=4, memory_bytes=2 << 20)
    assert [row.rule for row in read.report.rows] == [FaultKind.UNLIKE_UNITS]
    skipped = read_log(path, OddRowPolicy(default=Treatment.SKIP))
    assert skipped.workload.job_ids.tolist() == [2]
    with pytest.raises(LogError, match="unlike-units"):
        read_log(path, FAIL)


def test_the_union_has_every_job_once(tmp_path: Path) -> None:
    one = trace(tmp_path, line(1), line(3, submit="2020-05-04 10:00:20"), name="one")
    other = trace(
        tmp_path,
        line(3, submit="2020-05-04 10:00:20"),
        line(2, submit="2020-05-04 10:00:20"),
        name="other",
    )
    read = read_unit_traces([one, other], FAIL)
    assert read.workload.job_ids.tolist() == [1, 2, 3]
    assert sorted(read.requests) == [1, 2, 3]
    changed = trace(tmp_path, line(3, walltime="00:45"), name="changed")
    with pytest.raises(LogError, match="changed:1: tells another job 3"):
        read_unit_traces([one, changed])


def test_no_job_and_no_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has no job: all 1 rows were invalid"):
        read_unit_trace(trace(tmp_path, line("x")))
    with pytest.raises(LogError, match="cannot be read"):
        read_log(tmp_path / "none")


def test_packed_traces_and_swf_are_told_apart(tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress((line(5) + "\n").encode()))
    assert read_log(packed).workload.job_ids.tolist() == [5]
    swf = tmp_path / "log.swf"
    swf.write_text("; UnitName: a__b;c;d;e\n7 0 5 100 4 -1 -1 4 200 -1 1 3 1 -1 0 1 -1 -1\n")
    read = read_log(swf)
    assert (read.workload.job_ids.tolist(), read.requests) == ([7], {})


def test_requests_are_written_as_they_are_read(tmp_path: Path) -> None:
    asked = {
        4: JobRequest(cores=2, memory_bytes=3 << 20, gpus=1, features=("gpu",)),
        9: JobRequest(cores=1),
    }
    path = tmp_path / "requests.csv"
    write_requests(asked, path)
    assert read_requests(path) == asked


def test_tables_beside_the_traces(tmp_path: Path) -> None:
    queues = trace(tmp_path, "short 60", "reservation 1800", name="queues")
    assert read_waits(queues) == {"short": 60, "reservation": 1800, "R": 1800}
    powers = trace(tmp_path, "7.host;93.5", "8[2].host;31", name="powers")
    assert read_predicted_powers(powers) == {7: 93.5, 8: 31.0}
    for reader, text in (
        (read_waits, "short"),
        (read_predicted_powers, "seven;1"),
    ):
        with pytest.raises(LogError, match="bad:2: expected"):
            reader(trace(tmp_path, "", text, name="bad"))


def test_a_list_of_nodes_is_a_machine(tmp_path: Path) -> None:
    nodes = ["0 16 0 2 33554432 0", "1 16 2 0 33554432 0", "2 16 0 2 33554432 0 "]
    machine = read_machine(trace(tmp_path, *nodes, name="nodes"))
    assert [(one.count, one.cores, one.gpus, one.features) for one in machine.classes] == [
        (2, 16, 2, ("mic",)),
        (1, 16, 2, ("gpu",)),
    ]
    assert {one.memory_bytes for one in machine.classes} == {32 * GIB}
    for wrong, why in (
        ("1 16 2 0 33554432 0", "node 1 is listed twice"),
        ("3 16 2 0 33554432 1", "reservations only"),
        ("3 16 2 1 33554432 0", "GPUs and MICs"),
        ("3 16", "expected id"),
    ):
        with pytest.raises(ValueError, match=f"line 4: .*{why}"):
            read_machine(trace(tmp_path, *nodes, wrong, name="wrong"))


def test_the_published_traces() -> None:
    root = Path(os.environ.get("WATTFOLD_WORKLOADS", "")) / "eurora"
    if not (os.environ.get("WATTFOLD_WORKLOADS") and root.is_dir()):
        pytest.skip("no folder eurora in WATTFOLD_WORKLOADS")
    read = read_unit_traces(sorted((root / "traces").iterdir()))
    assert len(read.workload) == len(read.requests) == 3113
    assert read.queue_names == ("debug", "parallel", "np_longpar", "R")
    assert set(read.queue_names) <= set(read_waits(root / "system_queues"))
    machine = read_machine(root / "nodes_64")
    assert [(one.count, one.cores) for one in machine.classes] == [(32, 16), (32, 16)]
