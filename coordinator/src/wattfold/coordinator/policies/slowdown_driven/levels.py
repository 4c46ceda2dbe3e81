"""Caps of sharing jobs under slowdown-driven if the remaining power is too low for all of them.

With ``power = "any"`` a job still starts next to mates. Its cap and their caps are lowered to one
level within the remaining power, except for caps requested by users. When power is available again,
caps are raised (`slowdown_driven.runs`). No function here exceeds the remaining power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.core.power.charge import CAP_STEP_UW
from wattfold.coordinator.models.amdahl import WHOLE_PPM
from wattfold.coordinator.policies.resources.estimates import run_time_s
from wattfold.coordinator.policies.resources.room import Room


def common_level_uw(
    room: Room, given: Sequence[tuple[Assignment, bool]], power_uw: int
) -> int | None:
    """Return the highest level at which all of these fit into ``power_uw``, or None.

    A job keeps its own cap if that is lower, or if it must not change (the flag).
    """

    def needed_uw(level_uw: int) -> int:
        return sum(
            room.power_of(one.shares, min(one.cap_uw, level_uw) if moves else one.cap_uw)
            if not one.levels
            else room.given_uw(one)
            for one, moves in given
        )

    moving = [one for one, moves in given if moves]
    kinds = room.kinds_under(share for one in moving for share in one.shares)
    least_uw = min((kind.least_uw for kind in kinds), default=0)
    most_uw = max((one.cap_uw for one in moving), default=0)
    return _highest_level_uw(least_uw, most_uw, lambda level_uw: needed_uw(level_uw) <= power_uw)


def raised_uw(room: Room, given: Assignment, wanted_uw: int, power_uw: int) -> int:
    """Return the highest level up to ``wanted_uw`` within additional power of ``power_uw``."""

    def fits(level_uw: int) -> bool:
        return room.power_of(given.shares, level_uw) - room.given_uw(given) <= power_uw

    return _highest_level_uw(given.cap_uw, wanted_uw, fits) or given.cap_uw


def pace_ppm(view: JobView, kinds: Iterable[NodeKind], size: int, caps_uw: tuple[int, int]) -> int:
    """Return the run time at the first cap relative to the second, in parts per million.

    It uses the profile of the job or the default profile.
    """
    kinds, (cap_uw, wanted_uw) = list(kinds), caps_uw
    if cap_uw == wanted_uw or not kinds:
        return WHOLE_PPM
    times_s = [run_time_s(view, kinds, size, level_uw) for level_uw in caps_uw]
    return max(round(times_s[0] / times_s[1] * WHOLE_PPM), WHOLE_PPM)


def _highest_level_uw(least_uw: int, most_uw: int, fits: Callable[[int], bool]) -> int | None:
    """Return the highest level by bisection, in the steps of caps above the minimum."""
    if fits(most_uw):
        return most_uw
    low, high = 0, max(most_uw - least_uw, 0) // CAP_STEP_UW + 1
    if not fits(least_uw):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(least_uw + middle * CAP_STEP_UW) else (low, middle)
    return least_uw + low * CAP_STEP_UW
