"""Nodes, power, planning rounds and audited requests as messages for people and programs."""

from __future__ import annotations

from collections.abc import Collection

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import residuals
from wattfold.coordinator.adapters.copies.level_effects import add_levels
from wattfold.coordinator.adapters.copies.manager_views import add_manager
from wattfold.coordinator.adapters.copies.node_views import (
    add_amounts,
    add_duty,
    add_outside,
    add_power_state,
    add_reservations,
)
from wattfold.coordinator.adapters.copies.ramp_views import ramp_message
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations
from wattfold.coordinator.adapters.requests.budgets import ANNOUNCED_SHOWN, announced_messages
from wattfold.coordinator.core.model.emergency import Emergency
from wattfold.coordinator.core.model.node import Node, NodeState
from wattfold.coordinator.core.model.node_power import PowerState
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb
from wattfold.v1.node_agent_pb2 import FrequencyPowerModel

_NODE_STATES: dict[NodeState, pb.NodeState] = {
    state: getattr(pb, f"NODE_STATE_{state.name}") for state in NodeState
}


def _reasons(node: Node) -> str:
    """Return the message of a node, and the zones that draw more than their caps."""
    over = [
        f"{name} exceeds its cap and is charged with {w_from_uw(power):.1f} W"
        for name, power in sorted(node.not_held_uw.items())
    ]
    return "; ".join(filter(None, [node.message, *over]))


def lease_end_s(node: Node, clock: Clock) -> float:
    """Return the latest end of the lease of a silent node, in Unix seconds; 0 = not silent."""
    return clock.wall_s(node.lease_until_ns) if node.state is NodeState.SILENT else 0.0


def node_message(
    state: State, node: Node, sample: NodeSample | None, waiting: Collection[JobId]
) -> pb.Node:
    """Return a node with its zones and its jobs. ``waiting``: the jobs that wait for boots."""
    account = state.ledger.accounts.get(node.node_id)
    message = pb.Node(
        node_id=node.node_id,
        address=node.address,
        state=_NODE_STATES[node.state],
        message=_reasons(node),
        committed_uw=account.charge_uw if account else 0,
        measured_uw=sample.power_uw if sample else 0,
        drift_count=sample.drift_count if sample else 0,
        power_source=_power_source(sample),
        launch_fault=node.fault,
        manager_state=state.manager.nodes.get(node.node_id, ""),
    )
    add_duty(message, state, node)
    add_power_state(message, state, node, waiting)
    add_reservations(message, state, node)
    for job_id, found in sample.jobs.items() if sample else ():
        message.residual.extend(r for r in residuals(node.node_id, job_id, found) if r.load > 0)
    for job in state.on_node(node.node_id):
        rank = job.ranks.get(node.node_id)
        if rank is not None and rank.end is None:
            (message.resident_job_ids if rank.resident else message.job_ids).append(job.job_id)
    spec = node.spec
    if spec is None:
        return message
    free = spec.cpus - state.occupied(node.node_id) if node.takes_jobs else CpuSet()
    message.cpus, message.free_cpus = str(spec.cpus), str(free)
    add_amounts(message, state, node, spec)
    message.base_power_uw, message.emulated = spec.base_power_uw, spec.emulated
    message.mask_mechanism = spec.mask_mechanism
    message.throttle_mechanism = spec.throttle_mechanism
    message.sockets, message.numa_nodes = len(spec.topology.packages), len(spec.topology.numa_nodes)
    message.smt = spec.topology.smt
    message.isolated_cpus, message.offline_cpus = str(spec.isolated_cpus), str(spec.offline_cpus)
    if spec.curve is not None:
        message.model.CopyFrom(
            FrequencyPowerModel(
                a=spec.curve.a,
                b=spec.curve.b,
                c=spec.curve.c,
                f_low_ghz=spec.curve.f_low_ghz,
                f_high_ghz=spec.curve.f_high_ghz,
            ),
        )
    for zone in spec.zones:
        measured = sample.zones.get(zone.name) if sample else None
        held = account.zones.get(zone.name) if account else None
        message.zones.add(
            name=zone.name,
            cap_uw=held.confirmed_uw if held else node.read_uw.get(zone.name, 0),
            cap_uw_min=zone.cap_uw_min,
            cap_uw_max=zone.cap_uw_max,
            floor_uw=zone.floor_uw,
            power_uw=measured.power_uw if measured else 0,
            energy_uj=measured.energy_uj if measured else 0,
        )
    return message


