"""Updates of a worker's copy of the state, and requests to the worker.

A request costs the loop time for the changes since the last request, in pieces of a few
milliseconds. Between requests only the names of changed jobs and nodes are collected. `replica` is
the worker's side.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.copies import replica
from wattfold.coordinator.core.model.announced import Announced
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node, NodeSpec
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.forecast import RunHistory
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success

NO_HISTORY = RunHistory()
"""Only checkpoints need the history, and they send it themselves."""
PIECE = 200
"""Maximum number of jobs, and of nodes, in one update: about 5 ms of the loop."""
TAKE_DEADLINE_S = 30.0
TRIES = 3
START_DEADLINE_S = 120.0


class ReplicaWorker(Protocol):
    """Runs functions in another process, one after the other (`SolverWorker`)."""

    async def call(
        self, function: Callable[..., Any], *args: object, deadline_s: float
    ) -> CallResult:
        """Return the result of ``function(*args)`` in the worker."""


class ReplicaFeed:
    """The coordinator's end of one copy. ``lean`` reduces a submission to the parts to copy."""

    def __init__(
        self, worker: ReplicaWorker, state: Callable[[], State], lean: Callable[[JobSpec], JobSpec]
    ) -> None:
        self._worker = worker
        self._state = state
        self._lean = lean
        self._turn = asyncio.Lock()
        self._changes = Changes(everything=True)
        self._number = replica.BEGIN
        self._job_specs: dict[JobId, JobSpec] = {}
        self._node_specs: dict[NodeId, NodeSpec | None] = {}
        self._known: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._announced: tuple[Announced, ...] | None = None

    async def started(self) -> CallResult:
        """Wait until the worker process has started and warmed up."""
        return await self._worker.call(len, "", deadline_s=START_DEADLINE_S)

    async def between(
        self, function: Callable[..., Any], *args: object, deadline_s: float
    ) -> CallResult:
        """Return ``function(*args)`` from the worker. Questions wait, and their deadlines too."""
        async with self._turn:
            return await self._worker.call(function, *args, deadline_s=deadline_s)

    def note(self, changes: Changes) -> None:
        """Record changes of the state."""
        self._changes.merge(changes)

    async def ask(
        self,
        function: Callable[..., Any],
        arguments: Callable[[bool], tuple[Any, ...]],
        deadline_s: float,
    ) -> CallResult:
        """Return ``function(replica, *arguments)`` from the worker, on the state of now or later.

        ``arguments`` is called after the copy has received all larger updates. Its parameter says
        whether the copy was rebuilt, so that it holds nothing of earlier calls.
        """
        async with self._turn:
            for _ in range(TRIES):
                result = await self._ask_once(function, arguments, deadline_s)
                if not (isinstance(result, Success) and isinstance(result.value, replica.Stale)):
                    return result
            return Crashed(reason="the worker process lost its state repeatedly", details="")

    async def _ask_once(
        self,
        function: Callable[..., Any],
        arguments: Callable[[bool], tuple[Any, ...]],
        deadline_s: float,
    ) -> CallResult:
        anew, whole = self._changes.everything, False
        pending = self._begin() if anew else self._taken()
        try:
            while len(pending.jobs) > PIECE or len(pending.nodes) > PIECE:
                update = self._update(pending.first(PIECE))
                result = await self._worker.call(replica.take, update, deadline_s=TAKE_DEADLINE_S)
                if not isinstance(result, Success) or result.value is not None:
                    return result
            if self._changes.everything:
                return Success(value=replica.Stale())
            # Sent together with the changes since then, so that the answer is about one moment.
            pending.merge(self._taken())
            update = self._update(pending)
            result = await self._worker.call(
                replica.ask, update, function, arguments(anew), deadline_s=deadline_s
            )
            whole = isinstance(result, Success) and not isinstance(result.value, replica.Stale)
            return result
        finally:
            if not whole:
                self._changes.everything = True

    def _taken(self) -> Changes:
        taken, self._changes = self._changes, Changes()
        return taken

    def _begin(self) -> Changes:
        state = self._state()
        self._changes = Changes()
        self._number, self._known, self._announced = replica.BEGIN, None, None
        self._job_specs.clear()
        self._node_specs.clear()
        job_ids = dict.fromkeys((*state.jobs, *state.arrays))
        return Changes(jobs=job_ids, nodes=dict.fromkeys(state.nodes))

    def _update(self, part: Changes) -> replica.Update:
        state = self._state()
        job_specs: dict[JobId, JobSpec] = {}
        node_specs: dict[NodeId, NodeSpec | None] = {}
        jobs = [self._job(state.jobs[j], job_specs) for j in part.jobs if j in state.jobs]
        nodes = [self._node(state.nodes[n], node_specs) for n in part.nodes if n in state.nodes]
        arrays = tuple(state.arrays[j] for j in part.jobs if j in state.arrays)
        jobs_gone = tuple(j for j in part.jobs if j not in state.jobs and j not in state.arrays)
        nodes_gone = tuple(n for n in part.nodes if n not in state.nodes)
        for job_id in jobs_gone:
            self._job_specs.pop(job_id, None)
        for node_id in nodes_gone:
            self._node_specs.pop(node_id, None)
        number, self._number = self._number, self._number + 1
        return replica.Update(
            number=number,
            rest=_rest(state),
            fixed_uw=state.index.fixed_uw,
            known=self._news(state),
            announced=self._announced_news(state),
            jobs=tuple(jobs),
            job_specs=job_specs,
            jobs_gone=jobs_gone,
            arrays=arrays,
            nodes=tuple((node, state.ledger.accounts.get(node.node_id)) for node in nodes),
            node_specs=node_specs,
            nodes_gone=nodes_gone,
        )

    def _job(self, job: Job, new: dict[JobId, JobSpec]) -> Job:
        if self._job_specs.get(job.job_id) is not job.spec:
            self._job_specs[job.job_id] = job.spec
            new[job.job_id] = self._lean(job.spec)
        bare = copy.copy(job)
        bare.spec = None  # type: ignore[assignment]
        return bare

    def _node(self, node: Node, new: dict[NodeId, NodeSpec | None]) -> Node:
        if node.node_id not in self._node_specs or (
            self._node_specs[node.node_id] is not node.spec
        ):
            self._node_specs[node.node_id] = new[node.node_id] = node.spec
        bare = copy.copy(node)
        bare.spec = None
        return bare

    def _news(self, state: State) -> tuple[dict[str, Any], dict[str, Any]] | None:
        now = (state.profiles, state.certificates)
        if self._known == now:
            return None
        self._known = (dict(state.profiles), dict(state.certificates))
        return self._known

    def _announced_news(self, state: State) -> tuple[Announced, ...] | None:
        """Return the announced budgets if they changed. Each change makes a new tuple."""
        if self._announced is state.announced:
            return None
        self._announced = state.announced
        return state.announced


def whole(spec: JobSpec) -> JobSpec:
    """Return a submission unchanged, for checkpoints."""
    return spec


def for_planning(spec: JobSpec) -> JobSpec:
    """Return a submission without the fields that no policy reads."""
    return replace(spec, argv=(), cwd="", stdout_path="", stderr_path="")


def _rest(state: State) -> State:
    """Return the state without the parts that are sent separately."""
    rest, ledger = copy.copy(state), copy.copy(state.ledger)
    ledger.accounts, ledger.touched, ledger._timed = {}, set(), set()
    rest.ledger = ledger
    for name in replica.SENT_APART:
        setattr(rest, name, {})
    rest.history = NO_HISTORY
    rest.derived = None  # type: ignore[assignment]
    return rest
