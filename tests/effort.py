"""How many examples property tests try.

``scripts/test`` tries the same examples every time, so that a failure says something about the
change at hand. ``scripts/test quick`` tries a part of them. ``scripts/test search`` draws fresh
examples, SEARCH_FACTOR times as many.
"""

from __future__ import annotations

import os

EFFORT = os.environ.get("WATTFOLD_TEST_EFFORT", "full")
"""``quick``, ``full`` or ``search``; ``scripts/test`` sets it."""
QUICK, SEARCHING = EFFORT == "quick", EFFORT == "search"
SEARCH_FACTOR = 10
QUICK_DIVISOR = 5


def examples(count: int) -> int:
    """Return the number of examples of a test whose full number is ``count``."""
    factors = {"quick": 1 / QUICK_DIVISOR, "full": 1, "search": SEARCH_FACTOR}
    return max(1, round(count * factors[EFFORT]))
