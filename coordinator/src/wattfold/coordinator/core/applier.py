"""Check a plan against the current state and accept the parts that still hold.

A policy plans on a snapshot. Meanwhile jobs may have ended, nodes may have fallen silent or the
budget may have changed. Running jobs are checked first, then starts in the order of the plan. A
part that no longer holds is refused with a reason; the next round plans for it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.amounts import gpus_text, memory_text
from wattfold.coordinator.core.model.job import KEEPS_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment, Share
from wattfold.coordinator.core.model.jobs.job_units import misshapen
from wattfold.coordinator.core.model.plan import Plan, Preemption, Refusal
from wattfold.coordinator.core.model.reservation import Windows
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.core.rules.jobs import allocations, preemption
from wattfold.coordinator.core.rules.jobs.restart_target import firm, immovable, restarts
from wattfold.coordinator.core.rules.nodes import decided_sleep, reach
from wattfold.coordinator.core.rules.snapshot import without_jobs
from wattfold.coordinator.core.state.blocked import blocked_amounts
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The accepted parts of a plan, and the refusals with their reasons."""

    changes: tuple[Assignment, ...]
    starts: tuple[Assignment, ...]
    refusals: tuple[Refusal, ...]
    preemptions: tuple[Preemption, ...] = ()


def accept(plan: Plan, state: State, now_ns: int) -> Accepted:
    """Split a plan into accepted and refused parts."""
    refusals: dict[JobId, str] = {}
    changes: list[Assignment] = []
    starts: list[Assignment] = []
    strays = state.stray_jobs()
    windows = Windows(state.reservations.values())
    for assignment in plan.assignments:
        job = state.jobs.get(assignment.job_id)
        if job is not None and firm(state, job):
            continue  # The job has what it waits for. The plan need not mention it.
        if job is not None and job.spec.manager:
            assignment = allocations.within_allocation(job, assignment)
        if job is not None and job.spec.levels:
            # Levels that the job requested override those of the policy.
            levels = assignment.levels.under(job.spec.levels)
            assignment = replace(assignment, levels=levels)
        reason = _individual(assignment, job, state) or _reserved(assignment, job, windows, now_ns)
        if assignment.job_id in strays:
            reason = (
                "another process of this job still runs, from an earlier attempt or another journal"
            )
        if reason or job is None:
            refusals[assignment.job_id] = reason
        elif not job.ranks and preemption.yields(state, job):
            refusals[assignment.job_id] = (
                f"the job was preempted for job {job.yields_to}, which still waits"
            )
        elif not job.ranks:
            starts.append(assignment)
        else:
            changes.append(assignment)
    changes = _without_clashes(changes, state, refusals)
    accepted = _starts(starts, changes, state, now_ns, refusals)
    preempted = _preemptions(plan, state, refusals)
    return Accepted(
        changes=tuple(changes),
        starts=tuple(accepted),
        refusals=tuple(Refusal(job_id=job, reason=why) for job, why in refusals.items()),
        preemptions=tuple(preempted),
    )


def _preemptions(plan: Plan, state: State, refusals: dict[JobId, str]) -> list[Preemption]:
    """Return the preemptions of a plan that still hold, each job once."""
    good: dict[JobId, Preemption] = {}
    for one in plan.preemptions:
        reason = preemption.refusal(state, one)
        if reason:
            refusals[one.job_id] = f"cannot be preempted: {reason}"
        else:
            good.setdefault(one.job_id, one)
    return list(good.values())


