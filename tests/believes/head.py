"""A core behind the clock of a machine that tests set, as a coordinator process has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from believes.clocks import Machine, S
from unit.core.stage import CHECKED, Stage, job_spec, on

from wattfold.coordinator.adapters.clock import CalendarWatch, Clock
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev

FAR_S = 60.0


class Head(Stage):
    """Node n0 is up. `passes` lets true time pass and does what a coordinator does in it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.clock = Clock(sources=machine.sources)
        self.anchor, self.first_s = self.clock.anchor, self.clock.origin_s
        super().__init__(start=False)
        self.core.state.settings = replace(CHECKED, origin_s=self.first_s)
        self._runs()
        self.now_ns = self.clock.now_ns()
        self.start()
        self.up("n0")

    def _runs(self) -> None:
        self.watch = CalendarWatch(self.clock, self._post)
        self.running = True

    def _post(self, event: ev.Event) -> None:
        self.now_ns = self.clock.now_ns()
        self.send(event)

    def passes(self, seconds: float) -> None:
        """True time, with a look at the calendar every second and wake-ups as they are due."""
        until_ns = self.machine.monotonic_ns + round(seconds * S)
        while self.machine.monotonic_ns < until_ns:
            left_ns = until_ns - self.machine.monotonic_ns
            wake_ns = self.wake_ns - self.clock.now_ns()
            pace_ns = min(left_ns, round(FAR_S * S), wake_ns if wake_ns > 0 else left_ns)
            self.machine.passes(pace_ns / S)
            self.watch.look()
            self.now_ns = self.clock.now_ns()
            self.send(ev.TimePassed())

    def sets_calendar(self, by_s: float) -> None:
        """While it runs: noticed by the next look, within a second."""
        self.machine.set_calendar(by_s)
        self.passes(1)

    def restart(self) -> None:
        """A new process, from the text of the state, by the clocks as they are now."""
        text, last_ns = codec.dump_state(self.core.state), self.now_ns
        self.core = CoordinatorCore(0, CHECKED)
        self.core.state = codec.load_state(text)
        self.core.state.settings = replace(CHECKED, origin_s=self.first_s)
        origin_s = self.core.state.origin_s
        self.clock = Clock(origin_s, last_ns, self.anchor, self.machine.sources)
        self.anchor = self.clock.anchor
        self._runs()
        self.now_ns, self.wake_ns = self.clock.now_ns(), 0
        self.send(
            ev.CoordinatorStarted(
                epoch=self.core.state.epoch + 1,  # type: ignore[arg-type]
                lease_ns=9 * S,
                command_timeout_ns=2 * S,
                calendar_step_ns=self.clock.take_step_ns(),
                gap_ns=self.clock.gap_ns,
            )
        )

    def run_job(self, job: str, limit_s: float, **fields: Any) -> None:
        self.submit(job, job_spec(limit_ns=round(limit_s * S), **fields))
        self.need_plan()
        self.plan(on(job, "n0:0-3"))
        self.launched("n0", job)
