"""The programs of the site that switch nodes: each order is one call, and its result an event.

A program is called as ``PROGRAM [WORDS] SECONDS NODE``, in a process group of its own. SECONDS is
the time after which the group is killed and the order has failed. Exit status 0 means success. The
status program prints ``on`` or ``off``. The coordinator repeats orders after its restart, so each
program must do nothing if the node is already as wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pwd
import signal
from collections.abc import Callable, Sequence
from typing import Any

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.node_power.settings import PowerSettings
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports

log = logging.getLogger("wattfold.power")

PROGRAMS_AT_ONCE = 64
OUTPUT_MAX = 4096
STATUS_S = 30.0
"""Time limit of one call of the status program."""
STATUS_EVERY_S = 2.0


class PowerProgramError(Exception):
    """A program failed or was late, with the reason for people."""


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
        except PowerProgramError as failed:
            error = f"{_word(action)}: {failed}"
        log.info(line("node_switched", node=action.node_id, on=action.on, error=error or "none"))
        self._post(
            reports.PowerAnswered(node_id=action.node_id, request_id=action.request_id, error=error)
        )

    async def _switch(self, action: act.SwitchPower) -> None:
        settings = self._settings
        program = settings.resume if action.on else settings.suspend
        if not program:
            raise PowerProgramError("no program is configured: set power.suspend and power.resume")
        await self._run(program, action.within_ns / 1e9, action.node_id)
        while not action.on and settings.status and not await self._is_off(action.node_id):
            await asyncio.sleep(STATUS_EVERY_S)

    async def _is_off(self, node_id: NodeId) -> bool:
        try:
            async with asyncio.timeout(STATUS_S):
                told = await self._run(self._settings.status, STATUS_S, node_id)
        except TimeoutError:
            raise PowerProgramError(f"the status program took longer than {STATUS_S:g} s") from None
        word = told.strip().lower()
        if word not in ("on", "off"):
            raise PowerProgramError(f"the status program printed {word[:80]!r}, not on or off")
        return word == "off"

    async def _run(self, program: Sequence[str], within_s: float, node_id: NodeId) -> str:
        """Return the output of a program. Raises ProgramError."""
        try:
            process = await asyncio.create_subprocess_exec(
                *program,
                f"{within_s:g}",
                node_id,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C"},
                start_new_session=True,
                **_account(self._settings.account),
            )
        except OSError as error:
            raise PowerProgramError(f"cannot start {program[0]}: {error.strerror}") from error
        assert process.stdout is not None
        try:
            told = await _read(process.stdout)
            status = await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if status:
            last = told.strip().rpartition("\n")[2][:200]
            raise PowerProgramError(f"exit status {status}" + (f": {last}" if last else ""))
        return told


async def _read(stream: asyncio.StreamReader) -> str:
    """Return the last part of the output."""
    told = b""
    while part := await stream.read(OUTPUT_MAX):
        told = (told + part)[-OUTPUT_MAX:]
    return told.decode(errors="replace")


def _account(name: str) -> dict[str, Any]:
    if not name:
        return {}
    entry = pwd.getpwnam(name)
    groups = os.getgrouplist(name, entry.pw_gid)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}


def _word(action: act.SwitchPower) -> str:
    return "resume" if action.on else "suspend"
