"""Which nodes are there: brings the core and the contacts in line with the configuration.

At the start and whenever the configuration is read anew, with the settings of the policy and the
files that these name, such as prices of energy. A node whose address has changed is silent
until it is heard of at the new one; a node that is named no more is retired.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agent_link import AgentLink
from wattfold.coordinator.adapters.agents import Agents
from wattfold.coordinator.adapters.config import Config, ConfigError, NodeEntry
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.core.queue import Queue

log = logging.getLogger("wattfold.coordinator")

LinkMaker = Callable[[NodeId, str], AgentLink]


class Planning(Protocol):
    """Who plans, by the policy that stands here when a round begins."""

    policy: Policy


class Membership:
    """Follows the nodes that the configuration names; without any, those of the journal."""

    def __init__(self, service: Service, agents: Agents, make_link: LinkMaker) -> None:
        self._service = service
        self._agents = agents
        self._make_link = make_link
        self._linked: dict[NodeId, str] = {}
        self._told: dict[NodeId, tuple[str, ...]] = {}
        self._places: dict[NodeId, tuple[int, ...]] = {}

    def places(self) -> list[tuple[NodeId, tuple[int, ...]]]:
        """The nodes as listed, each with its place on the torus, if it has one."""
        return list(self._places.items())

    def follow(self, entries: Sequence[NodeEntry]) -> None:
        """These nodes and no others are to be there."""
        nodes = self._service.core.state.nodes.values()
        known = {node.node_id: node.address for node in nodes if not node.retired}
        wanted = {entry.node_id: entry.address for entry in entries} or known | self._linked
        features = {entry.node_id: entry.features for entry in entries}
        self._places = dict.fromkeys(wanted, ()) | {e.node_id: e.place for e in entries}
        has = {node.node_id: node.features for node in nodes if not node.retired}
        for node_id in sorted((known.keys() | self._linked.keys()) - wanted.keys()):
            self._retire(node_id)
        for node_id, address in wanted.items():
            told = features.get(node_id, has.get(node_id, ()))
            moved = known.get(node_id) != address and self._linked.get(node_id) != address
            if moved or told != self._told.get(node_id, has.get(node_id, ())):
                event = ev.NodeRegistered(node_id=node_id, address=address, features=told)
                self._service.post(event)
            self._told[node_id] = told
            self._contact(node_id, address)

    def follow_queues(self, queues: Sequence[Queue]) -> None:
        """These queues and no others are to be there."""
        if tuple(self._service.core.state.queues.values()) != tuple(queues):
            self._service.post(ev.QueuesConfigured(queues=tuple(queues)))

    def _retire(self, node_id: NodeId) -> None:
        means = "charged until its lease expires, then outside this budget"
        log.warning(line("node_retired", node=node_id, means=means))
        self._unlink(node_id)
        self._service.post(ev.NodeRetired(node_id=node_id))

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


class Reloader:
    """Reads the configuration anew when told to. What cannot be changed now is named."""

    def __init__(
        self, config: Config, read: Callable[[], Config], members: Membership, planning: Planning
    ) -> None:
        self._config = config
        self._read = read
        self._members = members
        self._planning = planning

    def reload(self) -> None:
        """A configuration with an error changes nothing."""
        try:
            config = self._read()
        except ConfigError as error:
            self._refuse(str(error))
            return
        if not config.nodes and self._config.nodes:
            self._refuse("the configuration has no nodes")
            return
        taken = self._config
        if config.policy != taken.policy and config.policy.name == taken.policy.name:
            self._planning.policy = config.policy
            taken = dataclasses.replace(taken, policy=config.policy)
            log.warning(line("policy_settings_taken_over", policy=config.policy.name))
        for name in changed_settings(taken, config):
            log.warning(line("reload_needs_restart", setting=name))
        self._members.follow(config.nodes)
        self._members.follow_queues(config.queues)
        self._config = dataclasses.replace(taken, nodes=config.nodes, queues=config.queues)
        log.warning(line("reloaded", nodes=len(config.nodes), queues=len(config.queues)))

    def _refuse(self, reason: str) -> None:
        log.error(line("reload_refused", reason=reason, means="all settings stay as they were"))


def changed_settings(before: Config, after: Config) -> list[str]:
    """Settings other than the nodes and the queues that differ."""
    names = [
        field.name for field in dataclasses.fields(Config) if field.name not in ("nodes", "queues")
    ]
    return [name for name in names if getattr(before, name) != getattr(after, name)]
