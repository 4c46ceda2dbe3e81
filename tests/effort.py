"""How many examples property tests try.

``scripts/test`` tries the same examples every time, so that a failure says something about the
change at hand. ``scripts/test quick`` tries a part of them. ``scripts/test search`` draws fresh
examples, ten times as many.
"""

from __future__ import annotations

import os

EFFORT = os.environ.get("WATTFOLD_TEST_EFFORT", "full")
"""``quick``, ``full`` or ``search``; ``scripts/test`` sets it."""
QUICK, SEARCHING = EFFORT == "quick", EFFORT == "search"
FACTORS = {"quick": 0.1, "full": 0.3, "search": 3.0}
"""Shares of the number that a test states."""


def examples(count: int) -> int:
    """Return the number of examples of a test that states ``count``; at least one."""
    return max(1, round(count * FACTORS[EFFORT]))
