"""Selection and scaling of jobs, and statistics of a workload."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from unit.workloads.swf_files import job, log

from wattfold.simulator.workloads import selection
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.header import Header
from wattfold.simulator.workloads.summary import summarise
from wattfold.simulator.workloads.swf_reader import read_swf
from wattfold.simulator.workloads.swf_writer import write_swf
from wattfold.simulator.workloads.workload import Workload

JOBS = Workload.of_columns(
    Header(lines=("; MaxProcs: 100", "; UnixStartTime: 1000")),
    job_ids=[3, 5, 8, 9],
    submit_s=[10, 20, 30, 50],
    run_s=[100, 50, 10, 40],
    procs=[1, 16, -1, 100],
    requested_procs=[-1, 16, 33, 100],
    requested_s=[200, 50, -1, 80],
    partitions=[1, 2, 2, 3],
)


@pytest.mark.parametrize(
    ("choose", "ids"),
    [
        (lambda: selection.submitted_between(JOBS, 20, 50), [5, 8]),
        (lambda: selection.with_ids(JOBS, 5, 8), [5, 8]),
        (lambda: selection.with_sizes(JOBS, 16, 33), [5, 8]),
        (lambda: selection.with_values(JOBS, "partitions", {1, 3}), [3, 9]),
        (lambda: selection.window(JOBS, 1, 2), [5, 8]),
        (lambda: selection.window(JOBS, 3, 9), [9]),
        (lambda: selection.window(JOBS, 7, 9), []),
        (lambda: selection.window(JOBS, 2, None), [8, 9]),
        (lambda: selection.from_id(JOBS, 8), [8, 9]),
    ],
)
def test_jobs_are_chosen(choose: Callable[[], Workload], ids: list[int]) -> None:
    assert choose().job_ids.tolist() == ids


def test_gamma_scales_the_times_between_arrivals() -> None:
    assert selection.scaled_arrivals(JOBS, 0.5).submit_s.tolist() == [10, 15, 20, 30]
    assert JOBS.submit_s.tolist() == [10, 20, 30, 50]


def test_sizes_are_cut_to_a_machine() -> None:
    cut = selection.cut_sizes(JOBS, 20)
    assert cut.sizes.tolist() == [1, 16, 20, 20]
    assert cut.run_s.tolist() == JOBS.run_s.tolist()


def test_sizes_in_nodes_round_up_and_leave_missing_ones_missing() -> None:
    nodes = selection.in_nodes(JOBS, 16)
    assert nodes.procs.tolist() == [1, 1, -1, 7]
    assert nodes.requested_procs.tolist() == [-1, 1, 3, 7]
    assert nodes.header.max_procs == 7


def test_exact_estimates_and_time_zero() -> None:
    assert selection.exact_estimates(JOBS).requested_s.tolist() == [100, 50, 10, 40]
    moved = selection.from_zero(JOBS)
    assert moved.submit_s.tolist() == [0, 10, 20, 40]
    assert moved.header.unix_start_time_s == 1010


@pytest.mark.parametrize(
    "refused",
    [
        lambda: selection.scaled_arrivals(JOBS, -1),
        lambda: selection.scaled_arrivals(JOBS, math.nan),
        lambda: selection.cut_sizes(JOBS, 0),
        lambda: selection.in_nodes(JOBS, 0),
        lambda: selection.from_id(JOBS, 4),
        lambda: selection.window(JOBS, -1, 2),
        lambda: Workload.of_columns(procs=[1], nonsense=[1]),
        lambda: Workload.of_columns(procs=[1], run_s=[1, 2]),
    ],
)
def test_nonsense_is_refused(refused: Callable[[], Workload]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        refused()


def test_estimates_fall_back_on_run_times_and_nanoseconds_are_whole() -> None:
    assert JOBS.estimates_s.tolist() == [200, 50, 10, 80]
    assert JOBS.estimates_ns.tolist() == [200 * 10**9, 50 * 10**9, 10**10, 80 * 10**9]
    fraction = Workload.of_columns(submit_s=[0.1], run_s=[-1])
    assert (fraction.submit_ns[0], fraction.run_ns[0]) == (100_000_000, -1_000_000_000)


def test_columns_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        JOBS.run_s[0] = 1


def test_figures_of_a_workload() -> None:
    figures = summarise(JOBS)
    work = 100 * 1 + 50 * 16 + 10 * 33 + 40 * 100
    assert (figures.jobs, figures.span_s, figures.machine_procs) == (4, 40, 100)
    assert figures.load == pytest.approx(work / (100 * 40))
    assert figures.serial_share == 0.25
    assert figures.power_of_two_share == pytest.approx(1 / 3)
    assert figures.accuracy == pytest.approx((0.5 + 1 + 0.5) / 3)
    assert (figures.requested_s.known, figures.run_s.known) == (3, 4)
    assert figures.size_histogram.counts == (1, 0, 0, 0, 1, 1, 1)
    assert figures.run_histogram.counts == (0, 3, 1, 0, 0, 0, 0, 0)
    assert sum(figures.size_histogram.counts) == 4


def test_figures_of_nothing_are_not_numbers() -> None:
    figures = summarise(Workload.of_columns())
    assert figures.jobs == 0
    assert math.isnan(figures.load)
    assert math.isnan(figures.size.mean)


def test_the_machine_may_be_named() -> None:
    assert summarise(JOBS, 200).load == pytest.approx(summarise(JOBS).load / 2)


def test_header_values_are_replaced_where_they_stand() -> None:
    header = Header(lines=("; A: 1", "; MaxJobs: 7 jobs", "; text", "; maxjobs: 9"))
    assert header.number("MAXJOBS") == 7
    assert header.with_value("MaxJobs", 3).lines == ("; A: 1", "; MaxJobs: 3", *header.lines[2:])
    assert header.with_note("two\nlines").lines[-1] == "; Note: two lines"
    assert header.pairs()[0] == ("A", "1")


def test_a_log_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "x.swf", tmp_path):
        with pytest.raises(LogError, match="cannot be written"):
            write_swf(JOBS, path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_its_place_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link.swf"
    link.symlink_to(log(tmp_path, job(1), name="real.swf"))
    write_swf(JOBS, link)
    assert link.is_symlink()
    assert len(read_swf(tmp_path / "real.swf").workload) == len(JOBS)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_swf(JOBS, pipe)
        assert os.read(reading, 1 << 16).startswith(b"; MaxProcs: 100")
    finally:
        os.close(reading)
    assert pipe.is_fifo()


def test_the_header_survives_writing(tmp_path: Path) -> None:
    read = read_swf(log(tmp_path, "; Installation: ümlaut", "; free text", job(1)))
    write_swf(read.workload, tmp_path / "out.swf.gz")
    again = read_swf(tmp_path / "out.swf.gz").workload
    assert again.header.lines == (
        "; Installation: ümlaut",
        "; free text",
        "; MaxJobs: 1",
        "; MaxRecords: 1",
    )
    assert np.array_equal(again.submit_s, read.workload.submit_s)
