"""All agents: one link a node; the commands of the core go to the link of theirs."""

from __future__ import annotations

import asyncio
from collections import deque

from wattfold.contract.ids import NodeId
from wattfold.coordinator.adapters.agent_link import AgentLink
from wattfold.coordinator.core import actions as act

LAUNCHES_AT_ONCE = 16


class Agents:
    """All links; carries out the core's commands.

    A plan may start a thousand jobs at once. Launches go out some at a time, with a turn for all
    others in between; what power and cores depend on goes out at once.
    """

    def __init__(self) -> None:
        self._links: dict[NodeId, AgentLink] = {}
        self._tasks: dict[NodeId, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._launches: deque[act.Launch] = deque()
        self._launching: asyncio.Task[None] | None = None

    def add(self, link: AgentLink) -> None:
        """Begins contact with an agent."""
        self._links[link.node_id] = link
        self._tasks[link.node_id] = asyncio.create_task(link.run())

    def drop(self, node_id: NodeId) -> None:
        """Ends contact with an agent; what was under way gets no answer any more."""
        link, task = self._links.pop(node_id), self._tasks.pop(node_id)
        task.cancel()
        closing = asyncio.create_task(_close(link, task))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def perform(self, action: act.Action) -> None:
        """Sends a command to its node."""
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
        """Ends all contact."""
        launching = [self._launching] if self._launching is not None else []
        for task in (*self._tasks.values(), *launching):
            task.cancel()
        ended = (*self._tasks.values(), *launching, *self._closing)
        await asyncio.gather(*ended, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))


async def _close(link: AgentLink, task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
    await link.close()
