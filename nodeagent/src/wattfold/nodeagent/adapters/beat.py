"""Shared wake-ups for the periodic work of an agent.

An idle agent spends more CPU time on waking up than on most of the work it wakes up for. Work that
waits for the same beat, or for a multiple of it, runs in one wake-up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_BEGUN_S = time.monotonic()
"""The phase of the beats differs between the agents of a host."""
_EARLY = 0.01
"""A timer may fire this part of a period early. It then counts as its beat."""


async def next_beat(period_s: float) -> None:
    """Wait for the next multiple of a period since the start of the agent."""
    await asyncio.sleep(_next_s(period_s) - asyncio.get_running_loop().time())


async def on_beats(period_s: float, act: Callable[[], float]) -> None:
    """Call back at each beat until cancelled. It takes half the turns of the loop of a task.

    The callback returns the next period.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal timer
        timer = loop.call_at(_next_s(act()), beat)

    timer = loop.call_at(_next_s(period_s), beat)
    try:
        await loop.create_future()
    finally:
        timer.cancel()


def _next_s(period_s: float) -> float:
    since_s = asyncio.get_running_loop().time() - _BEGUN_S
    return _BEGUN_S + (int(since_s / period_s + _EARLY) + 1) * period_s
