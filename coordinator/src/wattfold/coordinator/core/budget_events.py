"""How the budget changes: now, by an announcement, and when the time of one comes."""

from __future__ import annotations

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import admission, cap_events
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.announced import Announced, Limit, coming_uw, limits
from wattfold.coordinator.core.node import NodeState
from wattfold.coordinator.core.state import State


def changed(state: State, event: ev.BudgetChanged, now_ns: int) -> list[act.Action]:
    """Another budget from now on; what is announced stays announced."""
    if event.accepted_outside_uw is not None:
        state.accepted_outside_uw = event.accepted_outside_uw
    _put(state, event.budget_uw, now_ns + max(event.deadline_ns, 1))
    return []


def announced(state: State, event: ev.BudgetAnnounced, now_ns: int) -> list[act.Action]:
    """Another budget from a time on; one that was announced for the same time is no more."""
    state.announcements += 1
    one = Announced(number=state.announcements, at_ns=event.at_ns, budget_uw=event.budget_uw)
    others = [other for other in state.announced if other.at_ns != one.at_ns]
    state.announced = sorted([*others, one], key=lambda other: other.at_ns)
    state.plan_needed = "budget announced"
    return pass_time(state, now_ns)


def cancelled(state: State, event: ev.BudgetCancelled, now_ns: int) -> list[act.Action]:
    """One of those that are announced will not come."""
    left = [one for one in state.announced if one.number != event.number]
    if len(left) < len(state.announced):
        state.announced, state.plan_needed = left, "budget cancelled"
    return pass_time(state, now_ns)


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """Budgets whose time has come are in force; falls that come within the lead are prepared."""
    ledger = state.ledger
    if not (state.announced or ledger.coming_uw):
        return []
    while state.announced and state.announced[0].at_ns <= now_ns:
        one = state.announced.pop(0)
        # Prepared for, it is due now. Who was away for its lead has that from now on.
        due_ns = one.at_ns if ledger.coming_uw else now_ns + lead_ns(state)
        _put(state, one.budget_uw, due_ns)
    near_uw = coming_uw(state.announced, now_ns, lead_ns(state))
    if near_uw != ledger.coming_uw:
        ledger.coming_uw = near_uw
        _look_again(state, "announced budget near")
    return []


def next_ns(state: State, now_ns: int) -> int:
    """When time alone changes what may be committed to; 0 = nothing is announced."""
    lead = lead_ns(state) if state.announced else 0
    times = [at_ns for one in state.announced for at_ns in (one.at_ns - lead, one.at_ns)]
    return min((at_ns for at_ns in times if at_ns > now_ns), default=0)


def ahead(state: State, now_ns: int) -> list[Limit]:
    """How what may be committed to changes from now on, by what is announced."""
    if not state.announced:
        return []
    return limits(state.announced, state.ledger.budget_uw, now_ns, lead_ns(state))


def lead_ns(state: State) -> int:
    """How long the charge of a node may stay up from when it is to be lowered.

    A command to a node that has just fallen silent is given up after its time-out; then its lease
    runs out, and an averaging window later what it held before counts no more.
    """
    lost_ns = 2 * state.command_timeout_ns + cap_events.longest_lease_ns(state)
    return lost_ns + state.longest_window_ns + state.settings.retry_ns


def least_ns(state: State, now_ns: int, settle_ns: int) -> int:
    """How long lowering all caps takes at the least, from now, by what is known of the nodes.

    ``settle_ns`` is what it takes where all answer. Of a silent node the lease has to run out.
    """
    silent = [
        node.lease_until_ns - now_ns + state.longest_window_ns
        for node in state.nodes.values()
        if node.state is NodeState.SILENT and node.node_id in state.ledger.accounts
    ]
    return max([settle_ns, *silent])


def _put(state: State, budget_uw: int, due_ns: int) -> None:
    """``due_ns``: by when a lower one is to be kept."""
    ledger = state.ledger
    ledger.budget_uw = budget_uw
    ledger.over_deadline_ns = due_ns if ledger.committed_uw > budget_uw else 0
    _look_again(state, "budget changed")


def _look_again(state: State, why: str) -> None:
    state.plan_needed = why
    for node in state.nodes.values():
        if not node.admitted:
            admission.admit(state, node)
    state.index.touch_everything()
