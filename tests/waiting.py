"""Waits for conditions of processes that tell nobody when they come true."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

DEADLINE_S = 240.0
"""For conditions that an idle machine meets within a second; a load of 20 takes minutes."""
_PACE_S_MIN, _PACE_S_MAX = 0.02, 0.2
"""Between two looks: a tenth of what has been waited, within these limits. A look at a site costs
it 5 ms of CPU time."""

T = TypeVar("T")


def wait_until(what: str, look: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """The first true answer of ``look``; fails with its last one after the deadline."""
    pace = threading.Event()
    began_s = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        waited_s = time.monotonic() - began_s
        assert waited_s < deadline_s, f"not within {deadline_s:.0f} s: {what}; last {found!r}"
        pace.wait(min(max(waited_s / 10, _PACE_S_MIN), _PACE_S_MAX))


def at_once(call: Coroutine[None, None, None]) -> None:
    """Run a call that waits for nothing, such as a renewal with a simulated guard."""
    with contextlib.suppress(StopIteration):
        call.send(None)
        raise AssertionError("the call waits")
