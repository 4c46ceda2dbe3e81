"""The rule of equipartition (Kale, Kumar, DeSouza 2002, section 4), by numbers alone.

Everybody gets the least it asks for. What is left over is shared equally, with no more for anybody
than its greatest; what somebody does not take the others share. Sizes are whole, so the last few
units go one by one, to those that have the largest part of one coming, the first of equal ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor


def equal_shares(
    least: Sequence[int],
    greatest: Sequence[int],
    units: int,
    weights: Sequence[float] | None = None,
) -> list[int]:
    """The sizes of all, in their order; their sum is ``units`` unless all have their greatest.

    ``weights`` (above zero) share what is left over in another ratio than equally. Raises
    ValueError where not even the least sizes fit, or one is above its greatest.
    """
    left = units - sum(least)
    if left < 0 or any(low > high for low, high in zip(least, greatest, strict=True)):
        raise ValueError(
            f"{units} units are below the required {sum(least)}, or a minimum size exceeds its "
            "maximum"
        )
    sizes = list(least)
    share = list(weights) if weights is not None else [1.0] * len(sizes)
    open_ = [index for index, low in enumerate(least) if low < greatest[index]]
    while open_:
        each = left / sum(share[index] for index in open_)
        full = [i for i in open_ if greatest[i] - least[i] <= each * share[i]]
        if not full:
            break
        for index in full:
            sizes[index] = greatest[index]
            left -= greatest[index] - least[index]
        open_ = [index for index in open_ if sizes[index] < greatest[index]]
    if not open_:
        return sizes
    parts = {index: each * share[index] for index in open_}
    for index, part in parts.items():
        sizes[index] += floor(part)
        left -= floor(part)
    behind = sorted(open_, key=lambda index: (floor(parts[index]) - parts[index], index))
    for index in behind[:left]:
        sizes[index] += 1
    return sizes
