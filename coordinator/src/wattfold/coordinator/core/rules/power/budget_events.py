"""Changes of the budget: at once, by an announcement or a schedule, and at an announced time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import announced as times
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import AHEAD_MAX, Announced, Limit
from wattfold.coordinator.core.model.node import NodeState
from wattfold.coordinator.core.rules.nodes.leave import lasting_uw
from wattfold.coordinator.core.rules.power import admission, cap_events, cap_steps, emergency
from wattfold.coordinator.core.rules.power.unaccounted_power import outsiders_uw
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
    one = _announced(state, event, schedule="")
    others = [other for other in state.announced if other.at_ns != one.at_ns]
    state.announced = _in_order([*others, one])
    state.plan_needed = "budget announced"
    return pass_time(state, now_ns)


def scheduled(state: State, event: ev.BudgetsScheduled, now_ns: int) -> list[act.Action]:
    """Replace the announced budgets of a schedule: all, or none if one of them is not possible.

    Nodes and announcements may have changed since the request was checked. A budget that was
    announced for the same time before keeps its number.
    """
    others = [one for one in state.announced if one.schedule != event.schedule]
    taken, least_uw = {one.at_ns for one in others}, minimum_uw(state)
    if any(one.at_ns in taken or one.budget_uw < least_uw for one in event.budgets):
        return []
    before = {
        (one.at_ns, one.budget_uw): one for one in state.announced if one.schedule == event.schedule
    }
    made: list[Announced] = []
    for one in event.budgets:
        same = before.get((one.at_ns, one.budget_uw))
        state.announcements += same is None
        made.append(same or _announced(state, one, event.schedule))
    state.announced = _in_order([*others, *made])
    state.plan_needed = "budgets scheduled"
    return pass_time(state, now_ns)


def _announced(state: State, one: ev.BudgetAnnounced, schedule: str) -> Announced:
    return Announced(
        number=state.announcements, at_ns=one.at_ns, budget_uw=one.budget_uw, schedule=schedule
    )


def _in_order(announced: list[Announced]) -> tuple[Announced, ...]:
    return tuple(sorted(announced, key=lambda one: one.at_ns))


def cancelled(state: State, event: ev.BudgetCancelled, now_ns: int) -> list[act.Action]:
    """Cancel an announced budget."""
    left = tuple(one for one in state.announced if one.number != event.number)
    if len(left) < len(state.announced):
        state.announced, state.plan_needed = left, "budget cancelled"
    return pass_time(state, now_ns)


def pass_time(state: State, now_ns: int) -> list[act.Action]:
    """Set budgets whose time has come, and prepare for lower budgets within the lead."""
    ledger = state.ledger
    if not (state.announced or ledger.coming_uw):
        return []
    while state.announced and state.announced[0].at_ns <= now_ns:
        one = state.announced[0]
        state.announced = state.announced[1:]
        # If it was prepared, it is due now. Otherwise the lead starts now.
        due_ns = one.at_ns if ledger.coming_uw else now_ns + lead_ns(state)
        _put(state, one.budget_uw, due_ns)
    near_uw = times.coming_uw(state.announced, now_ns, lead_ns(state))
    if near_uw != ledger.coming_uw:
        ledger.coming_uw = near_uw
        _look_again(state, "announced budget near")
    return []


def next_ns(state: State, now_ns: int) -> int:
    """Return when time alone changes the power that may be used; 0 = never, as far as is known."""
    found: list[int] = []
    if state.ledger.ramp.active:
        found += [cap_steps.next_rise_ns(state), cap_steps.next_fall_ns(state)]
    if state.announced:
        found.append(times.next_ns(state.announced, now_ns, lead_ns(state)))
    return min((at_ns for at_ns in found if at_ns > now_ns), default=0)


def ahead(state: State, now_ns: int) -> list[Limit]:
    """Return the future limits on committed power from the next announced budgets."""
    if not state.announced:
        return []
    near = state.announced[:AHEAD_MAX]
    return times.limits(near, state.ledger.budget_uw, now_ns, lead_ns(state))


def minimum_uw(state: State) -> int:
    """Return the smallest budget that can be announced: the power that no order can lower.

    This is the power of the admitted nodes at their floors, of unreachable nodes with original
    limits, and of nodes outside the ledger beyond the accepted part.
    """
    beside_uw = max(outsiders_uw(state) - state.accepted_outside_uw, 0)
    return state.floor_uw() + lasting_uw(state) + beside_uw


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


HANDLERS: dict[type, Callable[[State, Any, int], list[act.Action]]] = {
    ev.BudgetChanged: changed,
    ev.BudgetAnnounced: announced,
    ev.BudgetCancelled: cancelled,
    ev.BudgetsScheduled: scheduled,
    **emergency.HANDLERS,
}
