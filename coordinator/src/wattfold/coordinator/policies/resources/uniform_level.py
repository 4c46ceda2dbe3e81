"""Maximum power level that all nodes of a machine can have at the same time."""

from __future__ import annotations

from collections.abc import Iterable

from wattfold.coordinator.core.model.node import NodeKind
from wattfold.coordinator.core.power.charge import CAP_STEP_UW, share_uw


def greatest_level_uw(parts: Iterable[tuple[NodeKind, int, int]], power_uw: int) -> int:
    """Return the highest level at which the given cores of the nodes fit into the power.

    ``parts`` holds node kind, cores per node and number of nodes. The level is a multiple of
    `CAP_STEP_UW` or an end of the range: the lowest level if nothing fits, or the highest cap if
    all nodes fit at it.
    """
    known = list(parts)
    low, high = min(kind.lowest_uw for kind, _, _ in known), max(k.most_uw for k, _, _ in known)

    def fits(level_uw: int) -> bool:
        return sum(n * share_uw(kind, c, level_uw) for kind, c, n in known) <= power_uw

    if fits(high):
        return high
    least = low
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return max(low // CAP_STEP_UW * CAP_STEP_UW, least)
