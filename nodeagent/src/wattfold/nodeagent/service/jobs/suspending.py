"""Suspension of jobs on request: frozen by their control group, or else stopped by signals.

A suspended job stays suspended: the throttle leaves it alone, and a new agent finds it in the
record of the job. With signals, a process that had stopped itself before is continued with the
others.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from wattfold.nodeagent.adapters.devices.emulated_zones import EmulatedFirmware
from wattfold.nodeagent.adapters.jobs.job_groups import JobGroups
from wattfold.nodeagent.adapters.state_store import device_refusal
from wattfold.nodeagent.service.jobs.records import Job

_PASSES_MAX = 64
"""Passes that search for processes created while others were stopped."""


class Suspending:
    """Suspends and resumes jobs. ``members`` returns the processes of a job."""

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
        """Suspend a job; a suspended job is stopped again. Raises Refused."""
        if self._firmware is not None:
            self._firmware.suspend(job.id, suspended=True)
        if not self._frozen(job, hold=True):
            self._stop_found(job)

    def go_on(self, job: Job) -> None:
        """Resume a job. Raises Refused."""
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
