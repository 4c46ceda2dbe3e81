"""Shared wake-ups for the periodic work of an agent.

An idle agent spends more CPU time on waking up than on most of the work it wakes up for. Work that
waits for the same beat, or for a multiple of it, runs in one wake-up.
"""

from __future__ import annotations

import asyncio
import time

_BEGUN_S = time.monotonic()
"""The phase of the beats differs between the agents of a host."""
_EARLY = 0.01
"""A timer may fire this part of a period early. It then counts as its beat."""


async def next_beat(period_s: float) -> None:
    """Wait for the next multiple of a period since the start of the agent."""
    loop = asyncio.get_running_loop()
    since_s = loop.time() - _BEGUN_S
    beats = int(since_s / period_s + _EARLY) + 1
    await asyncio.sleep(beats * period_s - since_s)
