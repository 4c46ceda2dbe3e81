"""Readiness of a starting coordinator: no agent may obey a newer coordinator.

An agent reports this with its inventory or with the answer to its first lease. So the coordinator
waits a limited time until each node has answered or is unreachable. A node that answers later still
ends the coordinator.
"""

from __future__ import annotations

import asyncio
import logging

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agents.agents import Agents
from wattfold.coordinator.adapters.service import Service

ANSWERS_S = 10.0
"""Much longer than two calls and a lease take, and shorter than the timeouts of service managers.
"""

log = logging.getLogger("wattfold.coordinator")


async def first_answers(agents: Agents, service: Service, stopped: asyncio.Future[int]) -> bool:
    """Wait for the first answer of each node. Returns False if the coordinator must end."""
    missing = set(agents.node_ids)
    changed = asyncio.Event()
    service.listeners.append(changed.set)
    stopped.add_done_callback(lambda _: changed.set())
    try:
        async with asyncio.timeout(ANSWERS_S):
            while not stopped.done():
                missing -= {node_id for node_id in missing if _answered(agents, service, node_id)}
                if not missing:
                    break
                changed.clear()
                await changed.wait()
    except TimeoutError:
        log.warning(line("nodes_slow", count=len(missing), first=min(missing)))
    finally:
        service.listeners.remove(changed.set)
    return not stopped.done()


def _answered(agents: Agents, service: Service, node_id: NodeId) -> bool:
    node, connected = service.core.state.nodes.get(node_id), agents.connected(node_id)
    if not connected:
        return connected is not None and (node is None or not node.reachable)
    if node is None:
        return False
    # The lease is requested as soon as the contact is handled. A refusal counts as an answer.
    return node.reachable and not node.lease_request