def _power_source(sample: NodeSample | None) -> str:
    if sample is None or not any(zone.valid for zone in sample.meters.values()):
        return ""
    return "zones" if sample.platform is None else "psys"


def power_message(
    state: State,
    seen: Observations,
    clock: Clock,
    policy: str,
    announced_max: int = ANNOUNCED_SHOWN,
) -> pb.Power:
    """Return the budget, the committed power and the measured power.

    ``announced_max``: how many of the announced budgets, from the next on.
    """
    ledger = state.ledger
    pending_uw, pending_ns = _pending(state)
    message = pb.Power(
        budget_uw=ledger.budget_uw,
        committed_uw=ledger.committed_uw,
        measured_uw=seen.power_uw,
        committed_uw_peak=ledger.peak_uw,
        measured_uw_peak=seen.peak_uw,
        floor_uw=state.floor_uw(),
        pending_budget_uw=pending_uw,
        pending_deadline_s=clock.wall_s(pending_ns) if pending_ns else 0.0,
        energy_uj=seen.energy_uj,
        policy=policy,
        announced=announced_messages(state, state.announced[:announced_max], clock),
        announced_later=max(len(state.announced) - announced_max, 0),
    )
    known = [node.spec for node in state.nodes.values() if node.spec is not None]
    message.known_nodes = len(known)
    message.asleep_nodes = sum(node.power is PowerState.ASLEEP for node in state.nodes.values())
    changing = state.index.switching.values()
    message.booting_nodes = sum(
        node.power in (PowerState.CALLED, PowerState.BOOTING) for node in changing
    )
    message.kept_awake_nodes = state.keep_awake
    add_manager(message, state, clock)
    message.decides_sleep = state.settings.sleep.decides
    message.emulated_nodes = sum(spec.emulated for spec in known)
    if state.emergency is not None:
        message.emergency.CopyFrom(emergency_message(state, state.emergency, clock))
    if (ramp := ramp_message(state, clock)) is not None:
        message.ramp.CopyFrom(ramp)
    add_outside(message, state)
    add_levels(message, state)
    return message


def emergency_message(state: State, emergency: Emergency, clock: Clock) -> pb.Emergency:
    """Return the emergency in force."""
    return pb.Emergency(
        limit_uw=emergency.limit_uw,
        since_s=clock.wall_s(emergency.begun_ns),
        short_uw=emergency.short_uw,
        suspended_jobs=len(emergency.stopped),
        over_uw=max(state.ledger.committed_uw - emergency.limit_uw, 0),
    )


def _pending(state: State) -> tuple[int, int]:
    """Return a pending lower budget and its deadline; zeros if there is none.

    An announced budget counts as pending while the committed power exceeds the limit prepared for
    it.
    """
    ledger = state.ledger
    if ledger.over_deadline_ns:
        return ledger.budget_uw, ledger.over_deadline_ns
    if ledger.coming_uw and ledger.committed_uw > ledger.limit_uw:
        coming = [one for one in state.announced if one.budget_uw == ledger.coming_uw]
        return (ledger.coming_uw, coming[0].at_ns) if coming else (0, 0)
    return 0, 0


def audit_message(entry: AuditEntry) -> pb.AuditEntry:
    """Return a stored request."""
    return pb.AuditEntry(
        time_s=entry.time_s,
        account=entry.account,
        uid=entry.uid,
        peer=entry.peer,
        action=entry.action,
        job_id=entry.job,
        node_id=entry.node,
        detail=entry.detail,
        outcome=entry.outcome,
        message=entry.message,
    )


def round_message(state: State) -> pb.PlanningRound:
    """Return the last planning round."""
    last = state.last_round
    if last is None:
        return pb.PlanningRound()
    return pb.PlanningRound(
        policy=last.policy,
        solver=last.solver,
        outcome=last.outcome,
        solve_ns=last.solve_ns,
        objective=last.objective,
        bound=last.bound,
        jobs=last.jobs,
        rounds=state.rounds,
    )
