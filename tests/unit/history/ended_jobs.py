"""Rows and jobs for tests of the history."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.history.rows import EndedJob
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.jobs.spec import JobSpec

S = 1_000_000_000
NOON_MS = 1_795_600_800_000
ROW = EndedJob(
    job="1",
    name="bench",
    user="ada",
    uid=1001,
    app="gmx",
    queue="",
    state="completed",
    exit_code=0,
    submit_ms=NOON_MS - 200_000,
    start_ms=NOON_MS - 100_000,
    end_ms=NOON_MS,
    day=20261125,
    nodes=1,
    node_list="n1",
    core_ms=3_600_000,
    energy_mj=3_600_000_000,
    idle_mj=0,
    gpu_mj=0,
    cap_mw=50_000,
    residual_ms=0,
    attempts=1,
    size_min=1,
    size_max=1,
    unit="cores",
    policy="parm-wse",
    earlier="",
    account="",
    given_up_mj=36_000_000,
    gained_mj=7_200_000,
    capped_ms=3_600_000,
)


def row(job: str, **changes: object) -> EndedJob:
    return replace(ROW, job=job, **changes)  # type: ignore[arg-type]


def ended(job: str, *, attempt: int = 1, ended_ns: int = 900 * S) -> Job:
    """A job that ran for 100 s on two nodes."""
    end = RankEnd(
        exit_code=0,
        cpu_ns=90 * S,
        energy_uj=5_000_000,
        idle_energy_uj=1_000_000,
        core_ns=200 * S,
        residual_cpu_ns=S // 2,
    )
    ranks = {
        NodeId(name): Rank(node_id=NodeId(name), held=CpuSet(), end=end) for name in ("n1", "n2")
    }
    return Job(
        job_id=JobId(job),
        spec=JobSpec(name="bench", app="gmx", argv=("true",), user="ada", uid=1001),
        state=JobState.COMPLETED,
        submitted_ns=ended_ns - 200 * S,
        started_ns=ended_ns - 100 * S,
        ended_ns=ended_ns,
        ranks=ranks,
        attempt=attempt,
        capped_ns=100 * S,
        cap_uw_ns=45_000_000 * 100 * S,
    )
