"""Admission of jobs by watts: the licences that the resource manager may give away together.

A job takes licences for the minimum power at which it is worth running, not for its cap. The
licence keeps jobs waiting that could only run at the floor. Caps under leases keep the budget, with
or without the licence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from wattfold.contract.log_text import line
from wattfold.contract.units import UW_PER_W
from wattfold.coordinator.adapters.resource_manager.port import ManagerError, ResourceManager
from wattfold.coordinator.core.state.state import State

log = logging.getLogger("wattfold.slurm")

ASSERT_EVERY_S = 30.0
"""Maximum time after which an offer is repeated: the manager may have lost it unnoticed."""


def offered_w(state: State) -> int:
    """Return the power above the floors of all nodes in whole watts, for all jobs together."""
    reserved_uw = state.floor_uw() + state.ledger.outside_uw
    return max(state.ledger.limit_uw - reserved_uw, 0) // UW_PER_W


class Admission:
    """Offers watts to the resource manager after each contact, if they changed or it is time."""

    def __init__(
        self,
        manager: ResourceManager,
        state: Callable[[], State],
        seconds: Callable[[], float],
    ) -> None:
        self._manager = manager
        self._state = state
        self._seconds = seconds
        self._offered = -1
        self._at_s = 0.0
        self._fault = ""

    async def assert_offer(self, *, again: bool) -> None:
        """Offer the watts. ``again``: also if they are the same, because of a gap in contact."""
        watts, now_s = offered_w(self._state()), self._seconds()
        late = now_s - self._at_s >= ASSERT_EVERY_S
        if watts == self._offered and not again and not late:
            return
        try:
            await self._manager.offer(watts)
        except ManagerError as error:
            if str(error) != self._fault:
                log.error(line("watts_not_offered", watts=watts, reason=error))
            self._fault = str(error)
            return
        if watts != self._offered:
            log.info(line("watts_offered", watts=watts))
        self._offered, self._at_s, self._fault = watts, now_s, ""
