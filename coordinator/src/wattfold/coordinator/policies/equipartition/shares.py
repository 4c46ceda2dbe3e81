"""Sharing rule of equipartition (Kale, Kumar, DeSouza 2002, section 4), as numbers only.

Every job gets its minimum size. The rest is shared equally, up to the maximum of each job; other
jobs share resources that a job does not take. Sizes are whole numbers, so the last units go to the
jobs with the largest fractional parts, the first of equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor


def equal_shares(
    min_sizes: Sequence[int],
    max_sizes: Sequence[int],
    units: int,
    weights: Sequence[float] | None = None,
) -> list[int]:
    """Return the sizes of all jobs, in order; their sum is ``units`` or all have their maximum.

    ``weights`` (above zero) set the ratio of the shares of the rest. Raises ValueError if the
    minimum sizes do not fit, or a minimum exceeds its maximum.
    """
    left = units - sum(min_sizes)
    if left < 0 or any(low > high for low, high in zip(min_sizes, max_sizes, strict=True)):
        raise ValueError(
            f"{units} units are below the required {sum(min_sizes)}, or a minimum size exceeds its "
            "maximum"
        )
    sizes = list(min_sizes)
    share = list(weights) if weights is not None else [1.0] * len(sizes)
    open_ = [index for index, low in enumerate(min_sizes) if low < max_sizes[index]]
    while open_:
        each = left / sum(share[index] for index in open_)
        full = [i for i in open_ if max_sizes[i] - min_sizes[i] <= each * share[i]]
        if not full:
            break
        for index in full:
            sizes[index] = max_sizes[index]
            left -= max_sizes[index] - min_sizes[index]
        open_ = [index for index in open_ if sizes[index] < max_sizes[index]]
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
