"""`workload collect`: selected jobs, units, and missing values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wattfold.coordinator.cli.shared.errors import BadRequestError
from wattfold.coordinator.cli.workloads.workload_collect import CollectedSite, site_of, workload_of
from wattfold.simulator.workloads.swf_reader import read_swf
from wattfold.simulator.workloads.swf_writer import write_swf
from wattfold.v1 import coordinator_pb2 as pb

SITE = CollectedSite(nodes=4, cores=32, each=8)
S = 1_000_000_000


def job(
    state: pb.JobState = pb.JOB_STATE_COMPLETED, at_s: float = 1000.25, **fields: Any
) -> pb.Job:
    spec = {"app": fields.pop("app", "lulesh"), "unit": fields.pop("unit", pb.SIZE_UNIT_NODES)}
    low, high = fields.pop("sizes", (2, 2))
    spec |= {"size_min": low, "size_max": high}
    spec |= {name: fields.pop(name) for name in ("time_ns", "limit_ns") if name in fields}
    times = {"submitted_at_s": at_s, "started_at_s": at_s + 2.5, "ended_at_s": at_s + 12.5}
    return pb.Job(spec=pb.JobSpec(**spec), state=state, **{**times, **fields})


def test_a_log_has_what_was_asked_for_and_what_became_of_it(tmp_path: Path) -> None:
    jobs = [
        job(at_s=1100.0, user="b", unit=pb.SIZE_UNIT_CORES, sizes=(3, 3), limit_ns=60 * S),
        job(user="a", time_ns=20 * S, limit_ns=60 * S, cpu_ns=80 * S),
        job(pb.JOB_STATE_CANCELLED, at_s=1200.0, user="b", app="namd"),
    ]
    write_swf(workload_of(jobs, SITE), tmp_path / "log.swf")
    found = read_swf(tmp_path / "log.swf").workload
    assert found.header.max_procs == 32
    assert found.header.unix_start_time_s == 1000
    assert found.submit_s.tolist() == [0.25, 100.0, 200.0]
    assert found.wait_s.tolist() == [2.5, 2.5, 2.5]
    assert found.run_s.tolist() == [10.0, 10.0, 10.0]
    assert found.procs.tolist() == [16, 3, 16]
    assert found.requested_s.tolist() == [20.0, 60.0, -1.0]
    assert found.cpu_s.tolist() == [5.0, 0.0, 0.0]
    assert found.status.tolist() == [1, 1, 5]
    assert found.users.tolist() == [1, 2, 2]
    assert found.executables.tolist() == [1, 1, 2]


def test_a_job_that_was_resized_counts_what_it_held_on_average() -> None:
    cores = {"unit": pb.SIZE_UNIT_CORES, "sizes": (1, 8)}
    before = pb.JobAttempt(core_ns=100 * S)
    jobs = [
        job(core_ns=52 * S, **cores),
        job(core_ns=152 * S, attempts=[before], **cores),
        job(core_ns=900 * S, **cores),
        job(**cores),
    ]
    assert workload_of(jobs, SITE).procs.tolist() == [5, 5, 8, 1]


def test_what_has_not_run_is_no_job_of_a_log() -> None:
    never = job(pb.JOB_STATE_CANCELLED, started_at_s=0.0)
    assert len(workload_of([job(), never, job(pb.JOB_STATE_RUNNING)], SITE)) == 1
    with pytest.raises(BadRequestError, match="no job has started and ended yet"):
        workload_of([never], SITE)


def test_nodes_that_differ_need_a_word_what_one_counts() -> None:
    nodes = [pb.Node(cpus="0-7"), pb.Node(cpus="0-3"), pb.Node()]
    with pytest.raises(
        BadRequestError, match="nodes have 4 to 8 cores; give the number of processors"
    ):
        site_of(nodes, None)
    assert site_of(nodes, 6) == CollectedSite(nodes=2, cores=12, each=6)
    assert site_of(nodes[:1], None) == CollectedSite(nodes=1, cores=8, each=8)
