"""Renewal of leases of simulated agents after a restart, as in `adapters.lease_holder`.

It begins with the restart, in parallel with first contacts. Renewals carry the earlier epoch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from wattfold.contract.ids import Epoch, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.rules.nodes.held_leases import hold_ns, holdable, still_held
from wattfold.coordinator.core.state.state import State
from wattfold.simulator.messages.agent import Agent
from wattfold.simulator.messages.clock import VirtualClock

ROUNDS_A_LEASE = 3


class Holding:
    """Leases that are held over restarts. ``renewals`` counts the renewals."""

    def __init__(
        self,
        clock: VirtualClock,
        agents: Mapping[NodeId, Agent],
        on_change: Callable[[Agent], None],
        seed: int,
    ) -> None:
        self.renewals = 0
        self._clock = clock
        self._agents = agents
        self._on_change = on_change
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def contact_ns(self, most_ns: int) -> int:
        """Return the delay from a restart to the first contact with a node."""
        return self._random.randint(0, most_ns)

    def begin(self, state: Callable[[], State | None]) -> tuple[tuple[NodeId, ...], int]:
        """Renew the leases that the ledger of a replayed journal permits.

        Returns the nodes and the duration. ``state`` returns the state of the coordinator; None
        while it is down.
        """
        now = state()
        assert now is not None
        earlier, lease_ns = now.epoch, now.lease_ns
        until_ns = self._clock.now_ns + hold_ns(now)

        def renew(node_id: NodeId) -> None:
            now = state()
            # After another restart, the next coordinator holds its own leases.
            if now is None or now.epoch != earlier + 1 or self._clock.now_ns >= until_ns:
                return
            if still_held(now, node_id):
                self._renew(node_id, earlier, lease_ns)
                later(node_id)

        def later(node_id: NodeId) -> None:
            delay_ns = self._random.randint(1, lease_ns // ROUNDS_A_LEASE)
            self._clock.later(delay_ns, lambda: renew(node_id))

        known = holdable(now, self._clock.now_ns)
        held = tuple(node_id for node_id in known if self._renew(node_id, earlier, lease_ns))
        for node_id in held:
            later(node_id)
        return held, hold_ns(now) if held else 0

    def _renew(self, node_id: NodeId, epoch: Epoch, lease_ns: int) -> bool:
        agent = self._agents[node_id]
        self.renewals += 1
        command = act.RenewLease(
            node_id=node_id,
            duration_ns=lease_ns,
            request_id=f"held-{epoch}-{self.renewals}",
            cause="restart",
        )
        answer = agent.take(command, epoch, self._clock.now_ns, refuse=False)
        self._on_change(agent)
        return answer is not None
