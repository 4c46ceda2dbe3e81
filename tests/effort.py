"""How many examples property tests try.

``scripts/test`` tries the same examples every time, so that a failure says something about the
change at hand. ``scripts/test search`` draws fresh examples, SEARCH_FACTOR times as many.
"""

from __future__ import annotations

import os

SEARCHING = os.environ.get("WATTFOLD_TEST_EXAMPLES") == "search"
SEARCH_FACTOR = 10


def examples(count: int) -> int:
    """Return the number of examples of a test: ``count``, or more in a search."""
    return count * SEARCH_FACTOR if SEARCHING else count
