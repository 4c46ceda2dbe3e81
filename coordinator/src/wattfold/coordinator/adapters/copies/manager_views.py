"""Statements about the resource manager of the site, and about its jobs."""

from __future__ import annotations

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb


def add_manager(message: pb.Power, state: State, clock: Clock) -> None:
    """Add the resource manager and the number of its jobs, if there is one."""
    manager = state.manager
    if not manager.name:
        return
    jobs = [job for job in state.index.open.values() if job.spec.manager]
    running = [job for job in jobs if job.state in PLACED_STATES]
    message.manager.CopyFrom(
        pb.ResourceManager(
            name=manager.name,
            reachable=manager.reachable,
            reason=manager.reason,
            since_s=clock.wall_s(manager.since_ns),
            running_jobs=len(running),
            waiting_jobs=len(jobs) - len(running),
            adopted_jobs=sum(any(r.adopted for r in job.ranks.values()) for job in running),
        )
    )


def cap_reason(state: State, job: Job) -> str:
    """Return the cap of a running job and why it has this cap, in a few words."""
    if job.target is None:
        return "no core of a node of Wattfold is counted for the job"
    nodes = [state.nodes[share.node_id] for share in job.target.shares]
    most_uw = max(node.spec.package_max_uw for node in nodes if node.spec)
    text = f"cap {w_from_uw(job.target.cap_uw):.0f} W of {w_from_uw(most_uw):.0f} W per node"
    budget = f"budget {w_from_uw(state.ledger.budget_uw):.0f} W"
    given = sum(len(cpus) for cpus in job.allocation.cpus.values()) if job.allocation else 0
    cores = f"; {job.target.size} of {given} cores" if job.target.size < given else ""
    return f"{text}, {budget}{cores}"


def manager_statements(state: State, job: Job) -> list[str]:
    """Explain who decides about a job of a resource manager."""
    if job.allocation is None or job.final:
        return []
    number = job.allocation.seen.label
    lines = []
    if not state.manager.reachable:
        lines.append(
            f"Slurm does not answer: {state.manager.reason}. Caps and cores stay in force."
        )
    if job.state not in PLACED_STATES:
        return [*lines, f"Slurm decides when it starts: `scontrol show job {number}`."]
    lines.append(
        f"Slurm owns the job ({number}): it alone suspends and ends it. Wattfold decides its cap"
        + (" and its cores within the allocation." if job.resizable else ".")
    )
    if job.target is None:
        lines.append("It has no cap, because other jobs hold all cores of its nodes.")
    elif not any(rank.adopted for rank in job.ranks.values()):
        lines.append("It is not adopted: it runs without the plugin, or no step has started yet.")
    elif job.spec.unit is SizeUnit.UNITS:
        lines.append("It has several nodes, so it keeps its cores.")
    if job.state is JobState.SUSPENDED:
        lines.append(f"`scontrol resume {number}` resumes it.")
    return lines
