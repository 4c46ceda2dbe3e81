"""Sends mail about jobs whose users request it.

The first mail to an address leaves at once. Further notices to it within a minute are collected in
one mail, so that an array of a thousand tasks sends a few mails. The program of the site is called
as ``PROGRAM -s SUBJECT ADDRESS`` with the text as its standard input, as mail(1).

Notices are in memory only. A stop sends what is waiting. A killed coordinator loses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.contract.repeats import Repeats
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.mail.notices import (
    JobStage,
    Notice,
    events_between,
    mail_text,
    notice_of,
)
from wattfold.coordinator.adapters.mail.settings import MailSettings
from wattfold.coordinator.adapters.site_programs import SiteProgramError, run_program
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.coordinator")

GAP_S = 60.0
"""Minimum time between two mails to an address."""
PROGRAMS_AT_ONCE = 4
PROGRAM_S = 30.0
"""Time limit of the program."""
STOP_S = 5.0
"""Time for the mails that wait at a stop."""
PENDING_MAX = 1_000
"""Maximum number of waiting notices about the jobs of one account. Further ones are counted."""


@dataclass(slots=True)
class _Letter:
    """Notices to one address since its last mail."""

    notices: list[Notice] = field(default_factory=list)
    dropped: int = 0


class Mailer:
    """Follower of the service: `note` gets its changes. Create it in the running loop."""

    def __init__(
        self,
        settings: MailSettings,
        clock: Clock,
        state: Callable[[], State],
        gap_s: float = GAP_S,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._state = state
        self._gap_s = gap_s
        self._stages = {
            job_id: JobStage.of(job) for job_id, job in state().jobs.items() if job.spec.mail.events
        }
        self._letters: dict[str, _Letter] = {}
        """By address. An address without notices stays until its gap is over."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._pending: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(PROGRAMS_AT_ONCE)
        self._warnings = Repeats()

    def note(self, changes: Changes) -> None:
        """Send mail about the changed jobs."""
        jobs = self._state().jobs
        for job_id in list(jobs) if changes.everything else changes.jobs:
            job = jobs.get(job_id)
            if job is None:
                self._stages.pop(job_id, None)
            elif job.spec.mail.events:
                self._look(job_id, job)

    async def close(self) -> None:
        """Send the waiting mails, as far as they leave within `STOP_S`."""
        for address in list(self._timers):
            self._timers.pop(address).cancel()
            self._send(address)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self, job_id: JobId, job: Job) -> None:
        before = self._stages.get(job_id, JobStage(attempt=job.attempt, begun=False, final=False))
        for event in events_between(before, job):
            self._add(self._address(job), notice_of(job, event, self._clock))
        self._stages[job_id] = JobStage.of(job)

    def _address(self, job: Job) -> str:
        address = job.spec.mail.address or job.spec.user
        domain = self._settings.domain
        return f"{address}@{domain}" if domain and "@" not in address else address

    def _add(self, address: str, notice: Notice) -> None:
        letter = self._letters.get(address)
        first = letter is None
        letter = self._letters.setdefault(address, _Letter())
        if self._pending[notice.owner] >= PENDING_MAX:
            letter.dropped += 1
        else:
            self._pending[notice.owner] += 1
            letter.notices.append(notice)
        if first:
            # Other events of this moment belong in the same mail.
            self._send_in(0.0, address)

    def _send_in(self, delay_s: float, address: str) -> None:
        loop = asyncio.get_running_loop()
        self._timers[address] = loop.call_later(delay_s, self._due, address)

    def _due(self, address: str) -> None:
        del self._timers[address]
        if self._send(address):
            self._send_in(self._gap_s, address)
        else:
            del self._letters[address]

    def _send(self, address: str) -> bool:
        """Send what waits for an address. Return whether anything did."""
        letter = self._letters[address]
        if not (letter.notices or letter.dropped):
            return False
        self._letters[address] = _Letter()
        self._pending.subtract(notice.owner for notice in letter.notices)
        self._pending += Counter()  # Accounts without notices are dropped.
        task = asyncio.create_task(self._deliver(address, letter))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _deliver(self, address: str, letter: _Letter) -> None:
        subject, text = mail_text(letter.notices, letter.dropped)
        words = (*self._settings.program, "-s", subject, address)
        try:
            async with self._turns, asyncio.timeout(PROGRAM_S):
                await run_program(words, self._settings.account, text.encode())
        except TimeoutError:
            self._warn(f"not done within {PROGRAM_S:g} s")
        except SiteProgramError as error:
            self._warn(str(error))
        else:
            log.debug(line("mail_sent", address=address, events=len(letter.notices)))

    def _warn(self, reason: str) -> None:
        count = self._warnings.one_more("mail", asyncio.get_running_loop().time())
        if count:
            program = self._settings.program[0]
            log.warning(line("mail_not_sent", program=program, reason=reason, mails=count))
