"""Emergencies: begun by an operator, or by a file that the monitoring of a site writes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.log_text import line
from wattfold.contract.repeats import Repeats
from wattfold.contract.units import uw_from_w, w_from_uw
from wattfold.coordinator.adapters.journal.journal import JournalError
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model.emergency import (
    EmergencyBegun,
    EmergencyEnded,
    EmergencyOrder,
)
from wattfold.coordinator.core.rules.power import budget_events, emergency
from wattfold.v1 import coordinator_pb2 as pb

log = logging.getLogger("wattfold.coordinator")

LOOK_S = 0.2
"""Interval at which the file is read."""
FILE_BYTES_MAX = 100


class Emergencies:
    """Begins and ends emergencies. They are in force even if they cannot be stored."""

    def __init__(
        self,
        service: Service,
        order: EmergencyOrder,
        settle_ns: Callable[[], int],
        command_timeout_ns: int,
        grace_ns: int,
    ) -> None:
        """Times are in nanoseconds. ``settle_ns``: to lower every cap if all nodes answer.

        ``grace_ns``: for the snapshots of jobs that request no time.
        """
        self.service = service
        self._order = order
        self._settle_ns = settle_ns
        self._command_timeout_ns = command_timeout_ns
        self._grace_ns = grace_ns

    async def begin(self, limit_uw: int) -> bool:
        """Limit the power now. Return whether this is stored and survives a restart."""
        event = EmergencyBegun(limit_uw=limit_uw, order=self._order)
        try:
            await self.service.request(event)
        except JournalError as error:
            # Reports are kept when the journal cannot be written, and so is this.
            log.error(line("emergency_not_stored", limit_w=_watts(limit_uw), reason=error))
            self.service.post(event)
            return False
        return True

    async def end(self) -> None:
        """End the emergency. Raises JournalError; the emergency is then still in force."""
        await self.service.request(EmergencyEnded())

    def forecast(self, limit_uw: int) -> pb.BeginEmergencyResponse:
        """Return the steps of an emergency at this moment, with their times."""
        state = self.service.core.state
        found = emergency.forecast(state, limit_uw, self._order, self._grace_ns)
        settle_ns, command_ns = self._settle_ns(), self._command_timeout_ns
        least_ns = budget_events.least_ns(state, self.service.clock.now_ns(), settle_ns)
        steps = [
            pb.EmergencyStep(
                name="caps",
                within_ns=settle_ns,
                committed_uw=found.caps_uw,
                job_ids=found.slowed,
            )
        ]
        for name, jobs, within_ns in (
            ("suspend", found.suspended, command_ns),
            ("end", found.ended, command_ns + found.grace_ns),
        ):
            if jobs:
                step = pb.EmergencyStep(
                    name=name, within_ns=within_ns, committed_uw=found.caps_uw, job_ids=jobs
                )
                steps.append(step)
        if found.asleep:
            suspend_ns = state.settings.sleep.suspend_ns + found.grace_ns
            steps.append(
                pb.EmergencyStep(
                    name="sleep",
                    within_ns=suspend_ns,
                    committed_uw=found.asleep_uw,
                    node_ids=found.asleep,
                )
            )
        return pb.BeginEmergencyResponse(
            limit_uw=limit_uw,
            committed_uw=state.ledger.committed_uw,
            steps=steps,
            short_uw=max(found.asleep_uw - limit_uw, 0) if found.short_uw else 0,
            protected_job_ids=found.protected,
            silent_ns=least_ns if least_ns > settle_ns else 0,
        )

    def limit_of_share(self, share: float) -> int:
        """Return a share of the budget in force, in microwatts."""
        return int(share * self.service.core.state.ledger.budget_uw)


class EmergencyFile:
    """Begins an emergency while a file contains a limit, such as `40kW` or `60%`."""

    def __init__(self, path: Path, emergencies: Emergencies) -> None:
        self._path = path
        self._emergencies = emergencies
        self._text = ""
        self._repeats = Repeats()

    async def follow_for_ever(self) -> None:
        """Read the file until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        try:
            text = self._read()
            if text == self._text:
                return
            if text:
                limit_uw = self._limit_uw(text)
                log.warning(line("emergency_file", file=self._path, limit_w=_watts(limit_uw)))
                await self._emergencies.begin(limit_uw)
            else:
                log.warning(line("emergency_file", file=self._path, limit_w="none"))
                await self._emergencies.end()
        except (OSError, ValueError, JournalError) as error:
            # The limit in force does not change. The file is read again.
            if count := self._repeats.one_more("file", time.monotonic()):
                log.error(line("emergency_file_failed", file=self._path, reason=error, times=count))
            return
        self._text = text

    def _read(self) -> str:
        try:
            with self._path.open(encoding="ascii") as file:
                return file.read(FILE_BYTES_MAX + 1).strip()
        except FileNotFoundError:
            return ""

    def _limit_uw(self, text: str) -> int:
        limit = parse_limit(text)
        return self._emergencies.limit_of_share(limit) if isinstance(limit, float) else limit


def parse_limit(text: str) -> int | float:
    """Parse `40kW`, `500` or `500W` in microwatts (int), or `60%` as a share (float).

    Raises ValueError.
    """
    word = text.strip()
    if len(word) <= FILE_BYTES_MAX and word.endswith("%"):
        share = float(word[:-1]) / 100
        if 0 < share <= 1:
            return share
    elif len(word) <= FILE_BYTES_MAX:
        scale = {"k": 1e3, "M": 1e6}.get(word.removesuffix("W")[-1:], 1.0)
        number = word.removesuffix("W").removesuffix("k").removesuffix("M")
        watts = float(number) * scale
        if 0 < watts <= 1e9:
            return uw_from_w(watts)
    raise ValueError(f"no limit: {text[:40]!r}; write for example 40kW, 500W or 60%")


def _watts(power_uw: int) -> str:
    return f"{w_from_uw(power_uw):.1f}"
