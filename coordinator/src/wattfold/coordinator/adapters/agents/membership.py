"""Membership of nodes: aligns the core and the contacts with the configuration.

This happens at the start and at each reload of the configuration. A node with a changed address is
silent until it answers at the new address. A node that is no longer listed is retired.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agents.agents import Agents
from wattfold.coordinator.adapters.agents.link import AgentLink
from wattfold.coordinator.adapters.config.nodes import NodeEntry
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core.model import configuration, reports
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.core.model.resource_manager import ManagerConfigured

log = logging.getLogger("wattfold.coordinator")

LinkMaker = Callable[[NodeId, str], AgentLink]


class Membership:
    """Follows the nodes of the configuration, or of the journal if the configuration lists none."""

    def __init__(self, service: Service, agents: Agents, make_link: LinkMaker) -> None:
        self._service = service
        self._agents = agents
        self._make_link = make_link
        self._linked: dict[NodeId, str] = {}
        self._told: dict[NodeId, tuple[str, ...]] = {}
        self._places: dict[NodeId, tuple[int, ...]] = {}

    def places(self) -> list[tuple[NodeId, tuple[int, ...]]]:
        """Return the nodes in configured order, each with its torus coordinates, if any."""
        return list(self._places.items())

    def follow(self, entries: Sequence[NodeEntry], first: Collection[NodeId] = ()) -> None:
        """Make these the only nodes. The nodes in ``first`` are contacted first."""
        nodes = self._service.core.state.nodes.values()
        known = {node.node_id: node.address for node in nodes if not node.retired}
        wanted = {entry.node_id: entry.address for entry in entries} or known | self._linked
        features = {entry.node_id: entry.features for entry in entries}
        self._places = dict.fromkeys(wanted, ()) | {e.node_id: e.place for e in entries}
        has = {node.node_id: node.features for node in nodes if not node.retired}
        for node_id in sorted((known.keys() | self._linked.keys()) - wanted.keys()):
            self._retire(node_id)
        early = frozenset(first)
        for node_id, address in sorted(wanted.items(), key=lambda node: node[0] not in early):
            told = features.get(node_id, has.get(node_id, ()))
            moved = known.get(node_id) != address and self._linked.get(node_id) != address
            if moved or told != self._told.get(node_id, has.get(node_id, ())):
                event = configuration.NodeRegistered(
                    node_id=node_id, address=address, features=told
                )
                self._service.post(event)
            self._told[node_id] = told
            self._contact(node_id, address)

    def follow_queues(self, queues: Sequence[Queue]) -> None:
        """Make these the only queues."""
        if tuple(self._service.core.state.queues.values()) != tuple(queues):
            self._service.post(configuration.QueuesConfigured(queues=tuple(queues)))

    def follow_accounts(self, wanted: configuration.AccountsConfigured) -> None:
        """Make these the only accounts and limits of users."""
        state = self._service.core.state
        known = configuration.AccountsConfigured(
            accounts=tuple(state.accounts.values()),
            users=tuple(state.user_limits.values()),
            half_life_ns=state.fair_share.half_life_ns,
        )
        if known != wanted:
            self._service.post(wanted)

    def follow_ramp(self, limits: RampLimits) -> None:
        """Make these the ramp limits."""
        if self._service.core.state.ledger.ramp.limits != limits:
            self._service.post(configuration.RampConfigured(limits=limits))

    def follow_manager(self, name: str) -> None:
        """Make this the resource manager that owns the jobs; empty = the coordinator does."""
        if self._service.core.state.manager.name != name:
            self._service.post(ManagerConfigured(name=name))

    def _retire(self, node_id: NodeId) -> None:
        means = "charged until its lease expires, then outside this budget"
        log.warning(line("node_retired", node=node_id, means=means))
        self._unlink(node_id)
        self._service.post(configuration.NodeRetired(node_id=node_id))

    def _contact(self, node_id: NodeId, address: str) -> None:
        before = self._linked.get(node_id)
        if before == address:
            return
        if before is not None:
            reason = f"its address was changed from {before} to {address}"
            log.warning(line("node_moved", node=node_id, before=before, now=address))
            self._unlink(node_id)
            self._service.post(reports.NodeSilent(node_id=node_id, reason=reason))
        self._linked[node_id] = address
        self._agents.add(self._make_link(node_id, address))

    def _unlink(self, node_id: NodeId) -> None:
        if self._linked.pop(node_id, None) is not None:
            self._agents.drop(node_id)
