"""Checks and messages of budgets. Impossible budgets are refused on arrival, or reported later."""

from __future__ import annotations

import logging
import math

from wattfold.contract.local_time import moment
from wattfold.contract.log_text import line
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.clock import AHEAD_S, Clock
from wattfold.coordinator.core.model.announced import ANNOUNCED_MAX, Announced
from wattfold.coordinator.core.rules import budget_events
from wattfold.coordinator.core.rules.leave import lasting_uw
from wattfold.coordinator.core.rules.unaccounted_power import counted_uw, unaccounted_power
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

log = logging.getLogger("wattfold.coordinator")


def budget_refusal(state: State, budget_uw: int, accept_outside: bool) -> str:
    """Why a budget cannot be kept, for people; empty if it can."""
    floor_uw, drawn_uw = state.floor_uw() + lasting_uw(state), outsiders_uw(state)
    if budget_uw < floor_uw or budget_uw == 0:
        return (
            f"budget {budget_uw / 1e6:.1f} W is below {floor_uw / 1e6:.1f} W, the minimum "
            "power of the nodes in use (base power, floors, and limits of released nodes). "
            f"Give at least {floor_uw / 1e6:.1f} W, or remove nodes that are off or have "
            "left with `wattfold node forget`"
        )
    if not accept_outside and drawn_uw and budget_uw < floor_uw + drawn_uw:
        return (
            f"budget {budget_uw / 1e6:.1f} W is below {(floor_uw + drawn_uw) / 1e6:.1f} W: "
            f"the nodes in use need at least {floor_uw / 1e6:.1f} W, and nodes outside the "
            f"ledger ({', '.join(unaccounted_power(state).nodes)}) "
            f"may draw {drawn_uw / 1e6:.1f} W. "
            f"Give at least {(floor_uw + drawn_uw) / 1e6:.1f} W, or accept this power with "
            "--accept-outside"
        )
    return ""


def announcement_refusal(
    state: State, budget_uw: int, at_s: float, clock: Clock, settle_ns: int
) -> str:
    """Return why a budget is not possible from a future time (Unix seconds) on; empty if it is.

    ``settle_ns`` is the time to lower every cap if all nodes answer.
    """
    now_ns = clock.now_ns()
    now_s = clock.wall_s(now_ns)
    if not math.isfinite(at_s) or at_s > now_s + AHEAD_S:
        return "a budget can be announced at most ten years ahead"
    if at_s <= now_s:
        return (
            f"{_when(at_s)} is {now_s - at_s:.0f} s ago; give a future time, or omit the "
            "time to change the budget now"
        )
    accepts = outsiders_uw(state) <= state.accepted_outside_uw
    if refused := budget_refusal(state, budget_uw, accepts):
        return refused
    at_ns = clock.time_ns(at_s)
    if any(one.at_ns == at_ns for one in state.announced):
        return f"a budget is already announced for {_when(at_s)}; cancel it first"
    if len(state.announced) >= ANNOUNCED_MAX:
        return f"the limit of {ANNOUNCED_MAX} announced budgets is reached"
    least = budget_events.least_ns(state, now_ns, settle_ns)
    committed_uw = state.ledger.committed_uw
    if budget_uw < committed_uw and at_ns < now_ns + least:
        return (
            f"{budget_uw / 1e6:.1f} W is not possible from {_when(at_s)} on: "
            f"{committed_uw / 1e6:.1f} W are committed, and lowering caps takes up to "
            f"{least / 1e9:.1f} s, until {_when(now_s + least / 1e9 + 1)}. Give a later "
            "time, or a budget of at least the committed power"
        )
    return ""


def outsiders_uw(state: State) -> int:
    """Return the counted power of nodes outside the ledger that will not be admitted."""
    unadmitted = state.index.unadmitted.values()
    return sum(counted_uw(node) for node in unadmitted if not node.awaits_room)


def obstacle(state: State, one: Announced) -> str:
    """Return why an announced budget is not possible as things stand; empty if it is."""
    floor_uw = state.floor_uw() + lasting_uw(state)
    beside_uw = max(outsiders_uw(state) - state.accepted_outside_uw, 0)
    if one.budget_uw >= floor_uw + beside_uw:
        return ""
    least_w = w_from_uw(floor_uw + beside_uw)
    return f"nodes now need at least {least_w:.1f} W; remove nodes, or announce another budget"


def announced_message(state: State, one: Announced, clock: Clock) -> pb.AnnouncedBudget:
    """Return an announced budget, and the time from which caps are lowered for it."""
    before = [each for each in state.announced if each.at_ns < one.at_ns]
    before_uw = before[-1].budget_uw if before else state.ledger.budget_uw
    lead_ns = budget_events.lead_ns(state) if one.budget_uw < before_uw else 0
    return pb.AnnouncedBudget(
        number=one.number,
        at_s=clock.wall_s(one.at_ns),
        budget_uw=one.budget_uw,
        from_s=clock.wall_s(one.at_ns - lead_ns),
        obstacle=obstacle(state, one),
    )


def _when(time_s: float) -> str:
    """Return a calendar time of this machine, for people."""
    return moment(time_s if math.isfinite(time_s) and time_s >= 0 else 0.0)


class AnnouncedLog:
    """Logs when an announced budget becomes impossible and when it becomes possible again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: set[int] = set()

    def look(self, state: State) -> None:
        """Compare the announced budgets with the state. Called after every batch of events."""
        if not (state.announced or self._told):
            return
        wrong = {one.number: why for one in state.announced if (why := obstacle(state, one))}
        for one in state.announced:
            if (one.number in wrong) == (one.number in self._told):
                continue
            values = {
                "number": one.number,
                "budget_w": f"{w_from_uw(one.budget_uw):.1f}",
                "at": _when(self._clock.wall_s(one.at_ns)),
            }
            if one.number in wrong:
                log.error(line("budget_ahead_impossible", **values, reason=wrong[one.number]))
            else:
                log.warning(line("budget_ahead_possible", **values))
        self._told = set(wrong)
