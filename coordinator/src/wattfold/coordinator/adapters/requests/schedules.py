"""Schedules of budgets: what a request would announce, keep, cancel and refuse, and the event.

A schedule is a set of announced budgets with a common name. A request replaces all of them at once,
or none. Each budget is judged by the rules of a single announcement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattfold.contract.ids import valid_name
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.requests.budgets import (
    AnnouncementRules,
    announced_messages,
    instant_ms,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.announced import Announced
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

NAMED_REFUSALS = 3
"""Maximum number of refused budgets in the reason for refusing a schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleProposal:
    """The changes that a schedule makes at one moment. ``refusal`` concerns it as a whole."""

    event: ev.BudgetsScheduled
    kept: tuple[Announced, ...] = ()
    cancelled: tuple[Announced, ...] = ()
    refused: tuple[pb.AnnouncedBudget, ...] = ()
    minimum_uw: int = 0
    refusal: str = ""

    @property
    def reason(self) -> str:
        """Why nothing of it is carried out, for people; empty if all of it is possible."""
        if self.refusal or not self.refused:
            return self.refusal
        named = [one.obstacle for one in self.refused[:NAMED_REFUSALS]]
        more = len(self.refused) - len(named)
        rest = [f"and {more} more; --preview shows them"] if more else []
        count = len(self.event.budgets) + len(self.refused)
        text = "; ".join([*named, *rest])
        return f"{len(self.refused)} of {count} budgets are refused, so nothing was changed: {text}"


def propose(
    state: State, request: pb.ScheduleBudgetsRequest, clock: Clock, settle_ns: int
) -> ScheduleProposal:
    """Judge a schedule. ``settle_ns`` is the time to lower every cap if all nodes answer."""
    name = request.name
    if not valid_name(name):
        text = f"{name[:80]!r} is no name of a schedule: 1 to 63 of A-Z a-z 0-9 . _ -"
        return ScheduleProposal(event=ev.BudgetsScheduled(schedule="", budgets=()), refusal=text)
    rules = AnnouncementRules(state, clock, settle_ns, name)
    if many := rules.too_many(len(request.budgets)):
        return ScheduleProposal(
            event=ev.BudgetsScheduled(schedule=name, budgets=()),
            minimum_uw=rules.minimum_uw,
            refusal=many,
        )
    accepted: dict[int, ev.BudgetAnnounced] = {}
    refused: list[pb.AnnouncedBudget] = []
    for one in request.budgets:
        at_s, budget_uw = one.at_s, one.budget_uw
        why = rules.refusal(budget_uw, at_s)
        at_ms = 0 if why else instant_ms(at_s)
        if at_ms in accepted:
            why = "the schedule has two budgets for this time"
        if why:
            refused.append(pb.AnnouncedBudget(at_s=at_s, budget_uw=budget_uw, obstacle=why))
            continue
        known = rules.replaced.get(at_ms)
        at_ns = known.at_ns if known is not None else clock.time_ns(at_s)
        accepted[at_ms] = ev.BudgetAnnounced(at_ns=at_ns, budget_uw=budget_uw)
    budgets = sorted(accepted.values(), key=lambda one: one.at_ns)
    wanted = {(one.at_ns, one.budget_uw) for one in budgets}
    before = list(rules.replaced.values())
    nothing = not (before or budgets or refused)
    return ScheduleProposal(
        event=ev.BudgetsScheduled(schedule=name, budgets=tuple(budgets)),
        kept=tuple(one for one in before if (one.at_ns, one.budget_uw) in wanted),
        cancelled=tuple(one for one in before if (one.at_ns, one.budget_uw) not in wanted),
        refused=tuple(sorted(refused, key=lambda one: one.at_s)),
        minimum_uw=rules.minimum_uw,
        refusal=f"no budget of a schedule {name} is announced" if nothing else "",
    )


def preview(state: State, proposal: ScheduleProposal, clock: Clock) -> pb.ScheduleBudgetsResponse:
    """Return what a proposal would do, and change nothing. New announcements have number 0."""
    kept = {(one.at_ns, one.budget_uw): one for one in proposal.kept}
    name = proposal.event.schedule
    planned = [
        kept.get((one.at_ns, one.budget_uw))
        or Announced(number=0, at_ns=one.at_ns, budget_uw=one.budget_uw, schedule=name)
        for one in proposal.event.budgets
    ]
    others = [one for one in state.announced if one.schedule != name]
    after = sorted([*others, *planned], key=lambda one: one.at_ns)
    announced, known = _sorted_out(state, proposal, after, clock)
    return pb.ScheduleBudgetsResponse(
        announced=announced,
        kept=known,
        cancelled=announced_messages(state, proposal.cancelled, clock),
        refused=proposal.refused,
        minimum_uw=proposal.minimum_uw,
        refusal=proposal.refusal,
    )


def done(
    state: State, proposal: ScheduleProposal, cancelled: Sequence[pb.AnnouncedBudget], clock: Clock
) -> pb.ScheduleBudgetsResponse:
    """Return what a proposal changed. ``cancelled``: as they were before the change."""
    announced, kept = _sorted_out(state, proposal, state.announced, clock)
    return pb.ScheduleBudgetsResponse(
        announced=announced,
        kept=kept,
        cancelled=cancelled,
        minimum_uw=proposal.minimum_uw,
    )


def missing(state: State, proposal: ScheduleProposal, now_ns: int) -> bool:
    """Whether the core did not take over a schedule, because it was no longer possible."""
    there = {one.at_ns for one in state.announced if one.schedule == proposal.event.schedule}
    return any(one.at_ns > now_ns and one.at_ns not in there for one in proposal.event.budgets)


def _sorted_out(
    state: State, proposal: ScheduleProposal, announced: Sequence[Announced], clock: Clock
) -> tuple[list[pb.AnnouncedBudget], list[pb.AnnouncedBudget]]:
    """Return the new and the kept budgets of the schedule among all that are then announced."""
    kept = {one.number for one in proposal.kept}
    messages = announced_messages(state, announced, clock)
    own = [message for message in messages if message.schedule == proposal.event.schedule]
    new = [one for one in own if one.number not in kept]
    return new, [one for one in own if one.number in kept]
