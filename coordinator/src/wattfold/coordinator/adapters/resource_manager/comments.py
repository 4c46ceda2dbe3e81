"""Caps and their reasons in the comments of jobs, at a bounded rate."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

from wattfold.contract.ids import JobId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.copies.manager_views import cap_reason
from wattfold.coordinator.adapters.resource_manager.port import ManagerError, ResourceManager
from wattfold.coordinator.core.model.job import PLACED_STATES
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.slurm")

COMMENTS_MAX = 500
"""Maximum number of comments in one round: about 0.8 s of slurmctld's time."""


class Commenter:
    """Sends the caps of running jobs to the resource manager, every ``every_s`` seconds.

    A comment is sent again only when it has changed.
    """

    def __init__(
        self, manager: ResourceManager, state: Callable[[], State], every_s: float
    ) -> None:
        self._manager = manager
        self._state = state
        self._every_s = every_s
        self._told: dict[JobId, str] = {}
        self._fault = ""

    async def run(self) -> None:
        """Comment until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.tell()

    async def tell(self) -> None:
        """Send the comments that have changed."""
        state = self._state()
        texts = {
            job.job_id: cap_reason(state, job)
            for job in state.placed()
            if job.spec.manager and job.state in PLACED_STATES
        }
        self._told = {job_id: text for job_id, text in self._told.items() if job_id in texts}
        changed = ((j, text) for j, text in texts.items() if self._told.get(j) != text)
        news = dict(itertools.islice(changed, COMMENTS_MAX))
        if not news or not state.manager.reachable:
            return
        try:
            await self._manager.tell(news)
        except ManagerError as error:
            if str(error) != self._fault:
                log.warning(line("comments_not_told", jobs=len(news), reason=error))
            self._fault = str(error)
            return
        self._told |= news
        self._fault = ""
