"""Columns of `queue` by name, for chosen columns, CSV and orders."""

from __future__ import annotations

from wattfold.coordinator.cli.jobs.lists.job_tables import (
    done_share,
    ending,
    hidden,
    owner,
)
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.columns import Field, Fields, moment_or_none
from wattfold.v1 import coordinator_pb2 as pb


def job_fields(now_s: float) -> Fields[pb.Job]:
    """Return the columns of jobs at a time (Unix seconds)."""
    return {
        "id": Field(lambda job: job.job_id),
        "attempt": Field(lambda job: job.attempt or None),
        "user": Field(owner),
        "name": Field(lambda job: job.spec.name),
        "app": Field(lambda job: job.spec.app),
        "queue": Field(lambda job: job.spec.queue),
        "state": Field(lambda job: f.job_state(job.state)),
        "reason": Field(_reason),
        "size": Field(lambda job: job.size or None),
        "size_min": Field(lambda job: job.spec.size_min),
        "size_max": Field(lambda job: job.spec.size_max or job.spec.size_min),
        "unit": Field(lambda job: f.size_unit(job.spec.unit)),
        "cores": Field(lambda job: sum(f.cpu_count(share.cpus) for share in _held(job)) or None),
        "nodes": Field(lambda job: len(_held(job)) or None),
        "node_list": Field(lambda job: ",".join(share.node_id for share in _held(job))),
        "cap": Field(lambda job: job.cap_uw / 1e6 if job.cap_uw else None, "w"),
        "priority": Field(lambda job: job.spec.priority),
        "submit": Field(lambda job: moment_or_none(job.submitted_at_s)),
        "start": Field(lambda job: moment_or_none(job.started_at_s)),
        "end": Field(lambda job: moment_or_none(job.ended_at_s)),
        "expected": Field(lambda job: moment_or_none(job.expected_start_at_s)),
        "wait": Field(lambda job: _wait_s(job, now_s), "s"),
        "time": Field(lambda job: _run_s(job, now_s), "s"),
        "left": Field(lambda job: job.remaining_s or None, "s"),
        "limit": Field(lambda job: job.spec.limit_ns / 1e9 or None, "s"),
        "done": Field(done_share),
        "energy": Field(_energy_j, "j"),
        "exit": Field(_exit_code),
        "account": Field(lambda job: job.spec.account),
        "slurm": Field(lambda job: job.manager_job_id),
    }


def _held(job: pb.Job) -> list[pb.NodeShare]:
    return [share for share in job.shares if not share.resident]


def _reason(job: pb.Job) -> str:
    return ending(job) if job.state in f.ENDED_STATES else job.reason


def _wait_s(job: pb.Job, now_s: float) -> float:
    return max((job.started_at_s or job.ended_at_s or now_s) - job.submitted_at_s, 0.0)


def _run_s(job: pb.Job, now_s: float) -> float | None:
    if not job.started_at_s:
        return None
    return max((job.ended_at_s or now_s) - job.started_at_s, 0.0)


def _energy_j(job: pb.Job) -> float | None:
    used_uj = job.energy_uj + job.idle_energy_uj + job.gpu_energy_uj
    return None if hidden(job) else used_uj / 1e6


def _exit_code(job: pb.Job) -> int | None:
    known = job.state in (pb.JOB_STATE_COMPLETED, pb.JOB_STATE_FAILED) and not hidden(job)
    return job.exit_code if known else None


JOB_COLUMNS = tuple(job_fields(0.0))
