"""All agents: one link per node, and the commands of the core to them."""

from __future__ import annotations

import asyncio
from collections import deque

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.agents.link import AgentLink
from wattfold.coordinator.core.model import actions as act

LAUNCHES_AT_ONCE = 16
APART_S = 60.0
"""Seconds before a failed contact is repeated, because each failure costs a replay."""


class Agents:
    """All links. Carries out the commands of the core.

    A plan may start a thousand jobs at once. Launches are sent in groups, and other tasks run
    between the groups. Commands about power and cores are sent immediately.
    """

    def __init__(self) -> None:
        self._links: dict[NodeId, AgentLink] = {}
        self._tasks: dict[NodeId, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._launches: deque[act.Launch] = deque()
        self._launching: asyncio.Task[None] | None = None

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """The nodes with a link."""
        return tuple(self._links)

    def connected(self, node_id: NodeId) -> bool | None:
        """Whether a node is in contact; None before the first attempt, False without a link."""
        link = self._links.get(node_id)
        return False if link is None else link.connected

    def add(self, link: AgentLink) -> None:
        """Begin contact with an agent."""
        self._links[link.node_id] = link
        self._tasks[link.node_id] = asyncio.create_task(link.run())

    def contact_anew(self, node_id: NodeId) -> None:
        """End contact with an agent and begin it again after `APART_S`."""
        link = self._links.get(node_id)
        if link is not None:
            task = self._tasks[node_id]
            task.cancel()
            self._tasks[node_id] = asyncio.create_task(_again(link, task))

    def drop(self, node_id: NodeId) -> None:
        """End contact with an agent. Pending calls get no answer."""
        link, task = self._links.pop(node_id), self._tasks.pop(node_id)
        task.cancel()
        closing = asyncio.create_task(_close(link, task))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def signal(self, node_id: NodeId, job_id: JobId, attempt: int, number: int) -> str:
        """Signal the process of a job on a node. Return why it failed, or nothing."""
        link = self._links.get(node_id)
        if link is None:
            return "the coordinator has no contact with this node"
        return await link.commands.signal(job_id, attempt, number)

    async def open_shell(self, node_id: NodeId, job_id: JobId, attempt: int) -> tuple[bytes, str]:
        """Let a node accept shells in a job. Return their key, or why this failed."""
        link = self._links.get(node_id)
        if link is None:
            return b"", "the coordinator has no contact with this node"
        return await link.commands.open_shell(job_id, attempt)

    def perform(self, action: act.Action) -> None:
        """Send a command to its node."""
        assert not isinstance(action, act.Solve | act.WakeAt)
        if not isinstance(action, act.Launch):
            self._send(action)
            return
        self._launches.append(action)
        if self._launching is None or self._launching.done():
            self._launching = asyncio.create_task(self._launch_all())

    def _send(self, action: act.Action) -> None:
        assert not isinstance(action, act.Solve | act.WakeAt)
        link = self._links.get(action.node_id)
        if link is not None:
            link.commands.perform(action)

    async def _launch_all(self) -> None:
        while self._launches:
            for _ in range(min(LAUNCHES_AT_ONCE, len(self._launches))):
                self._send(self._launches.popleft())
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End contact with all agents."""
        launching = [self._launching] if self._launching is not None else []
        for task in (*self._tasks.values(), *launching):
            task.cancel()
        ended = (*self._tasks.values(), *launching, *self._closing)
        await asyncio.gather(*ended, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))


async def _again(link: AgentLink, task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
    link.lost()
    await asyncio.sleep(APART_S)
    await link.run()


async def _close(link: AgentLink, task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
    await link.close()
