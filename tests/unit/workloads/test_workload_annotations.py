"""Power and malleability of jobs: ranges, the logged time, random streams, the sidecar file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.simulator.workloads.annotations import (
    SET_H,
    AnnotationRanges,
    annotate,
    read_annotations,
    write_annotations,
)
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.lublin import generate_lublin
from wattfold.simulator.workloads.workload import Workload

JOBS = generate_lublin(2000, 1)
DRAWN = annotate(JOBS, 11)


def test_draws_stay_in_their_ranges() -> None:
    assert np.array_equal(DRAWN.size_max, JOBS.sizes)
    assert np.all(DRAWN.size_min >= 1)
    large = DRAWN.size_max >= 50
    theta = DRAWN.size_min[large] / DRAWN.size_max[large]
    assert 0.19 <= theta.min() < 0.23
    assert 0.57 < theta.max() <= 0.61
    ratio = np.log2(DRAWN.average_parallelism[large] / DRAWN.size_max[large])
    assert -1 <= ratio.min() < -0.8
    assert 0.8 < ratio.max() <= 1
    assert abs(ratio.mean()) < 0.15
    assert 0 <= DRAWN.sigma.min() <= DRAWN.sigma.max() <= 1
    assert DRAWN.sigma.mean() == pytest.approx(0.5, abs=0.05)
    counts = {app: DRAWN.apps.count(app) / len(JOBS) for app in APPLICATIONS}
    assert min(counts.values()) > 0.15


def test_a_job_at_its_greatest_size_and_60_w_takes_its_logged_time() -> None:
    for index in range(0, len(JOBS), 97):
        profile = DRAWN.profile(index)
        assert profile.time_s(JOBS.sizes[index], 60.0) == pytest.approx(JOBS.run_s[index])
        assert profile.time_s(DRAWN.size_min[index], 32.0) >= JOBS.run_s[index] * (1 - 1e-9)


def test_the_cap_of_the_logged_time_may_be_another() -> None:
    capped = annotate(JOBS, 11, AnnotationRanges(reference_cap_w=33.0))
    for index in range(0, len(JOBS), 97):
        assert capped.profile(index).time_s(JOBS.sizes[index], 33.0) == pytest.approx(
            JOBS.run_s[index]
        )


def test_draws_do_not_depend_on_each_other() -> None:
    large = DRAWN.size_max >= 20
    columns = [
        DRAWN.size_min[large] / DRAWN.size_max[large],
        np.log(DRAWN.average_parallelism[large] / DRAWN.size_max[large]),
        DRAWN.sigma[large],
        [APPLICATIONS[app].beta for app, chosen in zip(DRAWN.apps, large, strict=True) if chosen],
    ]
    assert np.abs(np.corrcoef(columns) - np.eye(4)).max() < 0.2


def test_one_range_leaves_the_other_draws_alone() -> None:
    other = annotate(JOBS, 11, AnnotationRanges(theta_min=0.5, mix=SET_H))
    assert not np.array_equal(other.size_min, DRAWN.size_min)
    assert np.array_equal(other.sigma, DRAWN.sigma)
    assert np.array_equal(other.average_parallelism, DRAWN.average_parallelism)
    betas = [APPLICATIONS[app].beta for app in other.apps]
    assert np.mean(betas) == pytest.approx(0.269, abs=0.01)


def test_the_seed_decides() -> None:
    assert np.array_equal(annotate(JOBS, 11).t1_s, DRAWN.t1_s)
    assert not np.array_equal(annotate(JOBS, 12).t1_s, DRAWN.t1_s)


def test_the_sidecar_reads_back_exactly(tmp_path: Path) -> None:
    for name in ("power.csv", "power.csv.gz"):
        write_annotations(DRAWN, tmp_path / name)
        again = read_annotations(tmp_path / name)
        assert again.apps == DRAWN.apps
        for column in ("job_ids", "size_min", "size_max", "average_parallelism", "sigma", "t1_s"):
            assert np.array_equal(getattr(again, column), getattr(DRAWN, column))


HEAD = b"job_id,size_min,size_max,app,average_parallelism,sigma,t1_s\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", None),
        (b"a,b\n", ":1: expected the columns"),
        (HEAD + b"1,1,2,LeanMD,2,0.5\n", ":2: 6 columns"),
        (HEAD + b"1,1,2,LeanMD,2,0.5,x\n", ":2: not a number"),
        (HEAD + b"1,1,2,Doom,2,0.5,9\n", ":2: no such application: 'Doom'"),
        (HEAD + b"1,3,2,LeanMD,2,0.5,9\n", ":2: outside the model"),
        (HEAD + b"1,1,2,LeanMD,nan,0.5,9\n", ":2: outside the model"),
        (HEAD + b"1,1," + b"9" * 5000 + b",LeanMD,2,0.5,9\n", ":2: not a number"),
        (HEAD + b"\xff\n", "broken data"),
        (gzip.compress(HEAD, mtime=0)[:-9], "broken data"),
    ],
)
def test_a_bad_sidecar_is_refused_in_one_line(
    tmp_path: Path, content: bytes, words: str | None
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    if words is None:
        assert len(read_annotations(path)) == 0
        return
    with pytest.raises(LogError) as caught:
        read_annotations(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_jobs_without_size_or_time_and_odd_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="job 1 has no size"):
        annotate(Workload.of_columns(run_s=[5]), 1)
    for ranges in (
        {"theta_min": 0.0},
        {"sigma_max": 1.5},
        {"parallelism_factor": 0.5},
        {"mix": {"Doom": 1.0}},
        {"mix": {}},
    ):
        with pytest.raises(ValueError, match=r"must be|needs"):
            AnnotationRanges(**ranges)  # type: ignore[arg-type]
