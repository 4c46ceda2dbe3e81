"""Segments of past jobs, and their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.coordinator.models.scaling import scaled_time_s
from wattfold.simulator.runs.past import (
    DAY_S,
    JOBS_MIN,
    WEEK_S,
    PastJob,
    PastSegment,
    nearest_app,
    segments_of,
    write_segment,
)
from wattfold.simulator.workloads.annotations import read_annotations
from wattfold.simulator.workloads.log_reader import read_log

JOB = PastJob(submitted_s=1e9, run_s=1000.0, app="gmx", cores=0, nodes=4, nodes_min=4, nodes_max=4)


def jobs(days: int, each: int = JOBS_MIN) -> list[PastJob]:
    return [
        replace(JOB, submitted_s=1e9 + day * DAY_S + number)
        for day in range(days)
        for number in range(each)
    ]


@pytest.mark.parametrize(("days", "length_s", "found"), [(28, WEEK_S, 4), (21, DAY_S, 21)])
def test_segments_are_weeks_or_days(days: int, length_s: float, found: int) -> None:
    segments = segments_of(jobs(days))
    assert (segments.length_s, len(segments.found)) == (length_s, found)
    assert segments.suffice


def test_days_with_few_jobs_are_left_out_and_counted() -> None:
    few = [replace(JOB, submitted_s=1e9 + 3 * DAY_S + n) for n in range(JOBS_MIN - 1)]
    segments = segments_of([*jobs(3), *few])
    assert (len(segments.found), segments.sparse, segments.jobs) == (3, 1, 3 * JOBS_MIN)
    assert not segments.suffice


def test_no_job_makes_no_segment() -> None:
    assert not segments_of([]).found


def test_a_job_takes_its_time_at_the_size_that_it_held(tmp_path: Path) -> None:
    """At its maximum size, the profile makes it faster; a stored profile sets the scaling."""
    known = replace(APPLICATIONS["AMR"], app="gmx", average_parallelism=16.0, sigma=0.5)
    ranged = replace(JOB, nodes_min=2, nodes_max=8)
    part = replace(JOB, cores=2, nodes=1, nodes_min=1, nodes_max=1, app="tiny")
    segment = PastSegment(start_s=1e9, jobs=(ranged, part))
    log, csv = write_segment(segment, tmp_path, 4, {"gmx": known}, 0)
    workload, found = read_log(log).workload, read_annotations(csv)
    assert workload.sizes.tolist() == [8 * 4, 2]
    assert (found.size_min.tolist(), found.size_max.tolist()) == ([2, 1], [8, 1])
    assert (found.apps[0], found.average_parallelism[0], found.sigma[0]) == ("AMR", 16, 0.5)
    assert scaled_time_s(found.t1_s[0], 16.0, 0.5, 4) == pytest.approx(1000.0)
    assert workload.run_s[0] == pytest.approx(scaled_time_s(found.t1_s[0], 16.0, 0.5, 8), rel=1e-6)
    assert workload.run_s[1] == pytest.approx(1000.0)


def test_the_most_similar_application_lends_its_curve() -> None:
    for name, profile in APPLICATIONS.items():
        assert APPLICATIONS[nearest_app(profile)].beta == profile.beta, name
