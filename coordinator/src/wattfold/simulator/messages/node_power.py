"""Programs of a simulated site that switch nodes: slow, and sometimes failing.

A suspended node draws what the core charges for it, and a booting node what a boot may draw. A boot
that fails draws its power until the node is switched off. A new order for a node replaces the
order before, as the programs of a killed coordinator end with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.node_power import SleepSettings
from wattfold.simulator.messages.agent import Agent
from wattfold.simulator.messages.clock import VirtualClock
from wattfold.simulator.messages.faults import Faults


class SwitchedNodes:
    """The power of the nodes of a cluster, as its programs switch it."""

    def __init__(
        self,
        clock: VirtualClock,
        faults: Faults,
        seed: int,
        off: Callable[[Agent], None],
        up: Callable[[Agent], None],
    ) -> None:
        """``off`` and ``up`` are called when a node has lost power and when its agent starts."""
        self._clock, self._faults = clock, faults
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._off, self._up = off, up
        self._orders: dict[NodeId, int] = {}

    def order(
        self,
        agent: Agent,
        command: act.SwitchPower,
        settings: SleepSettings,
        answer: Callable[[str], None],
    ) -> None:
        """Carry out an order. ``answer`` gets the reason of a failure, or an empty text."""
        number = self._orders[agent.node_id] = self._orders.get(agent.node_id, 0) + 1
        if self._happens(self._faults.switch_fails):
            self._clock.later(command.within_ns // 8, lambda: answer("the program failed"))
        elif command.on:
            self._boot(agent, settings)
            answer("")
        else:
            span_ns = command.within_ns // 4
            self._clock.later(
                span_ns, lambda: self._suspend(agent, number, settings.asleep_uw, answer)
            )

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def _suspend(
        self, agent: Agent, number: int, asleep_uw: int, answer: Callable[[str], None]
    ) -> None:
        if self._orders[agent.node_id] != number:
            return
        agent.lose_power()
        agent.dark_uw = asleep_uw
        self._off(agent)
        answer("")

    def _boot(self, agent: Agent, settings: SleepSettings) -> None:
        if agent.powered or agent.booting:
            return
        agent.booting, agent.dark_uw = True, settings.boot_uw
        late = self._happens(self._faults.boot_late)
        span_ns = settings.boot_ns * 5 // 4 if late else settings.boot_ns // 2
        if not self._happens(self._faults.boot_fails):
            self._clock.later(span_ns, lambda: self._report(agent))

    def _report(self, agent: Agent) -> None:
        if agent.booting:
            self._up(agent)
