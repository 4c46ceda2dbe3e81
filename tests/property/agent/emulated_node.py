"""An emulated machine, the power service of its agent, and its guard, in virtual time.

A test can kill the agent at any step: before any use of a file, a record or the guard. The zone
tree, the records and the guard survive, as on a real node.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from waiting import at_once

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.caps import CapOutcome, CapRequest, CapStatus
from wattfold.nodeagent.core.errors import NoSpace, Refused, WrongState
from wattfold.nodeagent.emulation.machine import Machine
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.power.power import SAMPLE_NS, NodePower
from wattfold.nodeagent.service.power.zone_state import ZoneState

S = 1_000_000_000
ORIGINALS = "originals.json"


class Killed(BaseException):
    """kill -9 of the agent, which no handler of the agent catches."""


class Steps:
    """Counts external actions of the agent and kills it before a chosen action."""

    def __init__(self) -> None:
        self.left: int | None = None

    def step(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise Killed
        self.left -= 1


class SteppedFiles(MemoryFiles):
    """The files of the tree; each access is a step."""

    def __init__(self, model: TreeModel, steps: Steps) -> None:
        super().__init__(model)
        self._steps = steps

    def read(self, folder: str, file: str) -> str:
        self._steps.step()
        return super().read(folder, file)

    def write(self, folder: str, file: str, text: str) -> None:
        self._steps.step()
        super().write(folder, file, text)


class MemoryRecords:
    """Records as a disk keeps them: complete or absent, and serialized as JSON."""

    def __init__(self, steps: Steps) -> None:
        self.kept: dict[str, str] = {}
        self.full = False
        self._steps = steps

    def read(self, name: str) -> dict[str, Any] | None:
        self._steps.step()
        return json.loads(self.kept[name]) if name in self.kept else None

    def write(self, name: str, record: dict[str, Any]) -> None:
        self._steps.step()
        if self.full:
            raise NoSpace("cannot write the agent's state: no space")
        self.kept[name] = json.dumps(record)

    def remove(self, name: str) -> None:
        self._steps.step()
        self.kept.pop(name, None)


@dataclass(slots=True, eq=False)
class Call:
    due_ns: int
    what: Callable[[], None]
    clock: VirtualClock

    def cancel(self) -> None:
        if self in self.clock.calls:
            self.clock.calls.remove(self)


class VirtualClock:
    """The time of the model and its due callbacks."""

    def __init__(self, model: TreeModel) -> None:
        self.model = model
        self.calls: list[Call] = []

    def now_ns(self) -> int:
        return self.model.now_ns

    def call_in(self, delay_ns: int, what: Callable[[], None]) -> Call:
        call = Call(self.model.now_ns + delay_ns, what, self)
        self.calls.append(call)
        return call

    def advance(self, elapsed_ns: int) -> None:
        goal_ns = self.model.now_ns + elapsed_ns
        while due := [call for call in self.calls if call.due_ns <= goal_ns]:
            first = min(due, key=lambda call: call.due_ns)
            self.calls.remove(first)
            self.model.advance(first.due_ns - self.model.now_ns)
            first.what()
        self.model.advance(goal_ns - self.model.now_ns)


class Guard:
    """Writes the floors received from the agent when the lease of a killed agent ends."""

    def __init__(self, clock: VirtualClock, steps: Steps) -> None:
        self._clock = clock
        self._steps = steps
        self.alive = self.acted = False
        self.answers = True
        self.deadline_ns = 0
        self.writes: list[tuple[str, str, str]] = []
        self.power: NodePower | None = None

    async def hold_until(self, deadline_ns: int) -> None:
        self._steps.step()
        if not self.answers:
            raise WrongState("no guard")
        self.deadline_ns = deadline_ns

    def lapsed(self) -> None:
        self._steps.step()
        self.deadline_ns = 0

    def refresh(self) -> None:
        self._steps.step()
        if self.power is not None:
            self.told(self.power)

    def told(self, power: NodePower) -> None:
        self.power = power
        self.writes = [(path.parent.name, path.name, text) for path, text in power.floor_writes()]

    def goodbye(self) -> None:
        self.alive, self.power = False, None

    def agent_died(self) -> None:
        self.power = None
        if self.alive:
            self.alive = False
            self._clock.call_in(max(self.deadline_ns - self._clock.now_ns(), 0), self.act)

    def act(self) -> None:
        self.acted = True
        for folder, file, text in self.writes:
            try:
                if self._clock.model.read(folder, file) != text:
                    self._clock.model.write(folder, file, text)
            except OSError:
                continue


class EmulatedNode:
    """The machine, its persistent state, and at most one agent."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.boots = 0
        self.steps = Steps()
        self.records = MemoryRecords(self.steps)
        self.ranges = RangeSetting(
            package_uw_min=machine.package_uw_min, dram_uw_min=machine.dram_uw_min
        )
        self.power: NodePower | None = None
        self.granted: dict[str, int] = {}
        self.disturbed: set[str] = set()
        self.boot()

    # ---- the machine

    def boot(self) -> None:
        """Boot the machine: limits as set by the firmware, no process."""
        self.boots += 1
        self.power = None
        self.steps.left = None
        self.model = TreeModel(self.machine)
        self.clock = VirtualClock(self.model)
        self.guard = Guard(self.clock, self.steps)
        self.originals = self.settings()
        self.granted = {}
        self.folders: dict[str, str] = {}
        self.disturbed = set()

    def settings(self) -> dict[str, int]:
        """All limits and switches of the tree, as the registers hold them."""
        found: dict[str, int] = {}
        for folder, zone in self.model.zones.items():
            for index, limit in enumerate(zone.limits):
                if limit.spec.name not in ("long_term", "short_term"):
                    continue
                if limit.limit_uw is not None:
                    found[f"{folder}/constraint_{index}_power_limit_uw"] = limit.limit_uw
                if limit.window_us is not None:
                    found[f"{folder}/constraint_{index}_time_window_us"] = limit.window_us
            locked = any(m.locked for m in zone.limits if m.spec.name == "long_term")
            found[f"{folder}/enabled"] = int(zone.enabled and not locked)
        return found

    def saved(self) -> set[str]:
        """Names of the settings that the agent has saved in this boot."""
        record = json.loads(self.records.kept.get(ORIGINALS, "{}"))
        if record.get("boot_id") != f"boot-{self.boots}":
            return set()
        return {key for values in record["zones"].values() for key in values}

    def meddle(self, change: Callable[[], None], folder: str) -> None:
        """Change a zone as another program does. Unsaved settings then have new original values."""
        before = self.settings()
        change()
        saved = self.saved()
        for key, value in self.settings().items():
            if value != before[key] and key not in saved:
                self.originals[key] = value
        self.disturbed.add(folder)

    def calm(self) -> None:
        """End all failures and pass a second."""
        for folder, zone in self.model.zones.items():
            zone.faults.clear()
            if not zone.present:
                self.meddle(lambda f=folder: self.model.appear(f), folder)
        self.records.full = False
        self.guard.answers = True
        self.pass_time(10)
        if self.power is not None:
            self.disturbed.clear()

    # ---- the agent

    def start(self) -> None:
        """Start an agent, which may refuse. May raise Killed."""
        assert self.power is None
        # The next guard ends the guard of the last agent.
        self.clock.calls.clear()
        files = SteppedFiles(self.model, self.steps)
        power = NodePower(
            discover(files, self.ranges),
            self.records,
            f"boot-{self.boots}",
            lambda: None,
            self.guard,
            self.clock,
        )
        try:
            power.start()
        except Refused:
            return
        self.guard.alive = True
        self.guard.acted = False
        self.guard.deadline_ns = 0
        self.guard.told(power)
        self.power = power
        self.folders = {
            str(name): state.zone.path.name
            for name, state in power.zones.items()
            if not state.zone.cannot_cap
        }
        self._at_floor()

    def stop(self) -> bool:
        """Stop the agent in order. Return whether the floors are reached. May raise Killed."""
        assert self.power is not None
        reached = self.power.stop()
        self.steps.step()
        if reached:
            self._at_floor()
            self.guard.goodbye()
        else:
            # From the guard's view, an agent that exits here is dead.
            self.guard.agent_died()
        self.power = None
        self.clock.calls = [call for call in self.clock.calls if call.what == self.guard.act]
        return reached

    def leave(self) -> dict[str, str] | None:
        """Release the node. Return the failed restorations; None if the agent refuses."""
        assert self.power is not None
        before, self.granted = self.granted, {}
        try:
            return self.power.leave()
        except Refused:
            self.granted = before
            return None

    def restore(self) -> dict[str, str] | None:
        """Stop the agent and restore all limits.

        Return the failed restorations; None without space.
        """
        assert self.power is not None
        self.granted = {}
        self.power.stop()
        failed = self.power.restore()
        self.steps.step()
        self.guard.goodbye()
        try:
            self.power.originals.forget()
        except Refused:
            return None
        finally:
            self.power = None
            self.clock.calls.clear()
        return failed

    def killed(self) -> None:
        """Remove the agent and its timers, but not its guard."""
        self.power = None
        self.steps.left = None
        self.clock.calls.clear()
        self.guard.agent_died()

    def killed_in(self, steps: int, what: Callable[[], object]) -> None:
        """Kill the agent before one of the next steps, at the latest after the call."""
        self.steps.left = steps
        with contextlib.suppress(Killed):
            what()
        self.killed()

    def set_caps(self, caps_uw: dict[str, int]) -> list[CapOutcome]:
        """Request caps and record the granted values: the higher value while the outcome is
        unknown.
        """
        assert self.power is not None
        requests = [CapRequest(name=ZoneName(n), cap_uw=uw) for n, uw in caps_uw.items()]
        if not self._taken_in(lambda power: power.set_caps([])):
            return []
        before = dict(self.granted)
        for request in requests:
            highest = max(before.get(request.name, 0), request.cap_uw)
            if self.power.lease.live(self.clock.now_ns()):
                self.granted[request.name] = highest
        outcomes = self.power.set_caps(requests)
        for outcome in outcomes:
            if outcome.status is CapStatus.OK:
                self.granted[outcome.name] = outcome.requested_uw
            elif outcome.status is CapStatus.DEVICE_ERROR:
                # The ledger releases everything above the answer.
                held_uw = max(before.get(outcome.name, 0), outcome.enforced_uw)
                self.granted[outcome.name] = held_uw
            else:
                self.granted[outcome.name] = before.get(outcome.name, 0)
        return outcomes

    def renew(self, duration_ns: int) -> bool:
        """Take a lease. False without a guard."""
        assert self.power is not None
        if not self._taken_in(lambda power: power.set_caps([])):
            return False
        try:
            at_once(self.power.renew(duration_ns))
        except WrongState:
            return False
        return True

    def _taken_in(self, command: Callable[[NodePower], object]) -> bool:
        """Readmit a node that has left. False if it stays away: no space, or a zone is missing."""
        assert self.power is not None
        if not self.power.left:
            return True
        try:
            command(self.power)
        except (NoSpace, WrongState):
            return False
        self._at_floor()
        return True

    def pass_time(self, samples: int) -> None:
        """Pass time; a running agent samples at 10 Hz."""
        for _ in range(samples):
            self.clock.advance(SAMPLE_NS)
            if self.power is not None:
                self.power.sample()
                if not self.power.lease.live(self.clock.now_ns()):
                    self._at_floor()

    def _at_floor(self) -> None:
        """Record the floors as granted; a node that has left has no grants."""
        assert self.power is not None
        self.granted = {
            str(name): state.zone.limits.floor_uw
            for name, state in self.power.zones.items()
            if state.zone.limits is not None and not self.power.left
        }

    # ---- invariants

    def check(self) -> None:
        """Check the invariants that hold at any moment, except for recently disturbed zones."""
        for name, folder in self.folders.items():
            if name in self.granted and folder not in self._disturbed_with_twins():
                self._check_granted(name, folder)
        if self.power is None:
            self._check_guard()
            return
        for state in () if self.power.left else self.power.zones.values():
            folders = [state.zone.path.name, *state.zone.twins]
            if not state.zone.cannot_cap and not self.disturbed.intersection(folders):
                self._check_state(state)

    def _check_granted(self, name: str, folder: str) -> None:
        enforced_uw = self.model.enforced_uw(folder)
        assert enforced_uw is not None, f"{name} is not capped"
        assert enforced_uw <= self.granted[name], f"{name} above {self.granted[name]}"
        burst_uw = self.model.burst_uw(folder)
        assert burst_uw is None or burst_uw <= self.granted[name], f"{name} in bursts {burst_uw}"

    def _check_state(self, state: ZoneState) -> None:
        """Check that reported caps are enforced and that the time windows of used zones are
        unchanged.
        """
        name, enforced_uw = state.zone.name, self.model.enforced_uw(state.zone.path.name)
        assert enforced_uw is not None, f"{name} is not capped"
        assert state.cap_uw == enforced_uw, f"{name} reports {state.cap_uw}, not {enforced_uw}"
        found, used = self.settings(), {path.parent.name for path, _ in state.zone.floor_writes()}
        for key, value in self.originals.items():
            if key.endswith("_time_window_us") and key.split("/")[0] in used:
                assert value * 3 // 4 <= found[key] <= value, f"{key} is {found[key]}"

    def _check_guard(self) -> None:
        """Check that the guard of a killed agent set every undisturbed zone to its floor."""
        found = self.settings()
        for folder, file, text in self.guard.writes if self.guard.acted else ():
            if folder not in self.disturbed:
                assert found[f"{folder}/{file}"] == int(text), f"{folder}/{file} not at its floor"

    def _disturbed_with_twins(self) -> set[str]:
        names = {self.model.zones[folder].spec.name for folder in self.disturbed}
        return {f for f, zone in self.model.zones.items() if zone.spec.name in names}

    def check_restored(self) -> None:
        """Check that a leave without failures restored all saved settings."""
        found = self.settings()
        differ = {k: (found[k], v) for k, v in self.originals.items() if not _same(k, found[k], v)}
        untouched = {k for k in differ if k.split("/")[0] in self.disturbed}
        assert not differ.keys() - untouched, differ


def _same(key: str, found: int, original: int) -> bool:
    """Compare settings. A restored time window is the next window that the register can hold."""
    if key.endswith("_time_window_us"):
        return original * 3 // 4 <= found <= original
    return found == original
