"""Columns of `history` by name. Orders of the list have the same names."""

from __future__ import annotations

from collections.abc import Callable

from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.columns import Field, Fields, Value, moment_or_none
from wattfold.v1 import coordinator_pb2 as pb


def energy_j(job: pb.HistoryJob) -> float:
    """Return the whole energy of a job in joules."""
    return job.energy_j + job.idle_energy_j + job.gpu_energy_j


def _private(value: Callable[[pb.HistoryJob], Value]) -> Callable[[pb.HistoryJob], Value]:
    """Return a value that jobs of other accounts do not have."""
    return lambda job: None if job.access == pb.JOB_ACCESS_OTHER else value(job)


FIELDS: Fields[pb.HistoryJob] = {
    "id": Field(lambda job: job.job_id),
    "user": Field(lambda job: job.user),
    "name": Field(lambda job: job.name),
    "app": Field(lambda job: job.app),
    "queue": Field(lambda job: job.queue),
    "state": Field(lambda job: f.job_state(job.state)),
    "exit": Field(_private(lambda job: job.exit_code)),
    "attempts": Field(lambda job: job.attempts or None),
    "submit": Field(lambda job: moment_or_none(job.submitted_at_s)),
    "start": Field(lambda job: moment_or_none(job.started_at_s)),
    "end": Field(lambda job: moment_or_none(job.ended_at_s)),
    "wait": Field(
        lambda job: max((job.started_at_s or job.ended_at_s) - job.submitted_at_s, 0.0), "s"
    ),
    "time": Field(lambda job: job.ended_at_s - job.started_at_s if job.started_at_s else None, "s"),
    "size_min": Field(lambda job: job.size_min),
    "size_max": Field(lambda job: job.size_max),
    "unit": Field(lambda job: f.size_unit(job.unit)),
    "nodes": Field(lambda job: job.nodes or None),
    "node_list": Field(lambda job: job.node_list),
    "cores": Field(_private(lambda job: job.core_s / 3600), "h"),
    "energy": Field(_private(energy_j), "j"),
    "cap": Field(lambda job: job.mean_cap_w or None, "w"),
    "given_up": Field(_private(lambda job: job.given_up_w), "w"),
    "gained": Field(_private(lambda job: job.gained_w), "w"),
    "given_up_energy": Field(_private(lambda job: job.given_up_j), "j"),
    "gained_energy": Field(_private(lambda job: job.gained_j), "j"),
    "residual": Field(_private(lambda job: job.residual_s), "s"),
    "policy": Field(lambda job: job.policy),
    "account": Field(lambda job: job.account),
}
