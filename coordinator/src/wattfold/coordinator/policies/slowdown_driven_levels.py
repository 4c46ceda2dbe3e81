"""Caps of jobs that share under slowdown-driven, where the watts left are too few for all of them.

With ``power = "any"`` a job starts beside mates all the same: its cap and theirs go down to one
level that the power left feeds, but for those whose users asked for a cap. When watts are there
again, caps come back up (`slowdown_driven_runs`). Nothing here ever takes more than is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wattfold.coordinator.core.charge import CAP_STEP_UW
from wattfold.coordinator.core.job import Assignment
from wattfold.coordinator.core.node import NodeKind
from wattfold.coordinator.core.plan import JobView
from wattfold.coordinator.models.amdahl import WHOLE_PPM
from wattfold.coordinator.policies.estimates import run_time_s
from wattfold.coordinator.policies.placement import Room


def common_level_uw(
    room: Room, given: Sequence[tuple[Assignment, bool]], power_uw: int
) -> int | None:
    """The greatest level that lets all of these fit into so much; None if no level does.

    Each job's own cap stays where it is lower, or where it may not change (the flag).
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
    return _greatest(least_uw, most_uw, lambda level_uw: needed_uw(level_uw) <= power_uw)


def raised_uw(room: Room, given: Assignment, wanted_uw: int, power_uw: int) -> int:
    """The greatest level up to that wanted for which so much power more is enough."""

    def fits(level_uw: int) -> bool:
        return room.power_of(given.shares, level_uw) - room.given_uw(given) <= power_uw

    return _greatest(given.cap_uw, wanted_uw, fits) or given.cap_uw


def pace_ppm(view: JobView, kinds: Iterable[NodeKind], size: int, caps_uw: tuple[int, int]) -> int:
    """How long a job takes at the first cap over that at the second one, parts per million.

    By its profile or the default one.
    """
    kinds, (cap_uw, wanted_uw) = list(kinds), caps_uw
    if cap_uw == wanted_uw or not kinds:
        return WHOLE_PPM
    times_s = [run_time_s(view, kinds, size, level_uw) for level_uw in caps_uw]
    return max(round(times_s[0] / times_s[1] * WHOLE_PPM), WHOLE_PPM)


def _greatest(least_uw: int, most_uw: int, fits: Callable[[int], bool]) -> int | None:
    """By bisection, in steps that caps can have above the least."""
    if fits(most_uw):
        return most_uw
    low, high = 0, max(most_uw - least_uw, 0) // CAP_STEP_UW + 1
    if not fits(least_uw):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(least_uw + middle * CAP_STEP_UW) else (low, middle)
    return least_uw + low * CAP_STEP_UW
