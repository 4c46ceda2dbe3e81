"""Changes of the budget: at once, by an announcement, and at the time of an announcement."""

from __future__ import annotations

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import Announced, Limit, coming_uw, limits
from wattfold.coordinator.core.model.node import NodeState
from wattfold.coordinator.core.rules import admission, cap_events
from wattfold.coordinator.core.state.state import State


def changed(state: State, event: ev.BudgetChanged, now_ns: int) -> list[act.Action]:
    """Set the budget now. Announced budgets stay announced."""
    if event.accepted_outside_uw is not None:
        state.accepted_outside_uw = event.accepted_outside_uw
    _put(state, event.budget_uw, now_ns + max(event.deadline_ns, 1))
    return []


def announced(state: State, event: ev.BudgetAnnounced, now_ns: int) -> list[act.Action]:
    """Announce a budget. It replaces another budget announced for the same time."""
    state.announcements += 1
    one = Announced(number=state.announcements, at_ns=event.at_ns, budget_uw=event.budget_uw)
    others = [other for other in state.announced if other.at_ns != one.at_ns]
    state.announced = sorted([*others, one], key=lambda other: other.at_ns)
    state.plan_needed = "budget announced"
    return pass_time(state, now_ns)


def cancelled(state: State, event: ev.BudgetCancelled, now_ns: int) -> list[act.Action]:
    """Cancel an announced budget."""
    left = [one for one in state.announced if one.number != event.number]
    if len(left) < len(state.announced):
        state.announced, state.plan_needed = left, "budget cancelled"
    return pass_time(state, now_ns)


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """Set budgets whose time has come, and prepare for lower budgets within the lead."""
    ledger = state.ledger
    if not (state.announced or ledger.coming_uw):
        return []
    while state.announced and state.announced[0].at_ns <= now_ns:
        one = state.announced.pop(0)
        # If it was prepared, it is due now. Otherwise the lead starts now.
        due_ns = one.at_ns if ledger.coming_uw else now_ns + lead_ns(state)
        _put(state, one.budget_uw, due_ns)
    near_uw = coming_uw(state.announced, now_ns, lead_ns(state))
    if near_uw != ledger.coming_uw:
        ledger.coming_uw = near_uw
        _look_again(state, "announced budget near")
    return []


def next_ns(state: State, now_ns: int) -> int:
    """Return when time alone changes the limit on committed power; 0 = nothing is announced."""
    lead = lead_ns(state) if state.announced else 0
    times = [at_ns for one in state.announced for at_ns in (one.at_ns - lead, one.at_ns)]
    return min((at_ns for at_ns in times if at_ns > now_ns), default=0)


def ahead(state: State, now_ns: int) -> list[Limit]:
    """Return the future limits on committed power from the announced budgets."""
    if not state.announced:
        return []
    return limits(state.announced, state.ledger.budget_uw, now_ns, lead_ns(state))


def lead_ns(state: State) -> int:
    """Return how long the charge of a node may take to fall after it is to be lowered.

    A command to a node that has just fallen silent fails after its time-out. Then the lease of the
    node runs out. One averaging window later its previous caps no longer count.
    """
    lost_ns = 2 * state.command_timeout_ns + cap_events.longest_lease_ns(state)
    return lost_ns + state.longest_window_ns + state.settings.retry_ns


def least_ns(state: State, now_ns: int, settle_ns: int) -> int:
    """Return the minimum time to lower all caps from now, given the state of the nodes.

    ``settle_ns`` is the time needed if all nodes answer. The lease of a silent node has to run out.
    """
    silent = [
        node.lease_until_ns - now_ns + state.longest_window_ns
        for node in state.nodes.values()
        if node.state is NodeState.SILENT and node.node_id in state.ledger.accounts
    ]
    return max([settle_ns, *silent])


def _put(state: State, budget_uw: int, due_ns: int) -> None:
    """Set the budget. ``due_ns`` is the deadline for a lower budget."""
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
