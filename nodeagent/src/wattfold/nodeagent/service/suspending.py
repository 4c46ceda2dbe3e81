"""Jobs that stand still on request: frozen by their control group, else stopped by signals.

What is suspended stays so: the throttle keeps its hands off, and a new agent finds it in the record
of the job. By signals a process that had stopped itself before goes on with the others.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from wattfold.nodeagent.adapters.emulated_zones import EmulatedFirmware
from wattfold.nodeagent.adapters.job_groups import JobGroups
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.service.records import Job

_PASSES_MAX = 64
"""Rounds in which processes are looked for that were made while others were stopped."""


class Suspending:
    """``members``: the processes of a job."""

    def __init__(
        self,
        groups: JobGroups,
        firmware: EmulatedFirmware | None,
        members: Callable[[Job], list[int]],
    ) -> None:
        self._groups = groups
        self._firmware = firmware
        self._members = members

    def stop(self, job: Job) -> None:
        """Has a job stand still; one that does is stopped again. Raises Refused."""
        if self._firmware is not None:
            self._firmware.suspend(job.id, suspended=True)
        if not self._frozen(job, hold=True):
            self._stop_found(job)

    def go_on(self, job: Job) -> None:
        """Lets it go on. Raises Refused."""
        if not self._frozen(job, hold=False):
            _send(self._members(job), signal.SIGCONT)
        if self._firmware is not None:
            self._firmware.suspend(job.id, suspended=False)

    def _frozen(self, job: Job, *, hold: bool) -> bool:
        try:
            return self._groups.freeze(job.id, hold=hold)
        except OSError as error:
            raise device_refusal(error, f"job {job.id}: cannot freeze its control group") from None

    def _stop_found(self, job: Job) -> None:
        stopped: set[int] = set()
        for _ in range(_PASSES_MAX):
            fresh = set(self._members(job)) - stopped
            if not fresh:
                return
            _send(fresh, signal.SIGSTOP)
            stopped |= fresh


def _send(pids: set[int] | list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
