"""Asks the process that makes pictures, for the service people use.

Questions that come while others are being answered wait and are answered together: a hundred people
who look cost little more than one. Messages of agents are kept here as they came, the newest of
each, and go along with the next questions; without questions nobody reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters import pictures
from wattfold.coordinator.adapters.observations import Observations
from wattfold.coordinator.adapters.peers import Peer
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success
from wattfold.v1 import node_agent_pb2 as agent_pb

ANSWER_DEADLINE_S = 60.0
"""For the first picture after a start with 100,000 jobs; others take a fraction of it."""
WAITING_MAX = 1000


class NoPictureError(Exception):
    """A question has no answer; the message says why."""


class PictureFeed:
    """Answers are serialised messages of the contract."""

    def __init__(
        self, feed: ReplicaFeed, seen: Observations, setting: Callable[[], pictures.Setting]
    ) -> None:
        self._feed = feed
        self._seen = seen
        self._setting = setting
        self._messages: dict[NodeId, tuple[agent_pb.Telemetry, int]] = {}
        self._heard: dict[NodeId, None] = {}
        self._gone: dict[NodeId, None] = {}
        self._waiting: list[tuple[pictures.Question, asyncio.Future[bytes]]] = []
        self._answering: asyncio.Task[None] | None = None

    def hear(self, node_id: NodeId, message: agent_pb.Telemetry, sent_ns: int) -> None:
        """The newest message of an agent."""
        self._messages[node_id] = (message, sent_ns)
        self._heard[node_id] = None
        self._gone.pop(node_id, None)

    def drop(self, node_id: NodeId) -> None:
        """A node fell silent: what it said last is not true any more."""
        self._messages.pop(node_id, None)
        self._heard.pop(node_id, None)
        self._gone[node_id] = None

    async def jobs(
        self, viewer: Peer, job_ids: tuple[JobId, ...], include_ended: bool, limit: int = 0
    ) -> bytes:
        """A `ListJobsResponse` for an account. Raises NoPictureError."""
        most = limit or pictures.LIST_MAX
        asked = pictures.Jobs(
            viewer=viewer, job_ids=job_ids, include_ended=include_ended, limit=most
        )
        return await self._ask(asked)

    async def nodes(self) -> bytes:
        """A `ListNodesResponse`. Raises NoPictureError."""
        return await self._ask(pictures.Nodes())

    async def power(self) -> bytes:
        """A `Power`. Raises NoPictureError."""
        return await self._ask(pictures.Power())

    async def cluster(self, viewer: Peer, since_ns: int) -> bytes:
        """A `ClusterView` for an account, with jobs ended since. Raises NoPictureError."""
        return await self._ask(pictures.Cluster(viewer=viewer, since_ns=since_ns))

    async def explanation(self, viewer: Peer, job_id: JobId) -> bytes:
        """An `ExplainResponse` for an account. Raises NoPictureError."""
        return await self._ask(pictures.Explanation(viewer=viewer, job_id=job_id))

    async def close(self) -> None:
        """Gives questions under way up."""
        if self._answering is not None:
            self._answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._answering

    async def _ask(self, question: pictures.Question) -> bytes:
        if len(self._waiting) >= WAITING_MAX:
            raise NoPictureError(
                f"{WAITING_MAX} read requests already wait for an answer; try again"
            )
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer_all())
        return await answer

    async def _answer_all(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, []
            try:
                result = await self._put(tuple(question for question, _ in asked))
            except BaseException:
                for _, answer in asked:
                    answer.cancel()
                raise
            _give(asked, result)

    async def _put(self, questions: tuple[pictures.Question, ...]) -> CallResult:
        return await self._feed.ask(
            pictures.answer,
            lambda anew: (self._setting(), self._told(anew), questions),
            deadline_s=ANSWER_DEADLINE_S,
        )

    def _told(self, anew: bool) -> pictures.Told:
        heard = list(self._messages if anew else self._heard)
        gone = tuple(self._gone)
        self._heard.clear()
        self._gone.clear()
        found = [(node_id, *self._messages[node_id]) for node_id in heard]
        return pictures.Told(
            messages=tuple((n, message.SerializeToString(), at) for n, message, at in found),
            gone=gone,
            power_uw=self._seen.power_uw,
            peak_uw=self._seen.peak_uw,
            energy_uj=self._seen.energy_uj,
        )


def _give(asked: list[tuple[pictures.Question, asyncio.Future[bytes]]], result: CallResult) -> None:
    answers: list[Any]
    if isinstance(result, Success):
        answers = result.value
    else:
        why = result.reason if isinstance(result, Crashed) else "no answer in time"
        answers = [why] * len(asked)
    for (_, future), found in zip(asked, answers, strict=True):
        if future.done():
            continue  # Who asked has gone.
        if isinstance(found, bytes):
            future.set_result(found)
        else:
            future.set_exception(NoPictureError(found))
