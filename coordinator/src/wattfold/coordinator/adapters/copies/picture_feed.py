"""Client of the worker process that makes the views for people.

Requests that arrive during an answer wait and are answered together, so a hundred users cost little
more than one. The newest telemetry message of each agent is kept unparsed and sent with the next
requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.copies import pictures, view_requests
from wattfold.coordinator.adapters.copies.job_filter import ALL_JOBS, JobFilter
from wattfold.coordinator.adapters.copies.outlook_views import ViewInputs
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.metrics.meters import Figures
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success
from wattfold.v1 import node_agent_pb2 as agent_pb

ANSWER_DEADLINE_S = 60.0
"""For the first view after a start with 100,000 jobs. Other views take a fraction of this time."""
WAITING_MAX = 1000


class NoPictureError(Exception):
    """A request has no answer. The message gives the reason."""


class PictureFeed:
    """Requests views. Answers are serialised messages of the API."""

    def __init__(
        self, feed: ReplicaFeed, seen: Observations, setting: Callable[[], ViewInputs]
    ) -> None:
        self._feed = feed
        self._seen = seen
        self._setting = setting
        self._messages: dict[NodeId, tuple[agent_pb.Telemetry, int]] = {}
        self._heard: dict[NodeId, None] = {}
        self._gone: dict[NodeId, None] = {}
        self._waiting: list[tuple[view_requests.Question, asyncio.Future[bytes]]] = []
        self._answering: asyncio.Task[None] | None = None

    def hear(self, node_id: NodeId, message: agent_pb.Telemetry, sent_ns: int) -> None:
        """Keep the newest message of an agent."""
        self._messages[node_id] = (message, sent_ns)
        self._heard[node_id] = None
        self._gone.pop(node_id, None)

    def drop(self, node_id: NodeId) -> None:
        """Drop the message of a silent node, which is no longer valid."""
        self._messages.pop(node_id, None)
        self._heard.pop(node_id, None)
        self._gone[node_id] = None

    async def jobs(
        self,
        viewer: Peer,
        job_ids: tuple[JobId, ...],
        include_ended: bool,
        limit: int = 0,
        *,
        chosen: JobFilter = ALL_JOBS,
        details: bool = False,
        tasks: bool = False,
    ) -> bytes:
        """Return a `ListJobsResponse` for an account. Raises NoPictureError."""
        most = limit or view_requests.LIST_MAX
        asked = view_requests.Jobs(
            viewer=viewer,
            job_ids=job_ids,
            include_ended=include_ended,
            limit=most,
            chosen=chosen,
            details=details,
            tasks=tasks,
        )
        return await self._ask(asked)

    async def nodes(self) -> bytes:
        """Return a `ListNodesResponse`. Raises NoPictureError."""
        return await self._ask(view_requests.Nodes())

    async def power(self, all_announced: bool = False) -> bytes:
        """Return a `Power`. Raises NoPictureError."""
        return await self._ask(view_requests.Power(all_announced))

    async def cluster(self, viewer: Peer, since_ns: int) -> bytes:
        """Return a `ClusterView` for an account, with jobs ended since. Raises NoPictureError."""
        return await self._ask(view_requests.Cluster(viewer=viewer, since_ns=since_ns))

    async def explanation(self, viewer: Peer, job_id: JobId) -> bytes:
        """Return an `ExplainResponse` for an account. Raises NoPictureError."""
        return await self._ask(view_requests.Explanation(viewer=viewer, job_id=job_id))

    async def metrics(self, figures: Figures) -> bytes:
        """Return the metrics as text, with these counters. Raises NoPictureError."""
        return await self._ask(view_requests.MetricsText(figures))

    async def close(self) -> None:
        """Cancel the pending requests."""
        if self._answering is not None:
            self._answering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._answering

    async def _ask(self, question: view_requests.Question) -> bytes:
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

    async def _put(self, questions: tuple[view_requests.Question, ...]) -> CallResult:
        return await self._feed.ask(
            pictures.answer,
            lambda anew: (self._setting(), self._told(anew), questions),
            deadline_s=ANSWER_DEADLINE_S,
        )

    def _told(self, anew: bool) -> view_requests.AgentReports:
        heard = list(self._messages if anew else self._heard)
        gone = tuple(self._gone)
        self._heard.clear()
        self._gone.clear()
        found = [(node_id, *self._messages[node_id]) for node_id in heard]
        return view_requests.AgentReports(
            messages=tuple((n, message.SerializeToString(), at) for n, message, at in found),
            gone=gone,
            power_uw=self._seen.power_uw,
            peak_uw=self._seen.peak_uw,
            energy_uj=self._seen.energy_uj,
        )


def _give(
    asked: list[tuple[view_requests.Question, asyncio.Future[bytes]]], result: CallResult
) -> None:
    answers: list[Any]
    if isinstance(result, Success):
        answers = result.value
    else:
        why = result.reason if isinstance(result, Crashed) else "no answer in time"
        answers = [why] * len(asked)
    for (_, future), found in zip(asked, answers, strict=True):
        if future.done():
            continue  # The caller is no longer there.
        if isinstance(found, bytes):
            future.set_result(found)
        else:
            future.set_exception(NoPictureError(found))
