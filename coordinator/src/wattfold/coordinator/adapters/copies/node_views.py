"""Statements about nodes that drain, leave or are outside the ledger, and about their jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wattfold.contract.ids import JobId
from wattfold.contract.units import span_text
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.node import Duty, Node, NodeSpec
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.rules.jobs.requeue import attempts_left
from wattfold.coordinator.core.rules.nodes import decided_sleep, leave, sleep
from wattfold.coordinator.core.rules.nodes.reservation_events import without_right
from wattfold.coordinator.core.rules.power.excess import excess_cause
from wattfold.coordinator.core.rules.power.unaccounted_power import draw_uw, unaccounted_power
from wattfold.coordinator.core.state.blocked import free_amounts
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

DUTIES: dict[Duty, pb.NodeDuty] = {duty: getattr(pb, f"NODE_DUTY_{duty.name}") for duty in Duty}

POWERS: dict[PowerState, pb.NodePowerState] = {
    PowerState.AWAKE: pb.NODE_POWER_STATE_AWAKE,
    PowerState.TIRED: pb.NODE_POWER_STATE_TO_SLEEP,
    PowerState.FALLING: pb.NODE_POWER_STATE_FALLING_ASLEEP,
    PowerState.ASLEEP: pb.NODE_POWER_STATE_ASLEEP,
    PowerState.CALLED: pb.NODE_POWER_STATE_TO_WAKE,
    PowerState.BOOTING: pb.NODE_POWER_STATE_BOOTING,
}


def add_power_state(message: pb.Node, state: State, node: Node, waiting: Collection[JobId]) -> None:
    """Add whether a node sleeps or boots, and what it waits for."""
    message.power_state = POWERS[node.power]
    message.boots, message.failed_boots = node.boots, node.failed_boots
    message.boot_took_ns = node.boot_took_ns
    message.power_waits_for = sleep.obstacle(state, node)
    awaited = decided_sleep.awaited_by(state, node, waiting)
    message.power_reason = decided_sleep.reason(state, node, awaited)
    message.awaited_by_job_ids.extend(awaited)
    if node.power is PowerState.BOOTING:
        message.boot_due_s = state.origin_s + sleep.boot_ends_ns(state, node) / 1e9
        up_ns = decided_sleep.up_from_ns(
            state, node, node.power_since_ns, decided_sleep.expected_boot_ns(state)
        )
        message.up_expected_s = state.origin_s + up_ns / 1e9


def add_duty(message: pb.Node, state: State, node: Node) -> None:
    """Add the operator's orders for a node, and its power outside the ledger."""
    message.duty = DUTIES[node.duty]
    message.duty_reason = node.duty_reason
    message.outside_uw = draw_uw(node)
    if node.duty in (Duty.LEAVING, Duty.RESTORING) and node.admitted:
        message.waits_for = leave.obstacle(state, node)


def add_amounts(message: pb.Node, state: State, node: Node, spec: NodeSpec) -> None:
    """Add the memory, GPUs and features of a node, and the free amounts."""
    message.memory_bytes, message.memory_mechanism = spec.memory_bytes, spec.memory_mechanism
    message.gpus.extend(spec.gpus)
    message.gpu_model, message.gpu_access = spec.gpu_model, spec.gpu_access
    message.features.extend(node.all_features)
    if node.takes_jobs:
        free = free_amounts(state, node, spec)
        message.free_memory_bytes = free.memory_bytes
        message.free_gpus.extend(free.gpus)


def add_reservations(message: pb.Node, state: State, node: Node) -> None:
    """Add the reservations of a node by start, and the jobs that overstay them."""
    found = [one for one in state.reservations.values() if node.node_id in one.nodes]
    for one in sorted(found, key=lambda one: one.start_ns):
        message.reservations.append(f"{one}: {one.reason}" if one.reason else str(one))
    for one in found:
        there = without_right(state, one) if one.name in state.begun else ()
        message.overstaying_job_ids.extend(job.job_id for job in there if node.node_id in job.ranks)


def add_outside(message: pb.Power, state: State) -> None:
    """Add the power outside the ledger, and the excess of the total over the budget."""
    found = unaccounted_power(state)
    message.outside_uw, message.outside_accepted_uw = found.drawn_uw, found.accepted_uw
    message.over_uw = found.over_uw
    message.over_reason = excess_cause(state) if found.over_uw else ""
    message.outside_node_ids.extend(found.nodes)
    message.unheard_node_ids.extend(found.unheard)


def outside_statements(state: State) -> list[str]:
    """Explain the power that jobs cannot have because nodes outside the ledger may draw it."""
    found = unaccounted_power(state)
    if not found.counted_uw:
        return []
    return [
        f"{found.counted_uw / 1e6:.1f} W are reserved for nodes outside the ledger "
        f"({', '.join(found.nodes[:5])}); see `wattfold power`."
    ]


