"""The refitted workload model of SD-Policy's evaluation."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from wattfold.simulator.workloads.cirne import (
    MODEL,
    NODES,
    SDSC_SP2,
    generate_cirne,
)
from wattfold.simulator.workloads.refitted import refit
from wattfold.simulator.workloads.swf_reader import read_swf


def test_jobs_are_those_of_its_seed_and_no_larger_than_is_told() -> None:
    first, again, other = (generate_cirne(2000, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.submit_s, again.submit_s)
    assert not np.array_equal(first.submit_s, other.submit_s)
    assert first.header.max_procs == NODES
    assert first.sizes.min() == 1
    assert first.sizes.max() == 128
    assert (first.run_s <= first.requested_s).all()
    assert first.requested_s.min() >= 60
    assert first.requested_s.max() <= 172_800


def test_requests_are_far_from_runs_but_for_the_exact_share() -> None:
    jobs = generate_cirne(5000, 0)
    exact = float((jobs.run_s == jobs.requested_s).mean())
    assert MODEL.exact_share < exact < MODEL.exact_share + 0.1


def test_the_numbers_of_the_log_are_its_own() -> None:
    folder = Path(os.environ.get("WATTFOLD_WORKLOADS", ""))
    path = next((p for p in folder.glob("**/sdsc_sp2.swf.gz") if folder.name), None)
    if path is None:
        pytest.skip("no sdsc_sp2.swf.gz in WATTFOLD_WORKLOADS")
    fitted = refit(read_swf(path).workload)
    assert SDSC_SP2.day_weights == pytest.approx(fitted.day_weights, abs=1e-3)
    for name in ("serial_share", "rounded_share", "exact_share", "accuracy_shape"):
        assert getattr(SDSC_SP2, name) == pytest.approx(getattr(fitted, name), abs=1e-4)
    assert SDSC_SP2.accuracy_scale == pytest.approx(fitted.accuracy_scale, abs=1e-4)
    assert SDSC_SP2.mean_gap_s == pytest.approx(fitted.mean_gap_s, abs=0.1)
    assert SDSC_SP2.requested_s.high == pytest.approx(fitted.requested_s.high, rel=1e-4)
    assert SDSC_SP2.parallel_size.high == pytest.approx(fitted.parallel_size.high, rel=1e-3)
