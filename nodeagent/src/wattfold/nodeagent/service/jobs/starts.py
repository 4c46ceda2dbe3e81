"""Ability of this node to start jobs: closed by a refused launch, opened by a probe.

A node with a full disk refuses every job. Its coordinator must know this before it sends the next
job, and also when the disk has space again. Nothing notifies the agent about free space, so it
tests the needs of a launch (see `launch_probe`) every few seconds. The first pause doubles with
each refused launch. So a fault that the probe does not detect causes one launch per minute instead
of a loop of launches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from wattfold.nodeagent import logs
from wattfold.nodeagent.service.background import Spawn

PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 60.0
PROBE_S_MAX = 4.0


class Starts:
    """The ability of one node to start jobs.

    ``probe`` returns why a launch would fail now, or an empty text. ``on_change`` is called when
    the state has changed. ``pause`` waits for a number of seconds.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[str]],
        spawn: Spawn,
        on_change: Callable[[], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.fault = ""
        self._probe = probe
        self._spawn = spawn
        self._on_change = on_change
        self._pause = pause
        self._refusals = 0
        """Number of launches refused since the last success, counted once per closure."""

    def refused(self, why: str) -> None:
        """Record that a launch was refused because of the node."""
        if self.fault:
            return
        self._refusals += 1
        self._tell(why)
        self._spawn(self._watch())

    def succeeded(self) -> None:
        """Record that a launch succeeded."""
        self._refusals = 0
        if self.fault:
            self._tell("")

    async def _watch(self) -> None:
        pause_s = min(PAUSE_S_MIN * 2 ** (self._refusals - 1), PAUSE_S_MAX)
        while self.fault:
            await self._pause(pause_s)  # No system call waits for space on a file system.
            found = await self._probe()
            if self.fault and found != self.fault:
                self._tell(found)
            pause_s = min(2 * pause_s, PROBE_S_MAX)

    def _tell(self, fault: str) -> None:
        self.fault = fault
        if fault:
            logs.warning("node_cannot_start_jobs", reason=fault)
        else:
            logs.info("node_can_start_jobs")
        self._on_change()
