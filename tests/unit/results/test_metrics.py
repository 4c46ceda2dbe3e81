"""Metrics: computed by hand, at limits, and from the published starts of a real log."""

from __future__ import annotations

import csv
import gzip
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.results.records import record, small

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.queue import Waits
from wattfold.simulator.engine.running_jobs.jobs import WaitColumns, job_table
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.results.table import metrics_document
from wattfold.simulator.workloads.lublin import generate_lublin
from wattfold.simulator.workloads.swf_reader import read_swf


def test_three_jobs_by_hand() -> None:
    run = metrics_of(small(stalled_s=(0, 0, 51), solver_s=(0.1, 0.2, 0.6)))
    assert (run.policy, run.seed, run.nodes, run.jobs, run.jobs_unfinished) == ("easy", 1, 4, 3, 0)
    # Waits are 0, 90, 84, responses 100, 94, 184, run times 100, 4, 100.
    assert (run.wait_s_mean, run.wait_s_median, run.wait_s_max) == (58, 84, 90)
    assert (run.response_s_mean, run.response_s_median, run.response_s_max) == (126, 100, 184)
    assert (run.completion_s_mean, run.completion_s_max) == (126, 184)
    assert run.slowdown_mean == pytest.approx((1 + 23.5 + 1.84) / 3)
    assert run.slowdown_median == 1.84
    # The job of 4 s counts as 10 s.
    assert run.bounded_slowdown_mean == pytest.approx((1 + 9.4 + 1.84) / 3)
    assert run.bounded_slowdown_median == 1.84
    assert run.makespan_s == 204
    assert run.utilisation == pytest.approx((200 + 16 + 100) / (4 * 204))
    assert run.nodes_busy_mean == pytest.approx((2 * 100 + 4 * 4 + 1 * 100) / 204)
    assert run.drawn_w_mean == 250
    assert (run.committed_w_peak, run.drawn_w_peak) == (464, 400)
    assert run.committed_w_mean == pytest.approx((300 * 100 + 464 * 4 + 200 * 100) / 204)
    assert (run.resizes, run.stalled_share) == (1, 51 / 204)
    assert run.solver_s_mean == pytest.approx(0.3)
    assert run.solver_s_max == 0.6
    assert 0.59 < run.solver_s_p99 < 0.6


def test_waits_are_measured_by_what_queues_say() -> None:
    """Waits of 0, 90 and 84 s; the last job's queue states no expected wait."""
    made = small()
    waits = WaitColumns(
        expected_ns=np.array([30, 60, 0]) * NS_PER_S, max_ns=np.array([30, 80, 0]) * NS_PER_S
    )
    jobs = replace(made.jobs, waits=waits)
    run = metrics_of(
        replace(
            made,
            jobs=jobs,
            decisions=4,
            deciding_ns=2 * NS_PER_S,
            longest_decision_ns=NS_PER_S,
            deciding_cpu_ns=NS_PER_S,
            longest_decision_cpu_ns=NS_PER_S // 2,
        )
    )
    assert run.weighted_wait == 90 / 60
    assert (run.jobs_late, run.lateness_s_total) == (1, 10)
    assert (run.decision_s_mean, run.decision_s_max) == (0.5, 1)
    assert (run.decision_cpu_s_mean, run.decision_cpu_s_max) == (0.25, 0.5)


def test_without_waits_of_queues_nothing_is_told_of_them() -> None:
    run = metrics_of(replace(small(), decisions=4, deciding_ns=NS_PER_S))
    assert not {"weighted_wait", "jobs_late", "decision_s_mean"} & metrics_document(run).keys()


def test_a_job_as_long_as_its_static_time_never_has_a_bounded_slowdown_below_one() -> None:
    run = metrics_of(record([(0, 0, 2, 1)], static_run_s=[2]))
    assert (run.slowdown_mean, run.bounded_slowdown_mean) == (1, 1)


def test_slowdown_is_over_the_static_run_time_and_not_the_one_it_had() -> None:
    run = metrics_of(record([(0, 10, 210, 1)], static_run_s=[100]))
    assert (run.slowdown_mean, run.bounded_slowdown_mean) == (2.1, 2.1)


