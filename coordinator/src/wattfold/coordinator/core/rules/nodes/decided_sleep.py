"""Sleep of nodes as a part of the plan: the view that plans have of nodes, and the changes.

With `SleepSettings.decides`, policies plan as if every node without a job slept. A *shown* node has
the charge of a sleeping node, and a job on it is charged with the rest. So a plan may use the power
of idle nodes. Nodes that must stay awake are shown with their own charge.

Plans also use nodes that sleep or boot. A job that is started there keeps its nodes and its power
until they are up. If a boot fails, the job waits in the queue again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.node import Duty, Node, NodeSpec, NodeState, ZoneKind
from wattfold.coordinator.core.model.node_order import NodeOrder
from wattfold.coordinator.core.model.node_power import PowerOrder, PowerPlan, PowerState
from wattfold.coordinator.core.model.plan import NodeView
from wattfold.coordinator.core.power.charge import node_fixed_uw, shares_uw
from wattfold.coordinator.core.rules.nodes import leave, sleep
from wattfold.coordinator.core.state.state import State

DAY_NS = 86_400_000_000_000
FALLING = frozenset({PowerState.TIRED, PowerState.FALLING})
_PASSING = frozenset({*FALLING, PowerState.BOOTING})
_STARTABLE = frozenset({PowerState.ASLEEP, PowerState.CALLED, PowerState.BOOTING})


def comes(state: State, node: Node) -> bool:
    """Whether plans may use a node that is not up yet.

    It sleeps, boots, waits for admission or falls asleep. After a start on a node that falls
    asleep, it boots as soon as it sleeps. Without these nodes, planned starts would be later.
    """
    if not state.settings.sleep.decides or node.spec is None or node.duty is not Duty.SERVING:
        return False
    if node.fault or node.boot_failed or node.power_order is PowerOrder.SLEEP:
        return False
    if node.dark:
        return node.power in _STARTABLE
    if node.power in FALLING:
        return state.emergency is None or node.node_id not in state.emergency.slept
    booted = node.power is PowerState.AWAKE and node.awake_since_ns > 0
    return booted and node.awaits_room


def in_reach(state: State) -> bool:
    """Whether a plan has nodes: some answer, or may be woken."""
    return any(node.reachable or comes(state, node) for node in state.nodes.values())


def nothing_to_plan(state: State) -> bool:
    """Whether no job waits or runs, so that a plan would only decide about sleep, if at all."""
    if state.settings.sleep.decides:
        return False
    apart = (JobState.HELD, JobState.WAITING)
    return all(job.state in apart for job in state.index.open.values())


def waits_for_boot(state: State, job: Job) -> bool:
    """Whether a job was started on nodes of which some are not up yet. It keeps its nodes."""
    if job.state is not JobState.STARTING or job.ranks or job.target is None:
        return False
    nodes = [state.nodes.get(share.node_id) for share in job.target.shares]
    found = [node for node in nodes if node is not None]
    coming = [comes(state, node) for node in found]
    return (
        len(found) == len(nodes)
        and any(coming)
        and all(
            soon or node.takes_jobs or _back_soon(node)
            for node, soon in zip(found, coming, strict=True)
        )
    )


def waiting_for_boots(state: State) -> frozenset[JobId]:
    """Return the jobs of `waits_for_boot`, for rules that look at many nodes."""
    return frozenset(job.job_id for job in state.placed() if waits_for_boot(state, job))


def _back_soon(node: Node) -> bool:
    silent = node.state is NodeState.SILENT and node.admitted
    return silent and node.duty is Duty.SERVING and node.power is PowerState.AWAKE


def awake_from_ns(state: State, job: Job, now_ns: int) -> int:
    """Return when the nodes of a job are expected to be up."""
    shares = job.target.shares if job.target else ()
    nodes = [state.nodes[share.node_id] for share in shares if share.node_id in state.nodes]
    boot_ns = expected_boot_ns(state) if nodes else 0
    return max((up_from_ns(state, node, now_ns, boot_ns) for node in nodes), default=now_ns)


def up_from_ns(state: State, node: Node, now_ns: int, expected_ns: int) -> int:
    """Return when a node is up, if its boot begins now or has begun; learnt from earlier boots.

    ``expected_ns``: `expected_boot_ns`, for nodes that have not booted yet.
    """
    boot_ns = node.boot_took_ns or expected_ns
    if node.power is PowerState.FALLING:
        return max(node.power_since_ns + state.settings.sleep.suspend_ns, now_ns) + boot_ns
    if not node.dark:
        return now_ns
    if node.power is PowerState.BOOTING:
        return max(node.power_since_ns + boot_ns, now_ns)
    return now_ns + boot_ns


def expected_boot_ns(state: State) -> int:
    """Return the longest of the last boots of the nodes; without any, the time limit of a boot."""
    known = max((node.boot_took_ns for node in state.nodes.values()), default=0)
    return known or state.settings.sleep.boot_ns


def awaited_by(state: State, node: Node, waiting: Collection[JobId]) -> list[JobId]:
    """Return the jobs that start on a node when it is up. ``waiting``: `waiting_for_boots`."""
    there = state.on_node(node.node_id) if not node.takes_jobs else []
    return [job.job_id for job in there if job.job_id in waiting]


def reason(state: State, node: Node, awaited: Sequence[JobId]) -> str:
    """Return why a node sleeps, boots or stays awake, for people; empty if plans may change it.

    ``awaited``: the jobs of `awaited_by`.
    """
    emergency = state.emergency
    if node.power_order is PowerOrder.SLEEP:
        return "sleeps on request of an operator"
    if emergency is not None and node.node_id in emergency.slept:
        return "sleeps in an emergency"
    if node.boot_failed:
        return f"its boot failed; `wattfold node wake {node.node_id}` tries it again"
    if awaited:
        return f"wakes for job {', '.join(awaited[:5])}"
    if node.power_order is PowerOrder.WAKE:
        return "stays awake on request of an operator"
    if node.node_id in state.needed_awake:
        return "has to be up soon for a planned start or a reservation"
    if node.power in (PowerState.CALLED, PowerState.BOOTING):
        return "wakes for future jobs"
    if node.power is PowerState.AWAKE or not state.settings.sleep.decides:
        return ""
    return "sleeps because no job needs it"


# The view of plans.


def shown(
    state: State,
    node: Node,
    spec: NodeSpec,
    kept: Collection[NodeId],
    waiting: Collection[JobId],
) -> NodeSpec:
    """Return a node as plans see it: with the floors of a sleeping node, if it could sleep.

    The result is the node itself if it must stay awake, or if jobs use a part of it: then another
    job on it does not need the power of an idle node again. ``waiting``: `waiting_for_boots`.
    """
    saved_uw = _saved_uw(state, node, spec)
    if saved_uw <= 0 or node.node_id in kept or not (comes(state, node) or node.takes_jobs):
        return spec
    held = held_cores(state, node, waiting)
    return spec if held and held != spec.cpus else _lowered(spec, saved_uw)


def _saved_uw(state: State, node: Node, spec: NodeSpec) -> int:
    """Return how much less a node draws asleep; 0 if it has no packages to charge it to."""
    if not state.settings.sleep.decides or not spec.packages or node.not_held_uw:
        return 0
    idle_uw = node_fixed_uw(node, spec, state.settings.dram_cap_uw)
    return idle_uw - state.settings.sleep.asleep_uw


@lru_cache(maxsize=4096)
def _lowered(spec: NodeSpec, by_uw: int) -> NodeSpec:
    first = next(z for z in spec.zones if z.kind is ZoneKind.PACKAGE and z.can_cap)
    lower = replace(first, floor_uw=first.floor_uw - by_uw)
    return replace(spec, zones=tuple(lower if zone is first else zone for zone in spec.zones))


def held_cores(state: State, node: Node, waiting: Collection[JobId]) -> CpuSet:
    """Return the cores that jobs, ``waiting`` ones included, or unknown processes keep."""
    cpus = CpuSet()
    for held in node.foreign.values():
        cpus |= held
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None:
            cpus |= rank.occupied
        elif not (job.ranks or job.job_id in waiting):
            continue
        if job.target is not None:
            cpus |= job.target.on(node.node_id)
    return cpus


def coming_reserve_uw(state: State, node: Node, view: NodeView, waiting: Collection[JobId]) -> int:
    """Return what a node that is not up yet needs beyond its shown charge and that of its jobs.

    Nodes that boot or fall asleep need more for a short time only. Caps are lowered for it. If it
    counted, planned starts would be later, and other jobs would start before them.
    """
    if node.power in _PASSING:
        return 0
    return _reserve_uw(state, node, view.spec, view.fixed_uw, waiting)


def passing_uw(state: State) -> int:
    """Return the power that nodes need only while they boot or fall asleep, in microwatts."""
    asleep_uw, found_uw = state.settings.sleep.asleep_uw, 0
    waiting = waiting_for_boots(state)
    for node in state.index.switching.values():
        if node.power in _PASSING and node.spec is not None and comes(state, node):
            seen = shown(state, node, node.spec, (), waiting)
            found_uw += _reserve_uw(state, node, seen, asleep_uw, waiting)
    return found_uw


def _reserve_uw(
    state: State, node: Node, seen: NodeSpec, fixed_uw: int, waiting: Collection[JobId]
) -> int:
    assert node.spec is not None
    dram_cap_uw = state.settings.dram_cap_uw
    idle_uw = node_fixed_uw(node, node.spec, dram_cap_uw)
    own_uw = sleep.reserve_uw(state, node) if node.dark else idle_uw
    planned_uw = sum(
        _part_uw(job.target, node.node_id, seen, dram_cap_uw)
        for job in state.on_node(node.node_id)
        if job.target is not None and job.job_id in waiting
    )
    return max(own_uw - fixed_uw - planned_uw, 0)


def _part_uw(given: Assignment, node_id: NodeId, seen: NodeSpec, dram_cap_uw: int) -> int:
    shares = [share for share in given.shares if share.node_id == node_id]
    return shares_uw(shares, {node_id: seen}, given.cap_uw, given.levels, dram_cap_uw)


def without_job(state: State, node: Node, waiting: Collection[JobId]) -> bool:
    """Whether a node in service is up and free of processes and jobs, ``waiting`` ones included."""
    return node.takes_jobs and not node.foreign and not held_cores(state, node, waiting)


def kept_awake(
    state: State,
    now_ns: int,
    waiting: Collection[JobId],
    needed: Iterable[NodeId] | None = None,
) -> dict[NodeId, None]:
    """Return the nodes without a job that no plan puts to sleep.

    An operator ordered them to wake, they are needed soon, they have booted too often, or they are
    the first of the nodes that an operator keeps awake. ``needed``: None = as the last plan needs.
    """
    if not state.settings.sleep.decides:
        return {}
    idle = [node for node in state.nodes.values() if without_job(state, node, waiting)]
    kept = {
        node.node_id: None
        for node in idle
        if node.power_order is PowerOrder.WAKE or worn(state, node, now_ns)
    }
    kept |= dict.fromkeys(state.needed_awake if needed is None else needed)
    if state.keep_awake:
        chosen = [node.node_id for node in idle][: state.keep_awake]
        kept |= dict.fromkeys(chosen)
    return kept


def worn(state: State, node: Node, now_ns: int) -> bool:
    """Whether a node has booted as often as it may in a day."""
    most = state.settings.sleep.boots_a_day
    return bool(most) and sum(at > now_ns - DAY_NS for at in node.booted_ns) >= most


# The changes of a plan.


def judged(state: State, plan: PowerPlan, starts: Sequence[Assignment], now_ns: int) -> PowerPlan:
    """Return the part of a decision that still holds, given the accepted starts."""
    waiting = waiting_for_boots(state)
    kept = kept_awake(state, now_ns, waiting)
    used = {share.node_id for start in starts for share in start.shares}
    known = state.nodes
    return PowerPlan(
        sleeps=tuple(
            one
            for one in plan.sleeps
            if one in known
            and one not in used
            and one not in kept
            and without_job(state, known[one], waiting)
        ),
        wakes=tuple(one for one in plan.wakes if one in known and comes(state, known[one])),
        needed=tuple(one for one in plan.needed if one in known),
    )


def carry_out(state: State, plan: PowerPlan, starts: Iterable[Assignment]) -> None:
    """Order the nodes of a plan to sleep and to wake, and wake the nodes of its starts."""
    if not state.settings.sleep.decides:
        return
    state.needed_awake = plan.needed
    for node_id in plan.sleeps:
        if (node := state.nodes.get(node_id)) is not None and not leave.jobs_there(state, node):
            sleep.ordered(state, node, NodeOrder.SLEEP)
    started = [share.node_id for start in starts for share in start.shares]
    for node_id in dict.fromkeys((*started, *plan.wakes)):
        node = state.nodes.get(node_id)
        if node is not None and comes(state, node):
            sleep.ordered(state, node, NodeOrder.WAKE)


def next_ns(state: State) -> int:
    """Return when the next boot may begin; 0 = no boot waits for this."""
    waiting = any(node.power is PowerState.CALLED for node in state.index.switching.values())
    return state.boots_from_ns if waiting else 0
