"""Ended jobs as rows of the history file."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, fields

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.ownership import owner_name
from wattfold.coordinator.adapters.history.folded_names import folded
from wattfold.coordinator.adapters.history.watts import Traded
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.attempt import Attempt
from wattfold.coordinator.core.model.jobs.rank import RankEnd

_NS_PER_MS = 1_000_000
_UJ_PER_MJ = 1_000
_UW_PER_MW = 1_000
NAME_MAX = 200
WHY_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """One row. Times are Unix milliseconds, 0 = never; energies millijoules, the cap milliwatts.

    ``day`` is the local calendar day of the end, as 20270131. ``uid`` -1 = unknown. ``earlier``
    describes the earlier attempts as JSON; empty = none. The sums contain these attempts.
    """

    job: str
    name: str
    user: str
    uid: int
    app: str
    queue: str
    state: str
    exit_code: int
    submit_ms: int
    start_ms: int
    end_ms: int
    day: int
    nodes: int
    node_list: str
    core_ms: int
    energy_mj: int
    idle_mj: int
    gpu_mj: int
    cap_mw: int
    residual_ms: int
    attempts: int
    size_min: int
    size_max: int
    unit: str
    policy: str
    earlier: str
    account: str
    given_up_mj: int
    gained_mj: int
    capped_ms: int


COLUMNS = tuple(field.name for field in fields(EndedJob))
WORDS = ("user", "app", "queue", "state", "unit", "policy", "account")
"""Columns with few different values, which the file stores once each."""


def day_of(time_s: float) -> int:
    """Return the local calendar day of Unix seconds, as 20270131."""
    local = time.localtime(time_s)
    return local.tm_year * 10_000 + local.tm_mon * 100 + local.tm_mday


def row_of(job: Job, clock: Clock, policy: str, watts: Traded) -> EndedJob:
    """Return an ended job as a row. ``policy`` is the policy in force at its end."""
    spec = job.spec
    ends = [rank.end for rank in job.ranks.values() if rank.end]
    uses: list[RankEnd | Attempt] = [*job.attempts, *ends]
    end_s = clock.wall_s(job.ended_ns)
    mean_cap_uw = job.cap_uw_ns // job.capped_ns if job.capped_ns else 0
    return EndedJob(
        job=job.job_id,
        name=spec.name[:NAME_MAX],
        user=owner_name(spec),
        uid=spec.uid,
        app=spec.app[:NAME_MAX],
        queue=spec.queue,
        state=job.state.value,
        exit_code=job.exit_code,
        submit_ms=_ms(clock, job.submitted_ns),
        start_ms=_ms(clock, job.started_ns),
        end_ms=_ms(clock, job.ended_ns),
        day=day_of(end_s),
        nodes=len(job.ranks),
        node_list=folded(job.ranks),
        core_ms=sum(use.core_ns for use in uses) // _NS_PER_MS,
        energy_mj=sum(use.energy_uj for use in uses) // _UJ_PER_MJ,
        idle_mj=sum(use.idle_energy_uj for use in uses) // _UJ_PER_MJ,
        gpu_mj=sum(use.gpu_energy_uj for use in uses) // _UJ_PER_MJ,
        cap_mw=mean_cap_uw // _UW_PER_MW,
        residual_ms=sum(use.residual_cpu_ns for use in uses) // _NS_PER_MS,
        attempts=job.attempt,
        size_min=spec.size_min,
        size_max=spec.size_max,
        unit=spec.unit.value,
        policy=policy,
        earlier=_earlier(job.attempts, clock) if job.attempts else "",
        account=spec.account,
        given_up_mj=watts.given_up_mj,
        gained_mj=watts.gained_mj,
        capped_ms=watts.capped_ms,
    )


def _ms(clock: Clock, time_ns: int) -> int:
    return round(clock.wall_s(time_ns) * 1e3)


def _earlier(attempts: tuple[Attempt, ...], clock: Clock) -> str:
    return json.dumps(
        [
            {
                "number": one.number,
                "started_at_s": round(clock.wall_s(one.started_ns), 3),
                "ended_at_s": round(clock.wall_s(one.ended_ns), 3),
                "nodes": len(one.nodes),
                "core_s": round(one.core_ns / 1e9, 3),
                "energy_j": round(
                    (one.energy_uj + one.idle_energy_uj + one.gpu_energy_uj) / 1e6, 3
                ),
                "why": one.why[:WHY_MAX],
            }
            for one in attempts
        ],
        separators=(",", ":"),
    )
