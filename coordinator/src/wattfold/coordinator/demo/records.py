"""Conversion of the coordinator's record of a run to results and plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
    LimitCurves,
    Observation,
    PolicyResult,
    PolicyRun,
    PowerPoint,
)
from wattfold.v1 import coordinator_pb2 as pb


def read_run(
    path: Path, policy: str, start_s: float, end_s: float, limits: LimitCurves
) -> PolicyRun:
    """The part of a record between two times (Unix seconds), times counted from the first."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["time_s"] <= end_s]
    inside = [line for line in lines if line["time_s"] >= start_s]
    earlier = [line for line in lines if line["time_s"] < start_s]
    if earlier:
        inside.insert(0, earlier[-1] | {"time_s": start_s})
    return PolicyRun(
        policy=policy,
        budget=tuple(
            BudgetPoint(time_s=line["time_s"] - start_s, budget_w=line["budget_w"])
            for line in inside
        ),
        power=tuple(
            PowerPoint(
                time_s=line["time_s"] - start_s,
                committed_w=line["committed_w"],
                measured_w=line["measured_w"],
            )
            for line in inside
        ),
        spans=tuple(_spans(inside, start_s, end_s)),
        limits=limits,
    )


def _spans(lines: Sequence[dict[str, Any]], start_s: float, end_s: float) -> list[CoreSpan]:
    spans: list[CoreSpan] = []
    held_since: dict[tuple[str, str, int], float] = {}
    for line in [*lines, {"time_s": end_s, "held": {}}]:
        now_s = line["time_s"] - start_s
        held = {
            (job["name"], node, cpu)
            for job in line["held"].values()
            for node, cpus in job["cores"].items()
            for cpu in cpus
        }
        for key in [key for key in held_since if key not in held]:
            name, node, cpu = key
            since_s = held_since.pop(key)
            spans.append(CoreSpan(job=name, node=node, cpu=cpu, start_s=since_s, end_s=now_s))
        for key in held:
            held_since.setdefault(key, now_s)
    return spans


def energy_j(run: PolicyRun, makespan_s: float) -> float:
    """Return the measured energy of all nodes over the run, base power included, in J."""
    points = [p for p in run.power if p.time_s <= makespan_s]
    total_j = 0.0
    for index, point in enumerate(points):
        until_s = points[index + 1].time_s if index + 1 < len(points) else makespan_s
        total_j += point.measured_w * max(until_s - point.time_s, 0.0)
    return total_j


def result(
    run: PolicyRun, jobs: Sequence[pb.Job], power: pb.Power, observed: Observation
) -> PolicyResult:
    """The figures of merit of a finished run."""
    first_s = min(job.submitted_at_s for job in jobs)
    makespan_s = max(job.ended_at_s for job in jobs) - first_s
    waits = [job.ended_at_s - job.submitted_at_s for job in jobs]
    return PolicyResult(
        policy=run.policy,
        jobs=len(jobs),
        mean_completion_s=sum(waits) / len(waits),
        makespan_s=makespan_s,
        energy_j=energy_j(run, makespan_s),
        budget_w=power.budget_uw / 1e6,
        committed_w_peak=power.committed_uw_peak / 1e6,
        measured_w_peak=max((p.measured_w for p in run.power), default=0.0),
        resizes=sum(job.resizes for job in jobs),
        observed=observed,
    )
