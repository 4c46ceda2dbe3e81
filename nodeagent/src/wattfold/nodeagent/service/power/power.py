"""Caps, lease and energy of the node.

Without a live lease every zone is at its floor: at the start, after an orderly stop, and within a
second after the end of a lease. A timer sets the floor, and every sample retries until the device
accepts it. A node that has left holds its original limits (`originals`). It is not written until a
command of a coordinator readmits it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from wattfold.contract.ids import EPOCH_MAX, Epoch
from wattfold.contract.repeats import Repeats
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.powercap_interface import Look
from wattfold.nodeagent.core.caps import (
    CapOutcome,
    CapRequest,
    CapStatus,
    ZoneKind,
    judge,
    lowering_first,
    passed,
    quantised,
)
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.lease import Lease
from wattfold.nodeagent.service.power.originals import Originals, forget_quietly
from wattfold.nodeagent.service.power.power_ports import (
    Clock,
    LeaseGuard,
    LoopClock,
    Records,
    Timer,
)
from wattfold.nodeagent.service.power.zone_state import ZoneState, new_state

SAMPLE_NS = 100_000_000
CHECK_BEATS = 5
"""The settings are compared with the current values every 0.5 s, the time of so many samples."""
_HELD_NS_MIN = NS_PER_S
"""Shorter windows have too few samples to distinguish power from noise."""
_AGENT_RECORD = "agent.json"


class NodePower:
    """All zones of a node under one lease. Used from the event loop only."""

    def __init__(
        self,
        zones: list[PowercapZone],
        store: Records,
        boot_id: str,
        on_change: Callable[[], None],
        guard: LeaseGuard,
        clock: Clock | None = None,
    ) -> None:
        self.zones = {z.name: new_state(z) for z in zones}
        self.originals = Originals(store, boot_id)
        self.lease = _obeyed(store)
        self.at_floor = False
        self.drift_count = 0
        self.not_held_count = 0
        self._store = store
        self._on_change = on_change
        self._guard = guard
        self._clock = clock or LoopClock()
        self._timer: Timer | None = None
        self._beats = 0
        self._entered = False
        self._renewing = asyncio.Lock()
        self._repeats = Repeats()

    @property
    def left(self) -> bool:
        """Whether the node has left: nothing is enforced and no limit is written."""
        return self.originals.left

    def start(self) -> None:
        """Save the original limits once per boot and set the floors, unless the node has left."""
        if self.left:
            self._read_all()
        else:
            self._enter()
        self.sample()

    def stop(self) -> bool:
        """End the lease and set the floors. Returns whether every zone holds its floor.

        The original limits stay on disk, because the ledger counts the node at its floor.
        """
        self._end_lease()
        self._guard.lapsed()
        return self.left or self._to_floor()

    def leave(self) -> dict[str, str]:
        """Restore the original limits and stop writing to the zones. Returns the failures by zone.

        Failed limits are kept for the next time. Raises Refused without a change.
        """
        self.originals.leave()
        self._end_lease()
        self._guard.lapsed()
        # From here on a guard must not set the floors.
        self._guard.refresh()
        failed = self.restore()
        forget_quietly(self.originals)
        logs.info("node_left", failed=len(failed), epoch=self.lease.epoch)
        self._on_change()
        return failed

    def restore(self) -> dict[str, str]:
        """Restore the original limits, independent of the budget. Returns the failures by zone."""
        failed = self.originals.restore(self.zones)
        self.at_floor = False
        for state in self.zones.values():
            state.wanted_uw, state.owes_floor, state.failing = None, False, False
            state.over_uw, state.owed = 0, {}
        self._read_all()
        return failed

    def admit(self, epoch: int, coordinator_id: str, journal_number: int = 0) -> None:
        """Check and store the sender of a command. Raises Refused without a change."""
        lease = self.lease.admit(epoch, coordinator_id, journal_number)
        if lease.obeyed != self.lease.obeyed:
            # On disk first: an older coordinator must stay excluded after a restart.
            record = {"epoch": lease.epoch, "coordinator_id": lease.coordinator_id}
            self._store.write(_AGENT_RECORD, record)
            logs.info("epoch_changed", old=self.lease.epoch, new=lease.epoch)
        self.lease = lease

    async def renew(self, duration_ns: int) -> None:
        """Extend the lease by this time from now. Readmits a node that has left.

        Raises InvalidRequest, and WrongState without a guard or if a zone of a node that has left
        is unreadable. There is no new lease in these cases.
        """
        async with self._renewing:
            now_ns = self._clock.now_ns()
            self.lease.renewed(duration_ns, now_ns)
            self._take_in()
            await self._guard.hold_until(now_ns + duration_ns)
            # Derived now: another coordinator may have been admitted meanwhile.
            self.lease = self.lease.renewed(duration_ns, now_ns)
            self.at_floor = False
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._clock.call_in(self.remaining_ns(), self._expired)

    def remaining_ns(self) -> int:
        """Return the remaining time of the lease, 0 without a lease."""
        return self.lease.remaining_ns(self._clock.now_ns())

    def set_caps(self, requests: list[CapRequest]) -> list[CapOutcome]:
        """Set caps, lower ones first, and read them back. Returns the outcomes in request order.

        A node that has left is readmitted first. Raises Refused if that fails.
        """
        self._take_in()
        enforced = {name: state.cap_uw for name, state in self.zones.items()}
        live = self.lease.live(self._clock.now_ns())
        done = {
            id(request): self._set_cap(request, lease_live=live)
            for request in lowering_first(requests, enforced)
        }
        return [done[id(request)] for request in requests]

    def sample(self, beats: int = 1) -> None:
        """Read all energy counters. Compares caps with the settings every `CHECK_BEATS` beats."""
        for state in self.zones.values():
            if not state.zone.cannot_measure:
                self._sample_zone(state)
        due, self._beats = divmod(self._beats + beats, CHECK_BEATS)
        if self.left:
            if due:
                self._read_all()
            return
        lapsed = not self.lease.live(self._clock.now_ns())
        if lapsed and not self.at_floor:
            self._to_floor()
        if due:
            self._check_drift()
            for state in self.zones.values():
                self._check_held(state)

    def floor_writes(self) -> list[tuple[Path, str]]:
        """Return the writes that set all floors: paths and values; empty for a departed node."""
        if self.left:
            return []
        return [write for state in self.zones.values() for write in state.zone.floor_writes()]

    def floor_uw(self, kind: ZoneKind) -> int:
        """Return the sum of the floors of all cappable zones of a kind."""
        return sum(s.floor_uw for s in self.zones.values() if s.zone.kind is kind)

    def count(self, kind: ZoneKind) -> int:
        """Return the number of zones of a kind."""
        return sum(state.zone.kind is kind for state in self.zones.values())

    def package_energy_uj(self) -> int:
        """Return the energy of all packages since the start of the agent."""
        return sum(s.meter.total_uj for s in self.zones.values() if s.zone.kind is ZoneKind.PACKAGE)

    def packages(self) -> int:
        """Return the number of packages with measured energy."""
        return sum(
            1
            for s in self.zones.values()
            if s.zone.kind is ZoneKind.PACKAGE and not s.zone.cannot_measure
        )

    def _set_cap(self, request: CapRequest, *, lease_live: bool) -> CapOutcome:
        state = self.zones.get(request.name)
        if state is None:
            known = ", ".join(self.zones) or "none"
            return _outcome(
                request, 0, CapStatus.UNKNOWN_ZONE, f"no zone {request.name}; this node has {known}"
            )
        limits = state.zone.limits
        if state.zone.cannot_cap or limits is None:
            return _outcome(request, state.cap_uw, CapStatus.DEVICE_ERROR, state.zone.cannot_cap)
        status, message = judge(request, limits, lease_live=lease_live)
        if status is not CapStatus.OK:
            return _outcome(request, state.cap_uw, status, message)
        return self._write(state, request)

    def _write(self, state: ZoneState, request: CapRequest) -> CapOutcome:
        cap_uw = quantised(request.cap_uw)
        try:
            state.cap_uw = state.zone.write_cap_uw(cap_uw)
        except (OSError, ValueError) as error:
            if not state.failing:
                logs.warning("cap_not_set", zone=request.name, cap_uw=cap_uw, reason=error)
            state.failing, state.refusal = True, str(error)
            if state.wanted_uw is not None:
                # Retried: a higher cap that was answered as refused must never be set.
                state.wanted_uw = min(state.wanted_uw, cap_uw)
            state.read_back()
            self._tell_owed(state)
            return _outcome(
                request, state.cap_uw, CapStatus.DEVICE_ERROR, f"{request.name}: {error}"
            )
        state.failing = state.owes_floor = False
        self._tell_owed(state)
        if state.wanted_uw != cap_uw:
            state.wanted_uw, state.set_ns = cap_uw, self._clock.now_ns()
        if state.cap_uw > cap_uw:
            message = (
                f"{request.name}: the device holds {w_from_uw(state.cap_uw):g} W, above the "
                f"{w_from_uw(cap_uw):g} W set"
            )
            return _outcome(request, state.cap_uw, CapStatus.DEVICE_ERROR, message)
        return CapOutcome(
            name=request.name,
            requested_uw=request.cap_uw,
            enforced_uw=state.cap_uw,
            status=CapStatus.OK,
            message=_over_text(state),
            settles_in_ns=state.zone.window_ns,
            not_held_uw=state.over_uw,
        )

    def _enter(self) -> None:
        """Save the original limits and set the floors. Raises Refused without a change."""
        self.originals.save(self.zones.values())
        for state in self.zones.values():
            if not state.zone.cannot_cap:
                state.zone.saved(self.originals.of(state))
        self._guard.refresh()
        self._to_floor()
        if self._entered:
            return
        self._entered = True
        for state in self.zones.values():
            if state.failing:
                # A limit that is locked from the start (BIOS, driver) is a property of the zone.
                state.zone.cannot_cap = (
                    f"the limit of {state.zone.folder} cannot be set: {state.refusal}"
                )
        self._to_floor()

    def _take_in(self) -> None:
        if self.left:
            self._enter()
            logs.info("node_readmitted", epoch=self.lease.epoch)
            self._on_change()

    def _end_lease(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.lease = self.lease.ended()

    def _read_all(self) -> None:
        for state in self.zones.values():
            state.read_back()

    def _to_floor(self) -> bool:
        reached = True
        for state in self.zones.values():
            limits = state.zone.limits
            if state.zone.cannot_cap or limits is None:
                state.cap_uw = 0
                state.read_back()
                continue
            outcome = self._write(state, CapRequest(name=state.zone.name, cap_uw=limits.floor_uw))
            if state.failing:
                # A lease that begins before the zone is back grants no more than this.
                state.wanted_uw, state.owes_floor = quantised(limits.floor_uw), True
            reached = reached and outcome.status is CapStatus.OK
        if reached and not self.at_floor:
            self.at_floor = True
            logs.info("at_floor", zones=len(self.zones), epoch=self.lease.epoch)
            self._on_change()
        return reached

    def _expired(self) -> None:
        self._timer = None
        if self.lease.live(self._clock.now_ns()):
            self._timer = self._clock.call_in(self.remaining_ns(), self._expired)
            return
        logs.warning("lease_ended", epoch=self.lease.epoch)
        self.lease = self.lease.ended()
        self._to_floor()
        self._guard.lapsed()

    def _sample_zone(self, state: ZoneState) -> None:
        try:
            begun_ns = self._clock.now_ns()
            raw_uj, age_ns = state.zone.read_energy()
            now_ns = self._clock.now_ns()
            before_uj = state.meter.last_raw_uj
            meter = state.meter.after(raw_uj, now_ns - age_ns, now_ns - begun_ns)
            state.meter, state.valid = meter, not meter.reset
            state.history.add(now_ns - age_ns, meter.total_uj, now_ns - begun_ns)
            if meter.reset:
                self._warn(
                    "energy_counter_reset",
                    state,
                    before_uj=before_uj,
                    found_uj=raw_uj,
                    means="the step is not counted",
                )
        except (OSError, ValueError) as error:
            if state.valid:
                logs.warning("energy_unreadable", zone=state.zone.name, reason=error)
            state.valid = False

    def _check_drift(self) -> None:
        for state in self.zones.values():
            if state.wanted_uw is None or not state.cappable:
                continue
            if state.zone.incomplete:
                self._complete(state)
            look = state.zone.look()
            if look.unreadable and state.readable:
                logs.warning("cap_unreadable", zone=state.zone.name, reason=look.unreadable)
            state.readable = not look.unreadable
            if look.changes:
                self._reassert(state, look)
            elif state.failing or state.owes_floor or state.owed:
                self._retry(state)
            elif look.cap_uw not in (None, state.cap_uw):
                state.read_back()
                self._on_change()

    def _complete(self, state: ZoneState) -> None:
        """Save settings that were unreadable at the start, and write them from then on."""
        try:
            self.originals.save([state])
        except Refused as error:
            self._warn("originals_not_saved", state, reason=error)
            return
        state.zone.saved(self.originals.of(state))
        if not state.zone.incomplete:
            self._retry(state)

    def _retry(self, state: ZoneState) -> None:
        """Repeat refused settings, at the last cap and no higher cap."""
        assert state.wanted_uw is not None
        before_uw = state.cap_uw
        if state.owed and not state.failing and not state.owes_floor:
            state.zone.retry_owed(state.wanted_uw)
            state.read_back()
            self._tell_owed(state)
        else:
            self._write(state, CapRequest(name=state.zone.name, cap_uw=state.wanted_uw))
        if state.cap_uw != before_uw:
            self._on_change()

    def _tell_owed(self, state: ZoneState) -> None:
        owed = state.zone.owed()
        if owed.keys() - state.owed.keys():
            why = "; ".join(f"{setting}: {why}" for setting, why in owed.items())
            logs.warning("setting_refused", zone=state.zone.name, reason=why)
        state.owed = owed

    def _check_held(self, state: ZoneState) -> None:
        """Compare the power with the cap, after a window to settle and another window.

        Firmware may accept a limit and enforce another, or none at all.
        """
        window_ns = max(state.zone.window_ns, _HELD_NS_MIN)
        if state.wanted_uw is None or not state.valid:
            return
        if state.zone.cannot_measure or state.zone.cannot_cap:
            return
        mean_uw = state.history.certain_uw(window_ns, since_ns=state.set_ns + window_ns)
        if mean_uw is None:
            return
        already = bool(state.over_uw)
        over_uw = mean_uw if passed(mean_uw, state.cap_uw, already=already) else 0
        if bool(over_uw) is already:
            state.over_uw = over_uw
            return
        state.over_uw = over_uw
        if over_uw:
            self.not_held_count += 1
            logs.warning(
                "cap_not_held", zone=state.zone.name, cap_uw=state.cap_uw, power_uw=over_uw
            )
        else:
            logs.info("cap_held_again", zone=state.zone.name, power_uw=mean_uw)
        self._on_change()

    def _reassert(self, state: ZoneState, look: Look) -> None:
        assert state.wanted_uw is not None
        self.drift_count += 1
        self._warn(
            "cap_drifted",
            state,
            of=",".join(change.key for change in look.changes),
            set_uw=state.wanted_uw,
            found_uw=look.cap_uw,
            settings=", ".join(f"{c.key}={c.found} (was {c.held})" for c in look.changes),
        )
        self._write(state, CapRequest(name=state.zone.name, cap_uw=state.wanted_uw))
        self._on_change()

    def _warn(self, event: str, state: ZoneState, of: str = "", **values: object) -> None:
        """Log a repeated event of a zone at most once a minute, with the count."""
        name = state.zone.name
        if count := self._repeats.one_more(f"{event} {name} {of}", self._clock.now_ns() / NS_PER_S):
            logs.warning(event, zone=name, **values, times=count)


def _obeyed(store: Records) -> Lease:
    """Whom an earlier agent obeyed last; its lease is over."""
    record = store.read(_AGENT_RECORD) or {}
    epoch, coordinator_id = record.get("epoch", 0), record.get("coordinator_id", "")
    if isinstance(epoch, int) and 0 <= epoch <= EPOCH_MAX and isinstance(coordinator_id, str):
        return Lease(epoch=Epoch(epoch), coordinator_id=coordinator_id)
    logs.warning("epoch_unreadable", record=_AGENT_RECORD, means="any coordinator is obeyed")
    return Lease()


def _over_text(state: ZoneState) -> str:
    if not state.over_uw:
        return ""
    return (
        f"{state.zone.name}: drew {w_from_uw(state.over_uw):.1f} W under the previous"
        " cap: the device accepts limits without enforcing them"
    )


def _outcome(request: CapRequest, enforced_uw: int, status: CapStatus, message: str) -> CapOutcome:
    return CapOutcome(
        name=request.name,
        requested_uw=request.cap_uw,
        enforced_uw=enforced_uw,
        status=status,
        message=message,
    )
