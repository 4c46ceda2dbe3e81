"""Watches the resource manager: its facts become events of the core.

The first event after contact, and after each gap, names all open jobs. Later events name what has
changed since. The loop asks again after ``poll_s`` from the last answer, so a slow resource manager
is asked less often. An error is an event once, and asked again at the same pace.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.resource_manager.admission import Admission
from wattfold.coordinator.adapters.resource_manager.port import (
    ManagerError,
    ManagerFacts,
    ResourceManager,
)
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.resource_manager import (
    ManagedEnd,
    ManagedJob,
    ManagerLost,
    ManagerSeen,
)
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.slurm")


class ManagerWatch:
    """Asks a resource manager again and again. ``state`` returns the state of the core."""

    def __init__(
        self,
        manager: ResourceManager,
        state: Callable[[], State],
        post: Callable[[ev.Event], None],
        poll_s: float,
        admission: Admission | None = None,
    ) -> None:
        self._manager = manager
        self._state = state
        self._post = post
        self._poll_s = poll_s
        self._admission = admission
        self._known: dict[JobId, ManagedJob] | None = None
        """The open jobs of the last answer; None = there was a gap since."""
        self._nodes: tuple[object, ...] = ()
        self._fault = ""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._poll_s)

    async def look(self) -> None:
        """Ask once, and post what is new."""
        try:
            facts = await self._manager.read()
            again = self._known is None
            await self._tell(facts)
            if self._admission is not None:
                await self._admission.assert_offer(again=again)
        except (ManagerError, ValueError) as error:
            self._lose(str(error))

    def _lose(self, reason: str) -> None:
        self._known = None
        if reason != self._fault:
            self._fault = reason
            log.warning(line("manager_lost", manager=self._manager.name, reason=reason))
            self._post(ManagerLost(manager=self._manager.name, reason=reason))

    async def _tell(self, facts: ManagerFacts) -> None:
        jobs = {job.job_id: job for job in facts.jobs}
        complete = self._known is None
        before = self._known or {}
        # Jobs of the core that the answer lacks have ended, also during a gap.
        open_jobs = self._state().index.open.values()
        known = {job.job_id for job in open_jobs if job.spec.manager} | before.keys()
        gone = sorted(known - jobs.keys())
        ended: tuple[ManagedEnd, ...] = await self._manager.ends(gone) if gone else ()
        news = tuple(job for job in facts.jobs if complete or before.get(job.job_id) != job)
        if complete or news or ended or facts.nodes != self._nodes:
            self._post(
                ManagerSeen(
                    manager=self._manager.name,
                    complete=complete,
                    jobs=news,
                    ended=ended,
                    nodes=facts.nodes,
                )
            )
        if complete:
            log.info(line("manager_seen", manager=self._manager.name, jobs=len(jobs)))
        self._known, self._nodes, self._fault = jobs, facts.nodes, ""