def closed_statement(state: State) -> str:
    """Explain which nodes take no new jobs because they cannot start them; empty if none."""
    closed = [node for node in state.nodes.values() if node.fault and node.duty is Duty.SERVING]
    if not closed:
        return ""
    others = f" (and {len(closed) - 1} more)" if closed[1:] else ""
    return f"node {closed[0].node_id}{others} cannot start jobs: {closed[0].fault}"


def boot_statements(state: State, job: Job, now_ns: int) -> list[str]:
    """Explain when the nodes of a job that starts on sleeping nodes are expected to be up."""
    if not decided_sleep.waits_for_boot(state, job):
        return []
    left = span_text((decided_sleep.awake_from_ns(state, job, now_ns) - now_ns) / 1e9)
    return [
        f"Its nodes are expected to be up in {left}. It keeps them and its power until then; "
        "if a boot fails, the next plan gives it other nodes."
    ]


def start_statements(job: Job, now_ns: int) -> list[str]:
    """Explain when a waiting job is expected to start."""
    if job.state is not JobState.PENDING or not job.expected_start_ns:
        return []
    left = span_text((job.expected_start_ns - now_ns) / 1e9)
    if job.start_promised:
        return [
            f"Start planned in {left}; earlier if other jobs end early; later only "
            "if they exceed their estimates or if nodes or power are lost."
        ]
    return [f"Expected to start in {left} if earlier jobs end as estimated."]


def condition_statements(job: Job) -> list[str]:
    """Explain a job whose conditions of the start are not met."""
    if not job.hopeless:
        return ["Until then, plans do not contain it."]
    return [
        "It starts if a job that ended without success is requeued and then succeeds.",
        f"Otherwise `wattfold cancel {job.job_id}` removes it.",
    ]


def attempt_statements(job: Job) -> list[str]:
    """Explain the attempts, restarts and set size of a job."""
    said = [f"Attempt {before.number} ended: {before.why}." for before in job.attempts]
    unit = job.spec.unit.value
    if job.following is not None or (job.ordered_ns >= 0 and job.target is not None):
        said.append(
            "It is being restarted at another size. Its current resources stay assigned "
            "until all of its processes have ended, and its next resources are reserved."
        )
    if job.size_asked and not job.final:
        said.append(
            f"Its size was set to {job.size_asked} {unit}; `wattfold resize {job.job_id} "
            "auto` lets the policy choose again."
        )
    if job.spec.requeue_max and not job.final:
        left = attempts_left(job)
        after = "the loss of a node" + (" or a failure" if job.spec.requeue_on_failure else "")
        said.append(
            f"Attempt {job.attempt}; Wattfold restarts the job up to {left} more "
            f"time{'s' * (left != 1)} after {after}."
        )
    return said


def ending_reason(state: State, job: Job) -> str:
    """Explain why an ending job has not ended; empty if no node is unreachable."""
    if job.state is not JobState.ENDING:
        return ""
    away = [
        rank.node_id
        for rank in job.ranks.values()
        if rank.end is None and not state.nodes[rank.node_id].reachable
    ]
    if not away:
        return ""
    why = state.nodes[away[0]].message or "no answer"
    return (
        f"waits for {', '.join(away)}: {why}. The job ends when the node answers again. "
        f"`wattfold cancel --force {job.job_id}` gives up its processes there; `wattfold "
        f"node forget --no-power {away[0]}` removes a node that is off"
    )


def starting_reason(state: State, job: Job) -> str:
    """Explain where a job without processes will start, and which jobs still use its cores."""
    if job.state is not JobState.STARTING or job.ranks or job.target is None:
        return ""
    shares = job.target.shares
    owners = {
        other.job_id: None
        for share in shares
        for other in state.on_node(share.node_id)
        if other is not job
        and share.node_id in other.ranks
        and not other.ranks[share.node_id].occupied.isdisjoint(share.cpus)
    }
    where = f"starts on {_some([share.node_id for share in shares])}"
    if decided_sleep.waits_for_boot(state, job):
        nodes = [state.nodes[share.node_id] for share in shares]
        coming = [f"{node.node_id} ({node.power.value})" for node in nodes if not node.takes_jobs]
        return f"{where} when these nodes are up: {_some(coming)}"
    if not owners:
        return where
    return f"{where} when cores of {_some(list(owners))} are released"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"


def unfinished_reason(state: State, job: Job) -> str:
    """Return why a job has not started yet or has not ended yet; empty if neither applies."""
    return starting_reason(state, job) or ending_reason(state, job)