class _Claims:
    """Cores, memory and GPUs assigned so far, by node."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._nodes = state.nodes
        self._jobs = state.jobs
        self.cpus: dict[NodeId, CpuSet] = {}
        self._bytes: dict[NodeId, int] = {}
        self._gpus: dict[NodeId, frozenset[str]] = {}

    def _footprint(self, assignment: Assignment, share: Share) -> CpuSet:
        """Return the cores closed to other jobs: those of the share, or the whole node."""
        asked = self._jobs[assignment.job_id].spec
        node = self._nodes[share.node_id].spec
        return node.cpus if asked.alone and node else share.cpus

    def clash(self, assignment: Assignment) -> str:
        for share in assignment.shares:
            footprint = self._footprint(assignment, share)
            double = footprint & self.cpus.get(share.node_id, CpuSet())
            if double:
                return f"cores {double} of {share.node_id} are assigned to another job"
        return ""

    def shortage(self, assignment: Assignment) -> str:
        """Describe the needed memory or GPUs that other jobs hold; empty = none."""
        for share in assignment.shares:
            node = self._nodes[share.node_id]
            if node.spec is None or not (share.memory_bytes or share.gpus):
                continue
            blocked_bytes, blocked_gpus = blocked_amounts(self._state, node)
            taken_bytes = self._bytes.get(share.node_id, 0)
            left_bytes = max(node.spec.memory_bytes - blocked_bytes - taken_bytes, 0)
            if share.memory_bytes > left_bytes:
                return (
                    f"needs {memory_text(share.memory_bytes)} of memory; "
                    f"{memory_text(left_bytes)} are free on {share.node_id}"
                )
            taken = self._gpus.get(share.node_id, frozenset()) | {*blocked_gpus}
            double = sorted(taken.intersection(share.gpus))
            if double:
                return f"GPU {double[0]} of {share.node_id} is assigned to another job"
        return ""

    def add(self, assignment: Assignment) -> None:
        ending = self._jobs[assignment.job_id].state is JobState.ENDING
        for share in assignment.shares:
            held = self.cpus.get(share.node_id, CpuSet())
            self.cpus[share.node_id] = held | self._footprint(assignment, share)
            if ending or not (share.memory_bytes or share.gpus):
                # Memory and GPUs of ending jobs are already among the blocked amounts.
                continue
            self._bytes[share.node_id] = self._bytes.get(share.node_id, 0) + share.memory_bytes
            self._gpus[share.node_id] = self._gpus.get(share.node_id, frozenset()) | {*share.gpus}


def _kept(changes: Iterable[Assignment], state: State) -> list[Assignment]:
    """Return the targets of jobs with processes that no accepted change replaces."""
    changed = {assignment.job_id for assignment in changes}
    return [
        target
        for job in state.placed()
        if job.job_id not in changed and (job.ranks or firm(state, job))
        for target in (job.target, job.following)
        if target
    ]


def _without_clashes(
    changes: list[Assignment],
    state: State,
    refusals: dict[JobId, str],
) -> list[Assignment]:
    """Refuse changes that need cores of a job that keeps its target, until no clash is left.

    The job of a refused change keeps its old cores, and these may clash with another change. The
    loop ends because the list only shrinks.
    """
    while True:
        claims = _Claims(state)
        for assignment in _kept(changes, state):
            claims.add(assignment)
        good: list[Assignment] = []
        for assignment in changes:
            reason = claims.clash(assignment)
            if not reason and restarts(state.jobs[assignment.job_id], assignment):
                reason = claims.shortage(assignment)
            if reason:
                refusals[assignment.job_id] = reason
            else:
                claims.add(assignment)
                good.append(assignment)
        if len(good) == len(changes):
            return good
        changes = good


def _starts(
    starts: list[Assignment],
    changes: list[Assignment],
    state: State,
    now_ns: int,
    refusals: dict[JobId, str],
) -> list[Assignment]:
    # Power is counted as the policy saw it: the snapshot already reserves the power of unreachable
    # nodes and of ending jobs.
    seen = without_jobs(state, now_ns)
    specs = {view.spec.node_id: view.spec for view in seen.nodes}
    left_uw, dram_cap_uw = seen.spendable_uw, state.settings.dram_cap_uw
    taken = _Claims(state)
    for assignment in (*changes, *_kept(changes, state)):
        taken.add(assignment)
        job = state.jobs[assignment.job_id]
        if job.state not in KEEPS_STATES:
            before = job.target if restarts(job, assignment) else None
            # A restarted job never draws for both targets at once. The old target counts until it
            # ends.
            left_uw -= max(
                assigned_on_uw(one, specs, dram_cap_uw) for one in (assignment, before) if one
            )
    accepted: list[Assignment] = []
    for assignment in starts:
        reason = taken.clash(assignment) or taken.shortage(assignment)
        spec = state.jobs[assignment.job_id].spec
        if reach.spans_nodes(spec):
            found = reach.chosen(state, assignment, spec)
            if isinstance(found, str):
                reason = reason or found
            else:
                assignment = replace(assignment, reach=found)
        needed_uw = assigned_on_uw(assignment, specs, dram_cap_uw)
        if not reason and needed_uw > left_uw:
            reason = (
                f"needs {needed_uw / 1e6:.2f} W above the floors; {left_uw / 1e6:.2f} W are "
                "available"
            )
        if reason:
            refusals[assignment.job_id] = reason
        else:
            taken.add(assignment)
            left_uw -= needed_uw
            accepted.append(assignment)
    return accepted


def _individual(assignment: Assignment, job: Job | None, state: State) -> str:
    """Return why an assignment is invalid by itself, or an empty string."""
    if job is None or job.state not in (JobState.PENDING, JobState.STARTING, JobState.RUNNING):
        return "the job has ended or is ending"
    reason = (
        _wrong_size(assignment, job)
        or _wrong_nodes(assignment, job, state)
        or _wrong_part(assignment, job, state)
        or _wrong_amounts(assignment, job, state)
    )
    if reason or not job.ranks or job.target is None or assignment.shares == job.target.shares:
        return reason
    if job.state is JobState.STARTING:
        return "the job is starting"
    if job.restarted:
        return immovable(job) or _not_for_new(assignment, job, state)
    if job.reach:
        return reach.wrong_nodes(assignment, job, state)
    if not job.resizable:
        return (
            f"a {job.spec.kind.value} job in mode {job.spec.mode.value} keeps its cores while it "
            "runs"
        )
    if {s.node_id for s in assignment.shares} != {s.node_id for s in job.target.shares}:
        return "a running job stays on its nodes"
    return ""


def _reserved(assignment: Assignment, job: Job | None, windows: Windows, now_ns: int) -> str:
    """Return why reservations forbid a start, or an empty string.

    A job must not start on nodes reserved for others, or outside its own reservation. For a
    restart, only the nodes that are new to the job are checked.
    """
    if job is None or not windows.concern(job.spec):
        return ""
    takes_ns = job.spec.limit_ns or round(assignment.expected_total_s * 1e9)
    nodes = [share.node_id for share in assignment.shares if share.node_id not in job.ranks]
    if job.ranks and not (nodes and restarts(job, assignment)):
        return ""
    return windows.why(job.spec, nodes, now_ns, now_ns + takes_ns)


def _not_for_new(assignment: Assignment, job: Job, state: State) -> str:
    """Return why a restarted job cannot move to a new node."""
    for share in assignment.shares:
        node = state.nodes[share.node_id]
        if share.node_id not in job.ranks and not node.takes_jobs:
            return f"node {share.node_id} {node.closed}"
    return ""


def _wrong_size(assignment: Assignment, job: Job) -> str:
    spec = job.spec
    asked = job.size_asked
    if asked and assignment.size not in (asked, job.target.size if job.target else asked):
        return f"size {assignment.size} differs from the size set with `wattfold resize`, {asked}"
    if not spec.min_size <= assignment.size <= spec.size_max:
        return f"size {assignment.size} is outside {spec.min_size}..{spec.size_max}"
    present = job.target.size if job.target else 0
    if assignment.size > max(spec.max_size(job.wanted), present):
        return f"the program requests at most {job.wanted} cores"
    return misshapen(spec, assignment.size, assignment.shares)


def _wrong_part(assignment: Assignment, job: Job, state: State) -> str:
    """Return why a share of a whole-node job is too small, or an empty string.

    Whole nodes and unchanged shares are valid. A job that shares no node needs whole nodes, other
    jobs need a core for each task.
    """
    spec = job.spec
    for share in assignment.shares if spec.unit is SizeUnit.NODES else ():
        node = state.nodes[share.node_id].spec
        before = job.target.on(share.node_id) if job.target else CpuSet()
        if node is None or share.cpus in (node.cpus, before):
            continue
        if spec.alone:
            return (
                f"cores {share.cpus} are not the whole node {share.node_id}, which the job requires"
            )
        if len(share.cpus) < spec.tasks_per_node:
            return (
                f"{len(share.cpus)} cores of {share.node_id} are too few for {spec.tasks_per_node} "
                "tasks"
            )
    return ""


def _wrong_nodes(assignment: Assignment, job: Job, state: State) -> str:
    seen: set[NodeId] = set()
    for share in assignment.shares:
        node = state.nodes.get(share.node_id)
        if node is None or node.spec is None or share.node_id in seen:
            return f"node {share.node_id} is unknown or listed twice"
        seen.add(share.node_id)
        coming = decided_sleep.comes(state, node)
        if not (node.usable or coming) and (
            not job.target or share.cpus != job.target.on(share.node_id)
        ):
            return f"node {share.node_id} is {node.state.value}"
        if not (job.ranks or node.takes_jobs or coming):
            return f"node {share.node_id} {node.closed}"
        if not share.cpus or not share.cpus <= node.spec.cpus:
            return (
                f"cores {share.cpus} are not all part of node {share.node_id} (cores "
                f"{node.spec.cpus})"
            )
        for foreign in node.foreign.values():
            if not foreign.isdisjoint(share.cpus):
                return (
                    f"cores {foreign & share.cpus} are in use by processes of earlier attempts "
                    "or of another journal"
                )
    return ""


def _wrong_amounts(assignment: Assignment, job: Job, state: State) -> str:
    """Return which requested amounts or features are wrong on a node, or an empty string.

    A running job has to keep its memory and GPUs.
    """
    spec = job.spec
    before = {s.node_id: s.beside_cores for s in job.target.shares} if job.target else {}
    for share in assignment.shares:
        if job.ranks and share.node_id in before:
            if share.beside_cores != before[share.node_id]:
                return "a running job keeps its memory and its GPUs"
            continue
        due = spec.amounts_on(len(share.cpus))
        if share.memory_bytes != due.memory_bytes or len(set(share.gpus)) != due.gpus:
            given = f"{memory_text(share.memory_bytes)} and {gpus_text(len(share.gpus))}"
            asked = f"{memory_text(due.memory_bytes)} and {gpus_text(due.gpus)}"
            return f"the assigned {given} on {share.node_id} differ from the requested {asked}"
        node = state.nodes[share.node_id]
        strange = sorted({*share.gpus} - {*(node.spec.gpus if node.spec else ())})
        if strange:
            return f"node {share.node_id} has no GPU {strange[0]}"
        missing = [name for name in spec.features if name not in node.all_features]
        if missing:
            return f"node {share.node_id} lacks the feature {missing[0]}"
        if spec.among and share.node_id not in spec.among:
            return f"node {share.node_id} is not in the --among list of the job"
    return ""
