"""Explanations for users why a job waits, or why it has its size and cap, with values and units.

They are computed from the snapshot for the next round with the policy's own options, so they
describe the current state, not the state at the last plan. A policy adds its own statements
(`port.ExplainingPolicy`), so this module names no family.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import JobId
from wattfold.contract.units import span_text
from wattfold.coordinator.core.model.amounts import gpus_text, memory_text
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.job_units import count_text, size_text
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.levels import Levels
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import NOBODY, JobView, Policy, Snapshot
from wattfold.coordinator.core.power.charge import gpu_cap_uw, gpu_zones, gpus_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.shortage import free_room, shortage
from wattfold.coordinator.policies.port import ExplainingPolicy
from wattfold.coordinator.policies.resources.estimates import estimate
from wattfold.coordinator.policies.resources.room import Room


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """A summary sentence, and detailed statements."""

    summary: str
    lines: tuple[str, ...]


def explain(
    snapshot: Snapshot, job_id: JobId, policy: Policy, reason: str, first: JobId = NOBODY
) -> JobExplanation:
    """Explain a waiting or running job of the snapshot. Raises KeyError for any other job.

    ``first``: the head of the queue, if the policy has a queue and this job waits behind it.
    """
    view = next((v for v in snapshot.jobs if v.job_id == job_id), None)
    if view is None:
        raise KeyError(job_id)
    if not snapshot.nodes:
        return JobExplanation(
            summary="No node is reachable."
            if view.current is None
            else "Its nodes are unreachable.",
            lines=("See `wattfold nodes` for the reasons.",),
        )
    if view.current is None:
        return _waiting(snapshot, view, policy, reason, first)
    return _running(snapshot, view, policy)


def _kind(snapshot: Snapshot, view: JobView) -> NodeKind:
    """Return the kind of node a job runs on, or any kind for a waiting job."""
    places = view.current.shares if view.current else ()
    under = Room(snapshot.nodes, 0).kinds_under(places)
    return under[0] if under else snapshot.nodes[0].spec.kind


def _waiting(
    snapshot: Snapshot, view: JobView, policy: Policy, reason: str, first: JobId
) -> JobExplanation:
    room = free_room(snapshot)
    free = sum(len(cpus) for cpus in room.free.values())
    largest = max(len(cpus) for cpus in room.free.values())
    lines = [
        *_held(snapshot, view, policy, room, first),
        *([f"The first job in the queue is job {first}."] if first else []),
        f"Policy {policy.name}; the job has waited "
        f"{(snapshot.now_ns - view.submitted_ns) / 1e9:.0f} s.",
        f"Free now: {count_text(free, SizeUnit.CORES)} (at most {largest} on one node), "
        f"{max(room.power_uw, 0) / 1e6:.1f} W above idle of a budget of "
        f"{snapshot.budget_uw / 1e6:.1f} W.",
    ]
    lines += _queue_wait(view, snapshot.now_ns)
    if isinstance(policy, ExplainingPolicy):
        lines += policy.waiting_statements(snapshot, view)
    lines.append(f"Run time from: {estimate(view, _kind(snapshot, view)).source}.")
    lines += _kept_from(snapshot, view)
    lines += _next_ends(snapshot)
    return JobExplanation(
        summary=f"Waits: {reason or 'no plan has been made yet'}.", lines=tuple(lines)
    )


def _held(snapshot: Snapshot, view: JobView, policy: Policy, room: Room, first: JobId) -> list[str]:
    """Return what the job lacks, which jobs hold it, and until when."""
    short = shortage(snapshot, view, policy, room)
    if short is None:
        if first:
            return [f"It would fit now, but could delay job {first}."]
        return ["It would fit now; the policy lets it wait."]
    left = span_text((short.until_ns - snapshot.now_ns) / 1e9)
    if short.budget_uw:
        budget_w = short.budget_uw / 1e6
        freed = f"The announced budget of {budget_w:.1f} W, in {left}, is enough."
    elif not short.holders:
        freed = ""
    elif short.until_ns:
        freed = f"Held by {short.held_by}, expected to end within {left}."
    else:
        freed = f"Held by {short.held_by}; not all of these jobs keep their estimates."
    about_job = short.lacks.startswith(("needs ", "requests ", "is "))
    lacks = f"It {short.lacks}." if about_job else f"{short.lacks[:1].upper()}{short.lacks[1:]}."
    return [lacks, *([freed] if freed else [])]


def _queue_wait(view: JobView, now_ns: int) -> list[str]:
    """Return the waits that its queue states, if any."""
    if not view.waits.max_ns:
        return []
    left_s = (view.submitted_ns + view.waits.max_ns - now_ns) / 1e9
    late = f"{-left_s:.0f} s late" if left_s < 0 else f"{left_s:.0f} s remain"
    expected_s, max_s = view.waits.expected_ns / 1e9, view.waits.max_ns / 1e9
    return [
        f"Queue {view.spec.queue} has an expected wait of {expected_s:.0f} s and a maximum "
        f"wait of {max_s:.0f} s; {late}."
    ]


def _kept_from(snapshot: Snapshot, view: JobView) -> list[str]:
    """Return the reservations that exclude a waiting job, and the reservation it names."""
    said = []
    for one in snapshot.reservations:
        nodes = ", ".join(one.nodes)
        if one.name == view.spec.reservation:
            said.append(f"It runs only on {nodes}: {one}.")
        elif not one.admits(view.spec):
            said.append(f"It may use {nodes} only if it ends before {one}.")
    return said


def _overstays(snapshot: Snapshot, view: JobView) -> list[str]:
    """Return the reserved nodes that a running job uses, or will use, without a right."""
    current = view.current
    assert current is not None
    left_ns = round(current.expected_total_s * (1 - view.done) * 1e9)
    if view.spec.limit_ns and view.started_ns >= 0:
        left_ns = view.started_ns + view.spec.limit_ns - snapshot.now_ns
    said = []
    for one in snapshot.reservations:
        nodes = [share.node_id for share in current.shares if share.node_id in one.nodes]
        if not nodes or one.admits(view.spec):
            continue
        if one.start_ns <= snapshot.now_ns:
            said.append(f"It still runs on {', '.join(nodes)} during {one}.")
        elif one.start_ns < snapshot.now_ns + left_ns:
            said.append(f"It may still run on {', '.join(nodes)} at the start of {one}.")
    return said


def _left_ns(view: JobView, now_ns: int) -> int:
    """Return the time to the expected end of a running job, or to its time limit if earlier."""
    assert view.current is not None
    left_ns = round(view.current.expected_total_s * (1 - view.done) * 1e9)
    if not view.spec.limit_ns or view.started_ns < 0:
        return left_ns
    return min(left_ns, max(view.started_ns + view.spec.limit_ns - now_ns, 0))


def _next_ends(snapshot: Snapshot) -> list[str]:
    ends = sorted(
        (_left_ns(view, snapshot.now_ns) / 1e9, view.job_id)
        for view in snapshot.jobs
        if view.current is not None and view.current.expected_total_s
    )
    return [
        f"Job {job_id} is expected to end in about {span_text(left)}." for left, job_id in ends[:3]
    ]


def _running(snapshot: Snapshot, view: JobView, policy: Policy) -> JobExplanation:
    current = view.current
    assert current is not None
    places = ", ".join(f"{s.node_id}:{s.cpus}" for s in current.shares)
    guess = estimate(view, _kind(snapshot, view))
    room = free_room(snapshot)
    lines = [
        f"Cores: {places}.",
        *_beside_cores(current),
        *_gpu_watts(current, room),
        f"Expected run time {current.expected_total_s:.0f} s at this size and cap; {_done(view)}.",
        *_limit(view, snapshot.now_ns),
        *_overstays(snapshot, view),
        f"Run time from: {guess.source}.",
        f"Budget: {snapshot.budget_uw / 1e6:.1f} W; {max(room.power_uw, 0) / 1e6:.1f} W "
        "above idle are not assigned to jobs.",
    ]
    lines += _core_request(view)
    if isinstance(policy, ExplainingPolicy):
        lines += policy.running_statements(snapshot, view)
    at = _caps_text(current.cap_uw, current.levels)
    summary = f"Runs on {_amount(current.size, view)} at {at}."
    return JobExplanation(summary=summary, lines=tuple(lines))


def _caps_text(cap_uw: int, levels: Levels) -> str:
    """Return a level and the levels of other zones, for users."""
    text = f"{cap_uw / 1e6:.1f} W per node"
    text += f", {levels.dram_uw / 1e6:.1f} W for its DRAM" if levels.dram_uw else ""
    return text + (f", {levels.gpu_uw / 1e6:.1f} W for each GPU" if levels.gpu_uw else "")


def _beside_cores(current: Assignment) -> list[str]:
    """Return its memory and GPUs, by node."""
    lines = []
    for share in current.shares:
        has = [f"{memory_text(share.memory_bytes)} of memory"] if share.memory_bytes else []
        has += [f"GPU {gpu}" for gpu in share.gpus]
        lines += [f"Also on {share.node_id}: {', '.join(has)}."] if has else []
    return lines


def _gpu_watts(current: Assignment, room: Room) -> list[str]:
    """Return the maximum power of its GPUs, and the charged part of it."""
    specs = {share: room.specs.get(share.node_id) for share in current.shares if share.gpus}
    known = [(spec, share.gpus) for share, spec in specs.items() if spec is not None]
    zones = [zone for spec, gpus in known for zone in gpu_zones(spec, gpus)]
    if not zones:
        return []
    level_uw = current.levels.gpu_uw
    held = sorted({gpu_cap_uw(zone, level_uw) for zone in zones})
    each = " to ".join(f"{cap_uw / 1e6:.1f}" for cap_uw in dict.fromkeys((held[0], held[-1])))
    above_uw = sum(gpus_uw(spec, gpus, level_uw) for spec, gpus in known)
    kept = "" if level_uw else ", their maximum"
    above = f"{above_uw / 1e6:.1f} W above their limits without an owner"
    return [f"{gpus_text(len(zones))} at {each} W{kept}: {above}."]


def _done(view: JobView) -> str:
    if view.over_ns:
        return f"{view.over_ns / 1e9:.0f} s beyond its estimate"
    return f"{view.done:.0%} done"


def _limit(view: JobView, now_ns: int) -> list[str]:
    if not view.spec.limit_ns:
        return []
    left_s = (view.started_ns + view.spec.limit_ns - now_ns) / 1e9
    return [
        f"Wattfold ends it at its time limit of {view.spec.limit_ns / 1e9:g} s, in {left_s:.0f} s."
    ]


def _core_request(view: JobView) -> list[str]:
    """Return the request of the program, and the resulting size."""
    if not view.wanted:
        return []
    spec, asked = view.spec, f"Its program requests {view.wanted} cores"
    if spec.kind is not JobKind.EVOLVING:
        return [
            f"{asked}; only requests of evolving jobs count, and this job is {spec.kind.value}."
        ]
    sizes = f"{spec.min_size}-{spec.size_max}"
    return [f"{asked}; it gets at most {_amount(view.max_size, view)} (range {sizes})."]


def _amount(size: int, view: JobView) -> str:
    return size_text(view.spec, size)
