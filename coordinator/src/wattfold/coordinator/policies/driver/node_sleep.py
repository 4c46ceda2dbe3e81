"""Sleep of named nodes, decided after each plan of any policy by the rules of `sleep_plan`.

A plan may use the power of nodes without jobs, and nodes that sleep (`core.rules.nodes.
decided_sleep`). This module adds what only a driver can know:

- A start on sleeping nodes begins after their boots. It is withdrawn if it would then hold its
  nodes beyond the planned start of another job, or begin after its own.
- Nodes of planned starts and reservations are woken so early that even the slowest permitted boot
  ends in time.
- Operators may keep nodes awake, or asleep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.model.node_power import PowerOrder, PowerPlan, PowerState
from wattfold.coordinator.core.model.plan import Plan, Snapshot, Waiting
from wattfold.coordinator.core.power.charge import assigned_on_uw, fixed_uw
from wattfold.coordinator.core.rules.nodes import decided_sleep
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.driver.sleep_plan import (
    REMEMBERED,
    Arrivals,
    IdleNodes,
    SleepRules,
    ready_ns,
    sleepers,
    wakes,
)

SLACK_NS = 10 * NS_PER_S
"""Time before a planned start at which its nodes are to be up."""


def with_sleep(plan: Plan, world: Snapshot, state: State, now_ns: int) -> Plan:
    """Return the plan with the nodes that fall asleep and wake, without starts that are late."""
    if not state.settings.sleep.decides:
        return plan
    promises = _promises(plan, state)
    plan = _without_late(plan, state, promises, now_ns)
    nodes = _nodes(plan, state, now_ns)
    plan = _with_boots(plan, nodes, state)
    needed, need_ns = _needed(nodes, promises, world, state, now_ns)
    power, rest_ns = _power(plan, nodes, needed, world, state, now_ns)
    revisit_ns = min(filter(None, (plan.revisit_ns, need_ns, rest_ns)), default=0)
    return replace(plan, power=power, revisit_ns=revisit_ns)


def _promises(plan: Plan, state: State) -> dict[JobId, Promise]:
    """Return the planned starts of the jobs that wait after this plan."""
    starting = {one.job_id for one in plan.assignments}
    found = {
        job.job_id: job.promise
        for job in state.index.open.values()
        if job.promise is not None and job.state is JobState.PENDING
    }
    found |= {one.job_id: one.promise for one in plan.waiting if one.promise is not None}
    return {job_id: one for job_id, one in found.items() if job_id not in starting}


def _without_late(plan: Plan, state: State, promises: dict[JobId, Promise], now_ns: int) -> Plan:
    """Withdraw starts whose boots would delay a planned start."""
    kept: list[Assignment] = []
    late: list[Waiting] = []
    starts_ns = [one.start_ns for one in promises.values()]
    for given in plan.assignments:
        job = state.jobs.get(given.job_id)
        reason = _late(job, given, state, starts_ns, now_ns) if job is not None else ""
        if reason and job is not None:
            late.append(Waiting(job_id=job.job_id, reason=reason, promise=job.promise))
        else:
            kept.append(given)
    if not late:
        return plan
    return replace(plan, assignments=tuple(kept), waiting=(*plan.waiting, *late))


def _with_boots(plan: Plan, nodes: _Nodes, state: State) -> Plan:
    """Add the time of boots to the expected starts that no policy reserves.

    Nodes without a job sleep, or may sleep by then. Nodes of reserved starts wake before the start.
    """
    boots = len(nodes.idle) + len(nodes.asleep) + nodes.coming
    waiting = []
    for one in plan.waiting:
        job = state.jobs.get(one.job_id)
        if boots and job is not None and one.start_ns and one.promise is None:
            lead_ns = _lead_ns(state, min(_width(job, nodes), boots))
            one = replace(one, start_ns=one.start_ns + lead_ns)
        waiting.append(one)
    return replace(plan, waiting=tuple(waiting))


def _late(job: Job, given: Assignment, state: State, starts_ns: list[int], now_ns: int) -> str:
    """Return why a start on sleeping nodes would be too late, or an empty string."""
    if job.ranks or decided_sleep.waits_for_boot(state, job):
        return ""
    asleep = [
        node
        for share in given.shares
        if (node := state.nodes.get(share.node_id)) is not None and not node.takes_jobs
    ]
    if not asleep:
        return ""
    falling = any(node.power is PowerState.FALLING for node in asleep)
    up_ns = now_ns + _lead_ns(state, len(asleep)) + falling * state.settings.sleep.suspend_ns
    if job.promise is not None and now_ns < job.promise.start_ns < up_ns:
        return "the nodes of an earlier start sleep, and would be up after its planned start"
    takes_ns = round(given.expected_total_s * NS_PER_S)
    if any(now_ns + takes_ns <= at_ns < up_ns + takes_ns for at_ns in starts_ns):
        return "its nodes sleep, and after their boots it would delay the planned start of a job"
    return ""


def _lead_ns(state: State, nodes: int) -> int:
    """Return the time in which this number of nodes is up, with the slowest permitted boots."""
    settings = state.settings.sleep
    rounds = -(-nodes // settings.boots_max)
    ramp_ns = nodes * settings.boot_uw * NS_PER_S // settings.ramp_uw if settings.ramp_uw else 0
    return rounds * settings.boot_ns + ramp_ns + SLACK_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """Nodes without a job after the plan. ``kept`` are those that no plan puts to sleep."""

    idle: tuple[Node, ...]
    kept: Mapping[NodeId, None]
    asleep: tuple[Node, ...]
    coming: int
    """Number of nodes that boot for no job."""


def _nodes(plan: Plan, state: State, now_ns: int) -> _Nodes:
    used = {share.node_id for given in plan.assignments for share in given.shares}
    others = [node for node in state.nodes.values() if node.node_id not in used]
    coming = [node for node in others if decided_sleep.comes(state, node)]
    asleep = tuple(node for node in coming if node.power is PowerState.ASLEEP)
    waiting = decided_sleep.waiting_for_boots(state)
    falling = sum(node.power in decided_sleep.FALLING for node in coming)
    return _Nodes(
        idle=tuple(node for node in others if decided_sleep.without_job(state, node, waiting)),
        kept=decided_sleep.kept_awake(state, now_ns, waiting, needed=()),
        asleep=asleep,
        coming=len(coming) - len(asleep) - falling,
    )


def _needed(
    nodes: _Nodes, promises: Mapping[JobId, Promise], world: Snapshot, state: State, now_ns: int
) -> tuple[dict[NodeId, None], int]:
    """Return the nodes that have to be awake soon, and when this has to be examined again.

    The power of a boot is missing in the plans made during it, so planned starts may be later in
    them. Nodes that are needed with a booting node stay needed until it is up.
    """
    needed = _needed_with_boots(state)
    later: list[int] = []
    for job_id, promise in promises.items():
        wanted = dict.fromkeys(promise.nodes) or _any_nodes(nodes, state, job_id, promise)
        asleep = sum(node_id in state.nodes and state.nodes[node_id].dark for node_id in wanted)
        from_ns = promise.start_ns - _lead_ns(state, max(asleep, 1))
        if from_ns <= now_ns:
            needed |= wanted
        else:
            later.append(from_ns)
    for one in world.reservations:
        from_ns = one.start_ns - _lead_ns(state, len(one.nodes))
        if one.maintenance or one.end_ns <= now_ns:
            continue
        if from_ns <= now_ns:
            needed |= dict.fromkeys(one.nodes)
        later += [at_ns for at_ns in (from_ns, one.end_ns) if at_ns > now_ns]
    return needed, min(later, default=0)


def _needed_with_boots(state: State) -> dict[NodeId, None]:
    nodes = [state.nodes[node_id] for node_id in state.needed_awake if node_id in state.nodes]
    boots = any(node.power in (PowerState.CALLED, PowerState.BOOTING) for node in nodes)
    return dict.fromkeys(node.node_id for node in nodes) if boots else {}


def _any_nodes(nodes: _Nodes, state: State, job_id: JobId, promise: Promise) -> dict[NodeId, None]:
    """Return nodes for a planned start that names none, beside those that are released for it."""
    job = state.jobs.get(job_id)
    if job is None:
        return {}
    lacking = _width(job, nodes) - _released(state, promise.start_ns)
    found = [node.node_id for node in (*nodes.idle, *nodes.asleep)]
    return dict.fromkeys(found[: max(lacking, 0)])


def _width(job: Job, nodes: _Nodes) -> int:
    """Return the number of nodes that a job asks for at least."""
    spec = job.planned_spec
    if spec.unit is SizeUnit.NODES:
        return spec.min_size
    known = [len(node.spec.cpus) for node in (*nodes.idle, *nodes.asleep) if node.spec is not None]
    return -(-spec.min_size * max(spec.unit_cores, 1) // max(min(known, default=1), 1))


def _released(state: State, at_ns: int) -> int:
    """Return the number of nodes whose jobs are expected to have ended at a time."""
    return sum(
        len(job.target.shares)
        for job in state.placed()
        if job.target is not None
        and job.started_ns >= 0
        and job.started_ns + round(job.target.expected_total_s * NS_PER_S) <= at_ns + NS_PER_S
    )


def _power(
    plan: Plan,
    nodes: _Nodes,
    needed: Mapping[NodeId, None],
    world: Snapshot,
    state: State,
    now_ns: int,
) -> tuple[PowerPlan, int]:
    """Return which nodes sleep and wake, and when the next node may fall asleep."""
    free_uw = _free_uw(plan, world, state)
    stay = {node.node_id for node in nodes.idle} & {*nodes.kept, *needed}
    # Jobs get the first nodes of the list, so the last node has the longest rest before it.
    rest = [node for node in reversed(nodes.idle) if node.node_id not in stay]
    rules = _rules(rest or nodes.asleep, state)
    idle = [
        IdleNodes(since_ns=node.awake_since_ns, awake_since_ns=node.awake_since_ns, nodes=1)
        for node in rest
    ]
    idle_uw = (rules.idle_uw - rules.asleep_uw) * len(rest)
    arrivals = _arrivals(nodes, state).nodes(rules.spare_quantile)
    spare = max(arrivals - len(stay), 0)
    numbers = sleepers(rules, idle, spare, idle_uw - free_uw, now_ns)
    sleeps = [node.node_id for node, number in zip(rest, numbers, strict=True) if number]
    awake = len(nodes.idle) - len(sleeps) + nodes.coming
    ordered = [
        node.node_id
        for node in nodes.asleep
        if node.node_id in needed or node.power_order is PowerOrder.WAKE
    ]
    spares = [node.node_id for node in nodes.asleep if node.node_id not in ordered]
    left_uw = free_uw - (rules.idle_uw - rules.asleep_uw) * (len(rest) - len(sleeps))
    lacking = 0 if _lack_nodes(plan, state) else arrivals - awake - len(ordered)
    count = wakes(rules, min(lacking, len(spares)), _booting(state), left_uw, rules.asleep_uw)
    count = max(count, state.keep_awake - awake - len(ordered))
    power = PowerPlan(
        sleeps=tuple(sleeps),
        wakes=(*ordered, *spares[: max(count, 0)]),
        needed=tuple(needed),
    )
    times = [ready_ns(rules, one) for one in idle]
    return power, min((at_ns for at_ns in times if at_ns > now_ns), default=0)


def _lack_nodes(plan: Plan, state: State) -> bool:
    """Whether jobs wait after this plan, in the queue or for boots. Spare nodes come after them."""
    starts = {one.job_id: one for one in plan.assignments}
    for job in state.index.open.values():
        given = starts.get(job.job_id)
        if decided_sleep.waits_for_boot(state, job):
            return True
        if job.state is JobState.PENDING and (given is None or not _all_up(given, state)):
            return True
    return False


def _all_up(given: Assignment, state: State) -> bool:
    nodes = (state.nodes.get(share.node_id) for share in given.shares)
    return all(node is not None and node.takes_jobs for node in nodes)


def _free_uw(plan: Plan, world: Snapshot, state: State) -> int:
    """Return the power that a plan leaves, if all nodes without a job sleep."""
    specs = {view.spec.node_id: view.spec for view in world.nodes}
    dram_cap_uw = state.settings.dram_cap_uw
    taken_uw = sum(assigned_on_uw(one, specs, dram_cap_uw) for one in plan.assignments)
    return world.spendable_uw - taken_uw - decided_sleep.passing_uw(state)


def _rules(nodes: Sequence[Node], state: State) -> SleepRules:
    """Return the rules for these nodes; the node that saves least counts."""
    settings = state.settings.sleep
    specs = [node.spec for node in nodes if node.spec is not None]
    idle_uw = min((fixed_uw(spec, state.settings.dram_cap_uw) for spec in specs), default=0)
    idle_uw = max(idle_uw, settings.asleep_uw)
    return SleepRules(
        idle_uw=idle_uw,
        asleep_uw=settings.asleep_uw,
        boot_uw=max(settings.boot_uw, idle_uw),
        boot_ns=settings.boot_ns,
        suspend_ns=settings.suspend_ns,
        boots_max=settings.boots_max,
        awake_min_ns=settings.awake_min_ns,
    )


def _booting(state: State) -> int:
    return sum(node.power is PowerState.BOOTING for node in state.index.switching.values())


def _arrivals(nodes: _Nodes, state: State) -> Arrivals:
    """Return the recent arrivals of jobs, in boot times as they were learnt."""
    found = Arrivals(decided_sleep.expected_boot_ns(state))
    recent = list(islice(reversed(state.jobs.values()), REMEMBERED))
    for job in sorted(recent, key=lambda one: one.submitted_ns):
        found.add(job.submitted_ns, _width(job, nodes))
    return found
