"""A node of a behaving machine, its agent's power service and its guard, in virtual time.

The agent can be killed at any step: before any use of a file, a record or the guard. What survives
is the tree, the records and the guard, as on a real node.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent.adapters.powercap import RangeSetting, discover
from wattfold.nodeagent.core.caps import CapOutcome, CapRequest, CapStatus
from wattfold.nodeagent.core.errors import NoSpace, Refused, WrongState
from wattfold.nodeagent.emulation.machine import Machine
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.power import SAMPLE_NS, NodePower

S = 1_000_000_000
ORIGINALS = "originals.json"


class Killed(BaseException):
    """kill -9: nothing in the agent sees it."""


class Steps:
    """Counts what the agent does to the outside, and kills it before a chosen step."""

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
    """The files of the tree, each use a step."""

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
    """Records as a disk keeps them: whole or not at all, and only as JSON says them."""

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
    """The time of the model, and what is due in it."""

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
    """Ends the lease of a killed agent: writes the floors it was told at its end."""

    def __init__(self, clock: VirtualClock, steps: Steps) -> None:
        self._clock = clock
        self._steps = steps
        self.alive = False
        self.acted = False
        self.answers = True
        self.deadline_ns = 0
        self.writes: list[tuple[str, str, str]] = []

    def hold_until(self, deadline_ns: int) -> None:
        self._steps.step()
        if not self.answers:
            raise WrongState("no guard")
        self.deadline_ns = deadline_ns

    def lapsed(self) -> None:
        self._steps.step()
        self.deadline_ns = 0

    def told(self, power: NodePower) -> None:
        self.writes = [(path.parent.name, path.name, text) for path, text in power.floor_writes()]

    def agent_died(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._clock.call_in(max(self.deadline_ns - self._clock.now_ns(), 0), self._act)

    def _act(self) -> None:
        self.acted = True
        for folder, file, text in self.writes:
            try:
                if self._clock.model.read(folder, file) != text:
                    self._clock.model.write(folder, file, text)
            except OSError:
                continue


class EmulatedNode:
    """The machine, what survives on it, and at most one agent."""

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
        """A fresh boot: limits as the firmware sets them, no process left."""
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
                if limit.limit_uw is not None and limit.spec.name in ("long_term", "short_term"):
                    found[f"{folder}/constraint_{index}_power_limit_uw"] = limit.limit_uw
            locked = any(m.locked for m in zone.limits if m.spec.name == "long_term")
            found[f"{folder}/enabled"] = int(zone.enabled and not locked)
        return found

    def saved(self) -> set[str]:
        """What the agent has saved in this boot."""
        record = json.loads(self.records.kept.get(ORIGINALS, "{}"))
        if record.get("boot_id") != f"boot-{self.boots}":
            return set()
        return {key for values in record["zones"].values() for key in values}

    def meddle(self, change: Callable[[], None], folder: str) -> None:
        """Somebody else changes a zone; what is not saved yet is the original from then on."""
        before = self.settings()
        change()
        saved = self.saved()
        for key, value in self.settings().items():
            if value != before[key] and key not in saved:
                self.originals[key] = value
        self.disturbed.add(folder)

    def calm(self) -> None:
        """All failures are over, and a second passes."""
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
        """Starts an agent; it may refuse. May raise Killed."""
        assert self.power is None
        # The guard of the last agent is ended by the next one.
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
        """An orderly stop; False if it failed for want of space. May raise Killed."""
        assert self.power is not None
        # Limits are restored now, whatever was granted.
        self.granted = {}
        try:
            self.power.stop()
            self.steps.step()
            self.guard.alive = False
            self.power.forget()
        except Refused:
            return False
        finally:
            self.power = None
            self.clock.calls.clear()
        return True

    def killed(self) -> None:
        """The agent is gone; its timers with it, not its guard."""
        self.power = None
        self.steps.left = None
        self.clock.calls.clear()
        self.guard.agent_died()

    def killed_in(self, steps: int, what: Callable[[], object]) -> None:
        """Kills the agent before one of the next steps, at the latest when the call has ended."""
        self.steps.left = steps
        with contextlib.suppress(Killed):
            what()
        self.killed()

    def set_caps(self, caps_uw: dict[str, int]) -> list[CapOutcome]:
        """Asks for caps and notes what was granted: the more of both while it is unsure."""
        assert self.power is not None
        requests = [CapRequest(name=ZoneName(n), cap_uw=uw) for n, uw in caps_uw.items()]
        before = dict(self.granted)
        for request in requests:
            highest = max(before.get(request.name, 0), request.cap_uw)
            if self.power.lease.live(self.clock.now_ns()):
                self.granted[request.name] = highest
        outcomes = self.power.set_caps(requests)
        for outcome in outcomes:
            if outcome.status is CapStatus.OK:
                self.granted[outcome.name] = outcome.requested_uw
            elif outcome.status is not CapStatus.DEVICE_ERROR:
                self.granted[outcome.name] = before.get(outcome.name, 0)
        return outcomes

    def renew(self, duration_ns: int) -> bool:
        """Takes a lease; False without a guard."""
        assert self.power is not None
        try:
            self.power.renew(duration_ns)
        except WrongState:
            return False
        return True

    def pass_time(self, samples: int) -> None:
        """Time goes by; a living agent samples at 10 Hz."""
        for _ in range(samples):
            self.clock.advance(SAMPLE_NS)
            if self.power is not None:
                self.power.sample()
                if not self.power.lease.live(self.clock.now_ns()):
                    self._at_floor()

    def _at_floor(self) -> None:
        assert self.power is not None
        self.granted = {
            str(name): state.zone.limits.floor_uw
            for name, state in self.power.zones.items()
            if state.zone.limits is not None
        }

    # ---- what must hold

    def check(self) -> None:
        """What holds at any moment, for zones that nobody else has just disturbed."""
        for name, folder in self.folders.items():
            enforced_uw = self.model.enforced_uw(folder)
            if name in self.granted and folder not in self._disturbed_with_twins():
                assert enforced_uw is not None, f"{name} is not capped"
                assert enforced_uw <= self.granted[name], f"{name} above {self.granted[name]}"
        if self.power is None:
            self._check_guard()
            return
        for name, state in self.power.zones.items():
            folders = [state.zone.path.name, *state.zone.twins]
            if state.zone.cannot_cap or self.disturbed.intersection(folders):
                continue
            enforced_uw = self.model.enforced_uw(folders[0])
            assert enforced_uw is not None, f"{name} is not capped"
            assert state.cap_uw == enforced_uw, f"{name} reports {state.cap_uw}, not {enforced_uw}"

    def _check_guard(self) -> None:
        """The guard of a killed agent brought all it could to the floor."""
        found = self.settings()
        for folder, file, text in self.guard.writes if self.guard.acted else ():
            if folder not in self.disturbed:
                assert found[f"{folder}/{file}"] == int(text), f"{folder}/{file} not at its floor"

    def _disturbed_with_twins(self) -> set[str]:
        names = {self.model.zones[folder].spec.name for folder in self.disturbed}
        return {f for f, zone in self.model.zones.items() if zone.spec.name in names}

    def check_restored(self) -> None:
        """After an orderly stop without failures: all that was saved is as it was."""
        found = self.settings()
        differ = {k: (found[k], v) for k, v in self.originals.items() if found[k] != v}
        untouched = {k for k in differ if k.split("/")[0] in self.disturbed}
        assert not differ.keys() - untouched, differ