def test_a_job_without_a_run_time_has_no_slowdown_but_a_bounded_one() -> None:
    run = metrics_of(record([(0, 50, 50, 1), (0, 0, 100, 1)]))
    assert (run.slowdown_mean, run.bounded_slowdown_mean) == (1, 3)


def test_jobs_that_did_not_end_are_counted_and_left_out() -> None:
    run = metrics_of(record([(0, 0, 100, 4), (10, 100, -1, 2), (20, -1, -1, 1)]))
    assert (run.jobs, run.jobs_unfinished) == (3, 2)
    assert (run.wait_s_mean, run.response_s_max, run.makespan_s) == (0, 100, 100)
    assert run.utilisation == 1


@pytest.mark.parametrize("jobs", [[], [(5, -1, -1, 1)]])
def test_what_cannot_be_stated_is_nan(jobs: list[tuple[float, float, float, int]]) -> None:
    run = metrics_of(record(jobs))
    assert (run.jobs_unfinished, run.makespan_s, run.resizes) == (len(jobs), 0, 0)
    for name in ("wait_s_mean", "slowdown_mean", "utilisation", "solver_s_max", "drawn_w_mean"):
        assert math.isnan(getattr(run, name)), name
    assert math.isnan(run.committed_w_mean)
    assert math.isnan(run.nodes_busy_mean)


def test_mean_power_is_over_the_makespan_only() -> None:
    states = [(0.0, 0, 0, 0, 50.0, 50.0, 400.0), (10.0, 0, 1, 1, 100.0, 90.0, 400.0)]
    states += [(20.0, 0, 1, 2, 200.0, 90.0, 400.0), (99.0, 0, 0, 0, 9.0, 9.0, 400.0)]
    run = metrics_of(record([(10, 10, 30, 1)], states))
    assert run.committed_w_mean == 150


@pytest.mark.parametrize(
    ("name", "nodes", "wait_s", "bounded", "makespan_s", "utilisation"),
    [
        ("kth_sp2", 100, 6836.87, 92.577, 29_363_626, 0.686),
        ("sdsc_sp2", 128, 20497.76, 87.870, 63_192_188, 0.823),
    ],
)
def test_published_starts_of_easy(
    name: str, nodes: int, wait_s: float, bounded: float, makespan_s: float, utilisation: float
) -> None:
    root = os.environ.get("WATTFOLD_WORKLOADS")
    if not root:
        pytest.skip("WATTFOLD_WORKLOADS names no folder of workload logs")
    log = Path(root) / "workloads" / f"{name}.swf.gz"
    reference = Path(root) / "easy_reference" / f"{name}.csv.gz"
    if not (log.is_file() and reference.is_file()):
        pytest.skip(f"{log} or {reference} is not there")
    jobs = job_table(read_swf(log).workload)
    with gzip.open(reference, "rt") as stream:
        starts = {int(row["job_id"]): float(row["start"]) for row in csv.DictReader(stream)}
    start_ns = np.array([starts[i] * NS_PER_S for i in jobs.job_ids.tolist()], dtype=np.int64)
    base = record([(0.0, 0.0, 0.0, 1)] * len(jobs), nodes=nodes)
    columns = replace(
        base.columns,
        start_ns=start_ns,
        end_ns=start_ns + jobs.run_ns,
        node_ns=jobs.run_ns * jobs.size_max,
    )
    run = metrics_of(replace(base, jobs=jobs, columns=columns))
    assert round(run.wait_s_mean, 2) == wait_s
    assert round(run.bounded_slowdown_mean, 3) == bounded
    assert run.makespan_s == makespan_s
    assert round(run.utilisation, 3) == utilisation


def test_waits_go_to_the_jobs_of_their_queue() -> None:
    workload = generate_lublin(40, 3, procs=16)
    known = sorted({*workload.queues.tolist()})
    jobs = job_table(workload, queue_waits={known[0]: Waits(5, 9)})
    order = np.lexsort((workload.job_ids, workload.submit_ns))
    ours = workload.queues[order] == known[0]
    assert jobs.waits is not None
    assert jobs.waits.max_ns.tolist() == np.where(ours, 9, 0).tolist()
    assert jobs.waits_of(int(np.flatnonzero(ours)[0])) == Waits(5, 9)
    with pytest.raises(ValueError, match="queue 77, which has no jobs"):
        job_table(workload, queue_waits={77: Waits(5, 9)})
