"""Current loans of cores under slowdown-driven backfill, for users whose jobs share nodes.

They are derived from the resources of running jobs, as the policy does in each round. A job with
fewer cores on a node than requested lends to the jobs that started there later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import span_text
from wattfold.coordinator.core.model.jobs.job_units import count_text
from wattfold.coordinator.core.model.plan import JobView, Snapshot
from wattfold.coordinator.models.amdahl import half_speed
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.site_view import site_of
from wattfold.coordinator.policies.resources.serial_part import serial_of_ppm
from wattfold.coordinator.policies.slowdown_driven.runs import FreeResources


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """Cores of a node that a running job lends. ``limit``: slowdown at which lending stops."""

    lender: JobId
    guest: JobId
    node_id: NodeId
    cores: int
    until_ns: int
    slowdown: float
    limit: float


def lendings(
    seen: Snapshot, guests: int, max_slowdown: float, *, dynamic: bool = False
) -> list[Lending]:
    """Return all current loans of running jobs, by lender and node.

    The other arguments are settings of the policy, with its names.
    """
    running = [view for view in seen.jobs if view.current is not None]
    if not seen.nodes or not running:
        return []
    ground = FreeResources(site_of(seen), seen.now_ns, guests)
    # Unchanged: no cores are returned, and no cap is raised.
    ground.adopt(list(enumerate(running)), among=())
    limit = max_slowdown
    if dynamic:
        limit = sum(run.slowdown for run in ground.runs.values()) / len(ground.runs)
    return [
        Lending(
            lender=run.view.job_id,
            guest=guest.view.job_id,
            node_id=share.node_id,
            cores=len(part.cpus),
            until_ns=guest.ends_ns,
            slowdown=run.slowdown,
            limit=limit,
        )
        for run in ground.runs.values()
        for share in run.given.shares
        if run.grows and len(share.cpus) < run.fulls[share.node_id]
        for guest in ground.on(share.node_id)
        if guest.since > run.since
        for part in guest.given.shares
        if part.node_id == share.node_id
    ]


def loan_statements(loans: Iterable[Lending], view: JobView, now_ns: int) -> list[str]:
    """Return the cores that a job lends and borrows, as sentences."""
    lines = []
    for loan in loans:
        left = span_text((loan.until_ns - now_ns) / 1e9)
        cores = count_text(loan.cores, SizeUnit.CORES)
        speed = f"predicted slowdown {loan.slowdown:.2f}, limit {loan.limit:.2f}"
        if loan.lender == view.job_id:
            lines.append(
                f"It lends {cores} of {loan.node_id} to job {loan.guest} until that job ends, in "
                f"about {left} ({speed})."
            )
        elif loan.guest == view.job_id:
            lines.append(
                f"Job {loan.lender} lends it {cores} of {loan.node_id} until it ends, in about "
                f"{left} (job {loan.lender}: {speed})."
            )
    return lines


def speed_statements(view: JobView) -> list[str]:
    """Return the speed of a job that may lend cores on half of them, if it is known."""
    if not view.spec.lends:
        return []
    known = serial_of_ppm(view, view.max_size)
    if known is None:
        return ["Its speed on fewer cores is unknown and assumed to be proportional."]
    source = "measured" if view.serial_ppm >= 0 else f"profile of {view.spec.app}"
    return [f"On half of its cores it runs at {half_speed(known):.0%} of its speed ({source})."]
