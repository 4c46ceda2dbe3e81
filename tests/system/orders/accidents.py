"""Ordinary accidents of a site, as deeds with a weight and a name.

State folders are copied and used twice, a head node boots with a wrong calendar, calendars of head
and nodes are set, energy counters are reset, and an event that cannot be handled is in the journal.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from system.site.calendars import WHY_NOT

if TYPE_CHECKING:
    from system.orders.nodes_site import OrdersSite

STEPS_S = (-36_000, -3600, -1, 1, 3600, 36_000)
_SETTLED_S = 3.0
"""The calendar is not set when an announced budget comes sooner: it may be in force or not then."""

Deed = Callable[[], object]
Choice = tuple[int, str, Deed]


def of_copies(site: OrdersSite, *, words: bool, serving: bool, reached: bool) -> list[Choice]:
    """What may be done with copies of the state folder.

    ``words``: a node is out of the sum by the word of an operator, which a copy may lack or have
    for longer; the operator has to say it again then. ``serving``: all nodes serve. ``reached``:
    one is up.
    """
    states, found = site.states, list[Choice]()
    if words:
        return found
    if not site.coordinated and serving:
        found.append((30, "copy the state folder", states.make_copy))
    if states.copy is not None:
        found.append((4, "start the copy unasked", states.start_copy_unasked))
        # Without a node that answers, nobody decides between two that run.
        if reached or not site.coordinated:
            found.append((25, "the copy takes over", states.take_over))
        if reached and site.coordinated:
            deed = partial(states.take_over, stopped=True)
            found.append((25, "the copy takes over from a stopped one", deed))
    if states.left is not None and site.coordinated and reached:
        found.append((4, "start the one before the copy", states.start_left))
    return found


def of_journal(site: OrdersSite, chance: random.Random, jobs: list[str]) -> list[Choice]:
    """What is done to a journal while no coordinator runs."""
    if site.coordinated or not jobs:
        return []
    node, job = f"n{chance.randrange(len(site.machines))}", chance.choice(jobs)
    return [(12, "poison the journal", partial(site.states.poison, node, job))]


def of_calendars(site: OrdersSite, chance: random.Random) -> list[Choice]:
    """Steps of the calendars of the head node and of a node, and a boot of the head node."""
    found: list[Choice] = []
    if WHY_NOT or not site.sets_calendars:
        return found
    step_s, index = chance.choice(STEPS_S), chance.randrange(len(site.machines))
    if len(site.budgets.ahead()) == len(site.budgets.ahead(_SETTLED_S)):
        deed = partial(site.step_head, site.head_calendar.ahead_s + step_s)
        found.append((5, f"set the calendar of the head node by {step_s:+d} s", deed))
        if not site.coordinated:
            found.append(
                (12, f"boot the head node {step_s:+d} s off", partial(_boot, site, step_s))
            )
    calendar = site.calendars[index]
    deed = partial(calendar.set_ahead, calendar.ahead_s + step_s)
    return [*found, (2, f"set the calendar of n{index} by {step_s:+d} s", deed)]


def of_counters(site: OrdersSite, chance: random.Random) -> list[Choice]:
    """Energy counters that are not what was counted."""
    index = chance.randrange(len(site.machines))
    return [
        (2, f"set the counters of n{index} {word}", partial(site.set_counters, index, word))
        for word in ("back", "ahead")
    ]


def _boot(site: OrdersSite, step_s: int) -> None:
    site.states.reboot()
    site.step_head(site.head_calendar.ahead_s + step_s)
