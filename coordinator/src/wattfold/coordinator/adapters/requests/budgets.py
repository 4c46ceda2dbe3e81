"""Checks and messages of budgets. Impossible budgets are refused on arrival, or reported later."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.contract.local_time import moment
from wattfold.contract.log_text import line
from wattfold.contract.units import w_from_uw
from wattfold.coordinator.adapters.clock import AHEAD_S, Clock
from wattfold.coordinator.core.model.announced import ANNOUNCED_MAX, Announced, begun
from wattfold.coordinator.core.rules.nodes.leave import lasting_uw
from wattfold.coordinator.core.rules.power import budget_events
from wattfold.coordinator.core.rules.power.unaccounted_power import outsiders_uw, unaccounted_power
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

log = logging.getLogger("wattfold.coordinator")


ANNOUNCED_SHOWN = 256
"""Maximum number of announced budgets in a picture of the site."""


@dataclass(frozen=True, slots=True)
class Minimum:
    """The power that the nodes need, in microwatts, summed once for any number of budgets.

    ``floor_uw`` is the minimum of the nodes in use. ``drawn_uw`` is the power of the nodes outside
    the ledger, with their names.
    """

    floor_uw: int
    drawn_uw: int
    outside: str

    @classmethod
    def of(cls, state: State) -> Minimum:
        """Return the minimum of this moment."""
        outside = ", ".join(unaccounted_power(state).nodes)
        return cls(state.floor_uw() + lasting_uw(state), outsiders_uw(state), outside)

    def refusal(self, budget_uw: int, accept_outside: bool) -> str:
        """Why a budget cannot be kept, for people; empty if it can."""
        floor_uw, drawn_uw = self.floor_uw, self.drawn_uw
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
                f"ledger ({self.outside}) "
                f"may draw {drawn_uw / 1e6:.1f} W. "
                f"Give at least {(floor_uw + drawn_uw) / 1e6:.1f} W, or accept this power with "
                "--accept-outside"
            )
        return ""


class AnnouncementRules:
    """Decides which budgets can be announced at this moment.

    ``settle_ns`` is the time to lower every cap if all nodes answer. Announcements of ``schedule``
    are to be replaced, so they take no time; empty = all announcements stay.
    """

    def __init__(self, state: State, clock: Clock, settle_ns: int, schedule: str = "") -> None:
        self.now_ns = clock.now_ns()
        self._clock = clock
        self._now_s = clock.wall_s(self.now_ns)
        self._minimum = Minimum.of(state)
        self._accepts = self._minimum.drawn_uw <= state.accepted_outside_uw
        self._least_ns = budget_events.least_ns(state, self.now_ns, settle_ns)
        self._committed_uw = state.ledger.committed_uw
        self.replaced: dict[int, Announced] = {}
        self._taken: set[int] = set()
        for one in state.announced:
            at_ms = instant_ms(clock.wall_s(one.at_ns))
            if schedule and one.schedule == schedule:
                self.replaced[at_ms] = one
            else:
                self._taken.add(at_ms)

    @property
    def minimum_uw(self) -> int:
        """The smallest budget that can be announced now, in microwatts."""
        beside_uw = 0 if self._accepts else self._minimum.drawn_uw
        return self._minimum.floor_uw + beside_uw

    def too_many(self, count: int) -> str:
        """Return why this number of further announced budgets is too high; empty if it is not."""
        if len(self._taken) + count <= ANNOUNCED_MAX:
            return ""
        others = f" beside {len(self._taken)} others" if self._taken else ""
        return f"{count} announced budgets{others} exceed the limit of {ANNOUNCED_MAX} in all"

    def refusal(self, budget_uw: int, at_s: float) -> str:
        """Why a budget is not possible from a time (Unix seconds) on; empty if it is."""
        if not math.isfinite(at_s) or at_s > self._now_s + AHEAD_S:
            return "a budget can be announced at most ten years ahead"
        if at_s <= self._now_s:
            return (
                f"{_when(at_s)} is {self._now_s - at_s:.0f} s ago; give a future time, or omit the "
                "time to change the budget now"
            )
        if refused := self._minimum.refusal(budget_uw, self._accepts):
            return refused
        at_ms = instant_ms(at_s)
        if at_ms in self._taken:
            return f"a budget is already announced for {_when(at_s)}; cancel it first"
        known = self.replaced.get(at_ms)
        if known is not None and known.budget_uw == budget_uw:
            return ""
        if budget_uw < self._committed_uw and (
            self._clock.time_ns(at_s) < self.now_ns + self._least_ns
        ):
            return (
                f"{budget_uw / 1e6:.1f} W is not possible from {_when(at_s)} on: "
                f"{self._committed_uw / 1e6:.1f} W are committed, and lowering caps takes up to "
                f"{self._least_ns / 1e9:.1f} s, until "
                f"{_when(self._now_s + self._least_ns / 1e9 + 1)}. Give a later "
                "time, or a budget of at least the committed power"
            )
        return ""


def instant_ms(at_s: float) -> int:
    """Return a calendar time in milliseconds: equal times differ by less after calendar steps."""
    return round(at_s * 1000)


def budget_refusal(state: State, budget_uw: int, accept_outside: bool) -> str:
    """Why a budget cannot be kept, for people; empty if it can."""
    return Minimum.of(state).refusal(budget_uw, accept_outside)


def announcement_refusal(
    state: State, budget_uw: int, at_s: float, clock: Clock, settle_ns: int
) -> str:
    """Return why a budget is not possible from a future time (Unix seconds) on; empty if it is.

    ``settle_ns`` is the time to lower every cap if all nodes answer.
    """
    rules = AnnouncementRules(state, clock, settle_ns)
    return rules.refusal(budget_uw, at_s) or rules.too_many(1)


def obstacle(state: State, one: Announced) -> str:
    """Return why an announced budget is not possible as things stand; empty if it is."""
    return _obstacle(one, budget_events.minimum_uw(state))


def _obstacle(one: Announced, minimum_uw: int) -> str:
    if one.budget_uw >= minimum_uw:
        return ""
    least_w = w_from_uw(minimum_uw)
    return f"nodes now need at least {least_w:.1f} W; remove nodes, or announce another budget"


def announced_messages(
    state: State, announced: Sequence[Announced], clock: Clock
) -> list[pb.AnnouncedBudget]:
    """Return the next announced budgets, each with the time from which caps are lowered for it.

    ``announced`` holds them in order of time, from the first after now on.
    """
    if not announced:
        return []
    lead_ns, minimum_uw = budget_events.lead_ns(state), budget_events.minimum_uw(state)
    before_uw = state.ledger.budget_uw
    found: list[pb.AnnouncedBudget] = []
    for one in announced:
        falls_ns = lead_ns if one.budget_uw < before_uw else 0
        before_uw = one.budget_uw
        message = pb.AnnouncedBudget(
            number=one.number,
            at_s=clock.wall_s(one.at_ns),
            budget_uw=one.budget_uw,
            from_s=clock.wall_s(one.at_ns - falls_ns),
            obstacle=_obstacle(one, minimum_uw),
            schedule=one.schedule,
        )
        found.append(message)
    return found


def announced_message(state: State, one: Announced, clock: Clock) -> pb.AnnouncedBudget:
    """Return one of the announced budgets of the state, as `announced_messages`."""
    before = state.announced[: begun(state.announced, one.at_ns)]
    return announced_messages(state, before, clock)[-1]


def _when(time_s: float) -> str:
    """Return a calendar time of this machine, for people."""
    return moment(time_s if math.isfinite(time_s) and time_s >= 0 else 0.0)


class AnnouncedLog:
    """Logs when an announced budget becomes impossible and when it becomes possible again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: set[int] = set()
        self._seen: Sequence[Announced] = ()
        self._least_uw = 0

    def look(self, state: State) -> None:
        """Compare the announced budgets with the state. Called after every batch of events."""
        if not (state.announced or self._told):
            return
        minimum_uw = budget_events.minimum_uw(state)
        # The lowest announced budget is found again only after a change: there may be thousands.
        if self._seen is not state.announced:
            self._seen = state.announced
            self._least_uw = min((one.budget_uw for one in state.announced), default=0)
        if not self._told and self._least_uw >= minimum_uw:
            return
        wrong = {one.number: why for one in state.announced if (why := _obstacle(one, minimum_uw))}
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
