"""Commands from the coordinator to the agents and their answers, with delays and faults.

A command without an answer is given up after a timeout and reported to the coordinator, as the
adapter of the real service does. Answers and timeouts of an earlier epoch are dropped with the
coordinator that waited for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.node_power import SleepSettings
from wattfold.simulator.messages.agent import Agent, Command
from wattfold.simulator.messages.clock import VirtualClock
from wattfold.simulator.messages.faults import DELAY_NS_MIN, Faults
from wattfold.simulator.messages.node_power import SwitchedNodes

TIMEOUT_NS = 1_000_000_000
LATE_NS = 1_500_000_000
"""Delay of a late command, which its sender has given up by then."""


class Coordinator(Protocol):
    """Receiver of answers."""

    @property
    def epoch(self) -> int:
        """Generation of the coordinator."""

    def post(self, event: ev.Event) -> None:
        """Receive an event, if the coordinator is up."""

    def lost_power(self, agent: Agent) -> None:
        """Note that a node was switched off."""

    def start_agent(self, agent: Agent) -> None:
        """Start the agent of a node, which has power."""


class Messages:
    """Network between the coordinator and the agents."""

    def __init__(
        self,
        clock: VirtualClock,
        coordinator: Coordinator,
        on_change: Callable[[Agent], None],
        faults: Faults,
        seed: int,
        sleep: SleepSettings = SleepSettings(),  # noqa: B008 - immutable
    ) -> None:
        self.faults = faults
        self._clock = clock
        self._coordinator = coordinator
        self._on_change = on_change
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        off, up = coordinator.lost_power, coordinator.start_agent
        self._sleep, self._switched = sleep, SwitchedNodes(clock, faults, seed, off, up)

    def delay_ns(self) -> int:
        """Return the delay of the next message."""
        return self._random.randint(DELAY_NS_MIN, max(self.faults.delay_ns, DELAY_NS_MIN + 1))

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def send(self, agent: Agent, command: Command | act.SwitchPower) -> None:
        """Send a command; its answer or its timeout is posted later."""
        epoch = self._coordinator.epoch
        if isinstance(command, act.SwitchPower):
            switch = command

            def answered(error: str) -> None:
                event = reports.PowerAnswered(
                    node_id=switch.node_id, request_id=switch.request_id, error=error
                )
                self._clock.later(self.delay_ns(), lambda: self._answer(epoch, event))

            self._switched.order(agent, command, self._sleep, answered)
            self._on_change(agent)
            return
        lost, unanswered = self._happens(self.faults.lose), self._happens(self.faults.lose)
        late, double = self._happens(self.faults.late), self._happens(self.faults.double)

        def arrive() -> None:
            answer = self._take(agent, command, epoch)
            if late:
                return
            if not unanswered and agent.connected:
                if answer is not None:
                    self._clock.later(self.delay_ns(), lambda: self._answer(epoch, answer))
            else:
                self._clock.later(TIMEOUT_NS, lambda: self._give_up(command, epoch))

        def again() -> None:
            self._take(agent, command, epoch)

        if lost or late:
            self._clock.later(TIMEOUT_NS, lambda: self._give_up(command, epoch))
        if not lost:
            self._clock.later(self.delay_ns() + (LATE_NS if late else 0), arrive)
        if double:
            self._clock.later(2 * self.delay_ns(), again)

    def _take(self, agent: Agent, command: Command, epoch: int) -> ev.Event | None:
        refuse = isinstance(command, act.SetCaps) and self._happens(self.faults.refuse)
        answer = agent.take(command, epoch, self._clock.now_ns, refuse)
        self._on_change(agent)
        return answer

    def _answer(self, epoch: int, answer: ev.Event) -> None:
        if epoch == self._coordinator.epoch:
            self._coordinator.post(answer)

    def _give_up(self, command: Command, epoch: int) -> None:
        event = given_up(command)
        if event is not None and epoch == self._coordinator.epoch:
            self._coordinator.post(event)


def given_up(command: Command) -> ev.Event | None:
    """Return the event for a command without an answer."""
    match command:
        case act.SetCaps():
            return reports.CapsUnconfirmed(
                node_id=command.node_id, request_id=command.request_id, reason="lost"
            )
        case act.Leave():
            return reports.LeaveFailed(
                node_id=command.node_id,
                request_id=command.request_id,
                reason="lost",
                refused=False,
            )
        case act.RenewLease():
            return reports.LeaseUnconfirmed(
                node_id=command.node_id, request_id=command.request_id, reason="lost"
            )
        case act.SetMask():
            return reports.MaskFailed(
                node_id=command.node_id,
                job_id=command.job_id,
                reason="lost",
                attempt=command.attempt,
            )
        case act.Terminate():
            return reports.TerminateFailed(
                node_id=command.node_id,
                job_id=command.job_id,
                reason="lost",
                attempt=command.attempt,
            )
        case act.Suspend():
            return reports.SuspensionFailed(
                node_id=command.node_id,
                job_id=command.job_id,
                reason="lost",
                attempt=command.attempt,
            )
        case act.Launch():
            return reports.LaunchFailed(
                node_id=command.node_id,
                job_id=command.job_id,
                reason="lost",
                permanent=False,
                attempt=command.attempt,
            )
    return None
