"""Caps, lease and energy of the node.

Without a live lease every zone is at its floor: at the start, and within a second after a lease has
ended (a timer, repeated by every sample until the device has taken it). The limits found before the
first write of a boot are kept on disk and restored on an orderly stop; after a crash the ones kept
earlier are used, never those of a capped zone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from wattfold.contract.ids import Epoch, ZoneName
from wattfold.contract.units import NS_PER_S, w_from_uw
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.powercap import PowercapZone
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
from wattfold.nodeagent.core.energy import EnergyMeter, PowerHistory
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.lease import Lease

SAMPLE_NS = 100_000_000
_DRIFT_SAMPLES = 5
"""Caps are compared with what was set every 0.5 s."""
_HELD_NS_MIN = NS_PER_S
"""Shorter windows have too few samples to tell power from noise."""
_AGENT_RECORD = "agent.json"
_ORIGINALS = "originals.json"


@dataclass(slots=True, kw_only=True)
class ZoneState:
    """One zone at run time. ``cap_uw`` was read back last; ``wanted_uw`` is what was set.

    ``over_uw`` is the mean power of a zone that draws more than its cap, 0 otherwise. ``refusal``
    says why the last write failed.
    """

    zone: PowercapZone
    meter: EnergyMeter
    history: PowerHistory = field(default_factory=PowerHistory)
    wanted_uw: int | None = None
    owes_floor: bool = False
    """The floor could not be written when it was due: it is, until another cap is set."""
    cap_uw: int = 0
    valid: bool = True
    failing: bool = False
    readable: bool = True
    set_ns: int = 0
    over_uw: int = 0
    refusal: str = ""


class LeaseGuard(Protocol):
    """Ends the lease if this agent is killed. Outside this process."""

    def hold_until(self, deadline_ns: int) -> None:
        """The lease ends then, monotonic clock. Raises WrongState if nobody would end it."""
        ...

    def lapsed(self) -> None:
        """The lease has ended and the agent has seen to it."""
        ...


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """It will not be called."""
        ...


class Clock(Protocol):
    """Monotonic time and calls at a later one."""

    def now_ns(self) -> int:
        """Nanoseconds since some moment in the past."""
        ...

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Calls back once, not before that time."""
        ...


class LoopClock:
    """The monotonic clock, and timers of the running event loop."""

    def now_ns(self) -> int:
        """Nanoseconds of the monotonic clock."""
        return time.monotonic_ns()

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Timer:
        """Calls back once, in the event loop."""
        return asyncio.get_running_loop().call_later(delay_ns / NS_PER_S, what)


