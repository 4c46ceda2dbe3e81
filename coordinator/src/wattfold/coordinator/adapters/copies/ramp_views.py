"""Statements about power that waits for the ramp limit."""

from __future__ import annotations

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.node_views import unfinished_reason
from wattfold.coordinator.adapters.copies.waiting_views import time_of_day
from wattfold.coordinator.core.model.job import PLACED_STATES, Job
from wattfold.coordinator.core.rules.power.cap_steps import rising_uw
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb


def ramp_message(state: State, clock: Clock) -> pb.Ramp | None:
    """Return the ramp limits and the power that waits for them; None = there are no limits."""
    ledger, limits = state.ledger, state.ledger.ramp.limits
    if not (limits.rise_uw_per_s or limits.fall_uw_per_s):
        return None
    message = pb.Ramp(
        rise_uw_per_s=limits.rise_uw_per_s,
        fall_uw_per_s=limits.fall_uw_per_s,
        step_uw=ledger.ramp.rise.step_uw or ledger.ramp.fall.step_uw,
        free_uw=ledger.free_uw,
        waiting_uw=rising_uw(state),
    )
    if message.waiting_uw:
        message.until_s = clock.wall_s(_until_ns(state))
    return message


def _until_ns(state: State) -> int:
    """Return when all caps that wait now have risen, unless other power rises or falls before."""
    ledger = state.ledger
    return ledger.ramp.rise.reached_ns(ledger.possible_uw + rising_uw(state))


def current_reason(state: State, job: Job, clock: Clock) -> str:
    """Return why a placed job is not started, not ended or not at full power; empty if it is."""
    return unfinished_reason(state, job) or rising_reason(state, job, clock)


def rising_reason(state: State, job: Job, clock: Clock) -> str:
    """Return which power the nodes of a job have and wait for; empty if they wait for none."""
    if job.state not in PLACED_STATES:
        return ""
    nodes = [state.nodes[node_id] for node_id in job.ranks if node_id in state.nodes]
    needs_uw = sum(node.rising_uw for node in nodes)
    if not needs_uw:
        return ""
    accounts = state.ledger.accounts
    has_uw = sum(accounts[n.node_id].charge_uw for n in nodes if n.node_id in accounts)
    return (
        f"waits for the ramp limit: {has_uw / 1e6:.0f} W now, {(has_uw + needs_uw) / 1e6:.0f} W "
        f"at {time_of_day(clock, _until_ns(state))}"
    )
