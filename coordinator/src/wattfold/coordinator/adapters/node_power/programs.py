"""The programs of the site that switch nodes: each order is one call, and its result an event.

A program is called as ``PROGRAM [WORDS] SECONDS NODE``, in a process group of its own. SECONDS is
the time after which the group is killed and the order has failed. Exit status 0 means success. The
status program prints ``on`` or ``off``. The coordinator repeats orders after its restart, so each
program must do nothing if the node is already as wanted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.node_power.settings import PowerSettings
from wattfold.coordinator.adapters.site_programs import SiteProgramError, run_program
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports

log = logging.getLogger("wattfold.power")

PROGRAMS_AT_ONCE = 64
STATUS_S = 30.0
"""Time limit of one call of the status program."""
STATUS_EVERY_S = 2.0


class PowerPrograms:
    """Performs `SwitchPower` with the programs of the site."""

    def __init__(self, settings: PowerSettings, post: Callable[[ev.Event], None]) -> None:
        self._settings = settings
        self._post = post
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(PROGRAMS_AT_ONCE)

    def perform(self, action: act.Action) -> None:
        """Start the program of an order."""
        assert isinstance(action, act.SwitchPower)
        task = asyncio.create_task(self._perform(action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Kill the running programs. The next start orders again."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _perform(self, action: act.SwitchPower) -> None:
        error = ""
        try:
            async with self._turns, asyncio.timeout(action.within_ns / 1e9):
                await self._switch(action)
        except TimeoutError:
            error = f"{_word(action)}: not done within {action.within_ns / 1e9:g} s"
        except SiteProgramError as failed:
            error = f"{_word(action)}: {failed}"
        log.info(line("node_switched", node=action.node_id, on=action.on, error=error or "none"))
        self._post(
            reports.PowerAnswered(node_id=action.node_id, request_id=action.request_id, error=error)
        )

    async def _switch(self, action: act.SwitchPower) -> None:
        settings = self._settings
        program = settings.resume if action.on else settings.suspend
        if not program:
            raise SiteProgramError("no program is configured: set power.suspend and power.resume")
        await self._run(program, action.within_ns / 1e9, action.node_id)
        while not action.on and settings.status and not await self._is_off(action.node_id):
            await asyncio.sleep(STATUS_EVERY_S)

    async def _run(self, program: Sequence[str], within_s: float, node_id: NodeId) -> str:
        return await run_program([*program, f"{within_s:g}", node_id], self._settings.account)

    async def _is_off(self, node_id: NodeId) -> bool:
        try:
            async with asyncio.timeout(STATUS_S):
                told = await self._run(self._settings.status, STATUS_S, node_id)
        except TimeoutError:
            raise SiteProgramError(f"the status program took longer than {STATUS_S:g} s") from None
        word = told.strip().lower()
        if word not in ("on", "off"):
            raise SiteProgramError(f"the status program printed {word[:80]!r}, not on or off")
        return word == "off"


def _word(action: act.SwitchPower) -> str:
    return "resume" if action.on else "suspend"