class Records(Protocol):
    """Records that survive the agent."""

    def read(self, name: str) -> dict[str, Any] | None:
        """A record, None if there is none or it is damaged."""
        ...

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Replaces a record, whole or not at all. Raises Refused."""
        ...

    def remove(self, name: str) -> None:
        """Removes a record if there is one."""
        ...


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
        self.zones = {z.name: ZoneState(zone=z, meter=_meter(z)) for z in zones}
        self.lease = _obeyed(store)
        self.at_floor = False
        self.drift_count = 0
        self.not_held_count = 0
        self._store = store
        self._boot_id = boot_id
        self._on_change = on_change
        self._guard = guard
        self._clock = clock or LoopClock()
        self._timer: Timer | None = None
        self._samples = 0
        self._stopped = False
        self._left: dict[str, dict[str, int]] = {}

    def start(self) -> None:
        """Saves the original limits once a boot and goes to the floor."""
        self._save_originals()
        self._to_floor()
        for state in self.zones.values():
            if state.failing:
                # A limit that is locked from the start (BIOS, driver) is a property of the zone.
                state.zone.cannot_cap = (
                    f"the limit of {state.zone.path.name} cannot be set: {state.refusal}"
                )
        self._to_floor()
        self.sample()

    def stop(self) -> None:
        """Restores the original limits, each on its own. The guard is still there."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._left = self._restore_originals()

    def forget(self) -> None:
        """Forgets the original limits that were restored, after the guard has gone.

        Not before: a guard whose agent was killed while it stopped goes to the floor again, and the
        next agent must not take that for what was there first. What could not be restored is kept
        for it as well. Raises Refused.
        """
        if self._left:
            record = {"boot_id": self._boot_id, "zones": self._left}
            self._store.write(_ORIGINALS, record)
        else:
            self._store.remove(_ORIGINALS)

    def admit(self, epoch: int, coordinator_id: str) -> None:
        """Checks and remembers whose command it is. Raises Refused; then nothing is changed."""
        lease = self.lease.admit(epoch, coordinator_id)
        if lease is not self.lease:
            # On disk first: an older coordinator must stay shut out after a restart.
            record = {"epoch": lease.epoch, "coordinator_id": lease.coordinator_id}
            self._store.write(_AGENT_RECORD, record)
            logs.info("epoch_changed", old=self.lease.epoch, new=lease.epoch)
            self.lease = lease

    def renew(self, duration_ns: int) -> None:
        """Lets caps above the floor hold for this time from now.

        Raises InvalidRequest, and WrongState without a guard; then nothing is changed.
        """
        now_ns = self._clock.now_ns()
        lease = self.lease.renewed(duration_ns, now_ns)
        self._guard.hold_until(now_ns + duration_ns)
        self.lease = lease
        self.at_floor = False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_in(duration_ns, self._expired)

    def remaining_ns(self) -> int:
        """Time left of the lease, 0 without one."""
        return self.lease.remaining_ns(self._clock.now_ns())

    def set_caps(self, requests: list[CapRequest]) -> list[CapOutcome]:
        """Sets caps, lower ones first, and reads them back; outcomes in the order asked."""
        enforced = {name: state.cap_uw for name, state in self.zones.items()}
        live = self.lease.live(self._clock.now_ns())
        done = {
            id(request): self._set_cap(request, lease_live=live)
            for request in lowering_first(requests, enforced)
        }
        return [done[id(request)] for request in requests]

    def sample(self) -> None:
        """Reads all energy counters; from time to time compares the caps with what was set."""
        for state in self.zones.values():
            if not state.zone.cannot_measure:
                self._sample_zone(state)
        self._samples += 1
        lapsed = not self.lease.live(self._clock.now_ns())
        if lapsed and not self.at_floor:
            self._to_floor()
        if self._samples % _DRIFT_SAMPLES == 0:
            self._check_drift()
            for state in self.zones.values():
                self._check_held(state)

    def floor_writes(self) -> list[tuple[Path, str]]:
        """What brings all zones to their floor: paths and values."""
        return [write for state in self.zones.values() for write in state.zone.floor_writes()]

    def floor_uw(self, kind: ZoneKind) -> int:
        """Sum of the floors of all zones of a kind that can be capped."""
        return sum(
            s.zone.limits.floor_uw
            for s in self.zones.values()
            if s.zone.kind is kind and s.zone.limits is not None and not s.zone.cannot_cap
        )

    def package_energy_uj(self) -> int:
        """Energy of all packages since the start of the agent."""
        return sum(s.meter.total_uj for s in self.zones.values() if s.zone.kind is ZoneKind.PACKAGE)

    def packages(self) -> int:
        """The number of packages whose energy is measured."""
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
                request, 0, CapStatus.UNKNOWN_ZONE, f"no zone {request.name}; known are {known}"
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
                logs.warning("cap_not_set", zone=request.name, cap_uw=cap_uw, why=error)
            state.failing, state.refusal = True, str(error)
            self._read_back(state)
            return _outcome(
                request, state.cap_uw, CapStatus.DEVICE_ERROR, f"{request.name}: {error}"
            )
        state.failing = state.owes_floor = False
        if state.wanted_uw != cap_uw:
            state.wanted_uw, state.set_ns = cap_uw, self._clock.now_ns()
        if state.cap_uw > cap_uw:
            message = (
                f"{request.name}: the device holds {state.cap_uw} uW, above the {cap_uw} uW set"
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

    def _read_back(self, state: ZoneState) -> None:
        try:
            state.cap_uw = state.zone.read_cap_uw()
        except (OSError, ValueError):
            # The last value known stands.
            return

    def _to_floor(self) -> None:
        reached = True
        for state in self.zones.values():
            limits = state.zone.limits
            if state.zone.cannot_cap or limits is None:
                self._show_uncapped(state)
                continue
            outcome = self._write(state, CapRequest(name=state.zone.name, cap_uw=limits.floor_uw))
            if state.failing:
                # A lease that comes before the zone is back grants no more than this.
                state.wanted_uw, state.owes_floor = quantised(limits.floor_uw), True
            reached = reached and outcome.status is CapStatus.OK
        if reached and not self.at_floor:
            self.at_floor = True
            logs.info("at_floor", zones=len(self.zones), epoch=self.lease.epoch)
            self._on_change()

    def _show_uncapped(self, state: ZoneState) -> None:
        try:
            state.cap_uw = state.zone.read_cap_uw()
        except (OSError, ValueError):
            state.cap_uw = 0

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
            raw_uj, age_ns = state.zone.read_energy()
            state.meter = state.meter.after(raw_uj)
            state.history.add(self._clock.now_ns() - age_ns, state.meter.total_uj)
            state.valid = True
        except (OSError, ValueError) as error:
            if state.valid:
                logs.warning("energy_unreadable", zone=state.zone.name, why=error)
            state.valid = False

    def _check_drift(self) -> None:
        for state in self.zones.values():
            if state.wanted_uw is None or state.zone.cannot_cap:
                continue
            try:
                found_uw = state.zone.read_cap_uw()
                enabled = state.zone.enabled()
            except (OSError, ValueError) as error:
                if state.readable:
                    logs.warning("cap_unreadable", zone=state.zone.name, why=error)
                state.readable = False
                continue
            state.readable = True
            if found_uw == state.cap_uw and enabled and not state.owes_floor:
                continue
            self._reassert(state, found_uw, enabled=enabled)

    def _check_held(self, state: ZoneState) -> None:
        """Compares the power with the cap, once the cap has had a window to settle, and another.

        Firmware may take a limit and hold another one, or none at all.
        """
        window_ns = max(state.zone.window_ns, _HELD_NS_MIN)
        settled = self._clock.now_ns() - state.set_ns >= 2 * window_ns
        if state.wanted_uw is None or not state.valid or not settled:
            return
        if state.zone.cannot_measure or state.zone.cannot_cap:
            return
        mean_uw = state.history.mean_uw(window_ns)
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

    def _reassert(self, state: ZoneState, found_uw: int, *, enabled: bool) -> None:
        assert state.wanted_uw is not None
        self.drift_count += 1
        logs.warning(
            "cap_drifted",
            zone=state.zone.name,
            set_uw=state.wanted_uw,
            found_uw=found_uw,
            enabled=enabled,
        )
        self._write(state, CapRequest(name=state.zone.name, cap_uw=state.wanted_uw))
        self._on_change()

    def _save_originals(self) -> None:
        """Keeps what was found before the first write of this boot, zone by zone, once."""
        record = self._store.read(_ORIGINALS) or {}
        kept: dict[str, dict[str, int]] = {}
        if record.get("boot_id") == self._boot_id:
            kept = record.get("zones", {})
        found = {
            state.zone.name: state.zone.snapshot()
            for state in self.zones.values()
            if state.zone.name not in kept and not state.zone.cannot_cap
        }
        originals = kept | {str(name): values for name, values in found.items()}
        if found or record.get("boot_id") != self._boot_id:
            self._store.write(_ORIGINALS, {"boot_id": self._boot_id, "zones": originals})
        for state in self.zones.values():
            if not state.zone.cannot_cap:
                state.zone.saved(originals[state.zone.name])

    def _restore_originals(self) -> dict[str, dict[str, int]]:
        """Writes what was saved; the zones of which something could not be restored."""
        zones: dict[str, dict[str, int]] = (self._store.read(_ORIGINALS) or {}).get("zones", {})
        left: dict[str, dict[str, int]] = {}
        for name, values in zones.items():
            state = self.zones.get(ZoneName(name))
            failed = state.zone.restore(values) if state else {name: "the zone is not there"}
            for why in failed.values():
                logs.warning("limit_not_restored", zone=name, why=why)
            if failed:
                # Whole, not only what failed: it says what the zone was before the first write.
                left[name] = values
        logs.info("limits_restored", zones=len(zones) - len(left), failed=len(left))
        return left


async def sample_for_ever(power: NodePower) -> None:
    """Samples at 10 Hz until cancelled."""
    while True:
        await asyncio.sleep(SAMPLE_NS / NS_PER_S)
        try:
            power.sample()
        except Refused as error:
            logs.warning("sample_failed", why=error)


def _meter(zone: PowercapZone) -> EnergyMeter:
    return EnergyMeter(range_uj=zone.range_uj)


def _obeyed(store: Records) -> Lease:
    """Whom an earlier agent obeyed last; its lease is over."""
    record = store.read(_AGENT_RECORD) or {}
    epoch, coordinator_id = record.get("epoch", 0), record.get("coordinator_id", "")
    return Lease(
        epoch=Epoch(epoch if isinstance(epoch, int) else 0),
        coordinator_id=coordinator_id if isinstance(coordinator_id, str) else "",
    )


def _over_text(state: ZoneState) -> str:
    if not state.over_uw:
        return ""
    return (
        f"{state.zone.name}: drew {w_from_uw(state.over_uw):.1f} W under the cap before:"
        " the device takes limits without holding them"
    )


def _outcome(request: CapRequest, enforced_uw: int, status: CapStatus, message: str) -> CapOutcome:
    return CapOutcome(
        name=request.name,
        requested_uw=request.cap_uw,
        enforced_uw=enforced_uw,
        status=status,
        message=message,
    )
