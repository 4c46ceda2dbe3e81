"""A copy of the core's state in a worker process, updated with changes only.

Views and planning examine all jobs and nodes. Worker processes do this on their own copy, so that
it takes no time from the loop that renews leases. `replica_feed` is the coordinator's side. This
module is the worker's side: functions that the feed calls there. Updates are numbered. A worker
that was restarted reports this and receives the whole state again. The copy for planning lacks data
that only the launch needs (environment, arguments, paths).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.announced import Announced
from wattfold.coordinator.core.model.job import PLACED_STATES, Job
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node, NodeSpec
from wattfold.coordinator.core.power.ledger import NodeAccount, PowerLedger
from wattfold.coordinator.core.state.index import Touched
from wattfold.coordinator.core.state.state import CoreSettings, State

BEGIN = 0
"""Number of an update that needs no update before it."""
SENT_APART = frozenset(
    {"jobs", "arrays", "nodes", "keys", "key_prints", "profiles", "certificates", "announced"}
)
"""State fields that are not sent whole with every update. Keys and history are never sent."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The changes since the previous update.

    Jobs and nodes come without their specs, which rarely change: ``job_specs`` and ``node_specs``
    contain the new specs. ``rest`` is the state without jobs and nodes. ``known`` holds its
    profiles and certificates if these have changed, ``announced`` the announced budgets if these
    have changed.
    """

    number: int
    rest: State
    fixed_uw: int = 0
    """`Index.fixed_uw`, a sum over the nodes."""
    known: tuple[dict[str, Any], dict[str, Any]] | None = None
    announced: tuple[Announced, ...] | None = None
    jobs: tuple[Job, ...] = ()
    job_specs: dict[JobId, JobSpec] = field(default_factory=dict)
    jobs_gone: tuple[JobId, ...] = ()
    """Deleted jobs and arrays."""
    arrays: tuple[JobArray, ...] = ()
    nodes: tuple[tuple[Node, NodeAccount | None], ...] = ()
    node_specs: dict[NodeId, NodeSpec | None] = field(default_factory=dict)
    nodes_gone: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Stale:
    """The answer of a worker that lacks the updates before this update."""


class Replica:
    """The copy of the state. The functions of the core can read its ``state``."""

    def __init__(self) -> None:
        self.number = BEGIN
        self.state = State(settings=CoreSettings(), ledger=PowerLedger(budget_uw=0))
        self._companions: dict[type, Any] = {}

    def companion(self, kind: Callable[[Replica], T]) -> T:
        """Return the object of this class that is derived from this copy; created on first use."""
        assert isinstance(kind, type)
        if kind not in self._companions:
            self._companions[kind] = kind(self)
        found: T = self._companions[kind]
        return found

    def take(self, update: Update) -> None:
        """Apply an update to the copy."""
        self.number = update.number
        self._take_rest(update)
        for node_id in update.nodes_gone:
            self._drop_node(node_id)
        for node, account in update.nodes:
            self._put_node(node, account, update)
        for job_id in update.jobs_gone:
            self._drop_job(job_id)
        for array in update.arrays:
            self.state.arrays[array.array_id] = array
            self.state.index.show_job(array.array_id)
        for job in update.jobs:
            known = self.state.jobs.get(job.job_id)
            job.spec = update.job_specs.get(job.job_id) or known.spec  # type: ignore[union-attr]
            self._put_job(job)

    def take_touched(self) -> Touched:
        """Return the changes by updates since the last call."""
        index = self.state.index
        touched, index.touched = index.touched, Touched(everything=False)
        return touched

    def _take_rest(self, update: Update) -> None:
        state, accounts = self.state, self.state.ledger.accounts
        for part in fields(State):
            if part.init and part.name not in SENT_APART:
                setattr(state, part.name, getattr(update.rest, part.name))
        state.ledger.accounts = accounts
        state.index.fixed_uw = update.fixed_uw
        if update.known is not None:
            state.profiles, state.certificates = update.known
        if update.announced is not None:
            state.announced = update.announced

    def _put_node(self, node: Node, account: NodeAccount | None, update: Update) -> None:
        state = self.state
        known = state.nodes.get(node.node_id)
        if node.node_id in update.node_specs:
            node.spec = update.node_specs[node.node_id]
        elif known is not None:
            node.spec = known.spec
        if known is None:
            state.index.add_node(node)
        state.nodes[node.node_id] = node
        # The index holds the object of the last update.
        state.index.switching.pop(node.node_id, None)
        state.index.note_power(node)
        if node.admitted:
            state.index.unadmitted.pop(node.node_id, None)
        else:
            state.index.unadmitted[node.node_id] = node
        state.index.touch(node.node_id)
        if account is None:
            state.ledger.accounts.pop(node.node_id, None)
        else:
            state.ledger.accounts[node.node_id] = account

    def _drop_node(self, node_id: NodeId) -> None:
        state = self.state
        state.ledger.accounts.pop(node_id, None)
        if state.nodes.pop(node_id, None) is not None:
            state.index.drop_node(node_id)
            state.index.touch(node_id)

    def _put_job(self, job: Job) -> None:
        state, index = self.state, self.state.index
        state.jobs[job.job_id] = job
        if job.final:
            index.displace(job)
            if job.job_id not in index.ended:
                index.end_job(job)
            return
        if job.job_id in index.open:
            index.renew_job(job)
        elif job.job_id in index.ended:
            index.reopen_job(job, state.jobs.values())
        else:
            index.add_job(job)
        if job.state in PLACED_STATES:
            index.place(job)
        else:
            index.displace(job)

    def _drop_job(self, job_id: JobId) -> None:
        job = self.state.jobs.pop(job_id, None)
        self.state.arrays.pop(job_id, None)
        if job is not None:
            if not job.final:
                self.state.index.end_job(job)
            self.state.index.forget_job(job_id)


class _ReplicaProcess:
    """The single copy of a worker process."""

    replica: Replica | None = None


def take(update: Update) -> Stale | None:
    """Apply an update. Runs in the worker."""
    if update.number == BEGIN:
        _ReplicaProcess.replica = Replica()
        _ReplicaProcess.replica.take_touched()
    replica = _ReplicaProcess.replica
    if replica is None or update.number not in (BEGIN, replica.number + 1):
        return Stale()
    replica.take(update)
    return None


def ask(update: Update, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Apply an update, then return ``function(replica, *arguments)``. Runs in the worker."""
    stale = take(update)
    if stale is not None:
        return stale
    return function(_ReplicaProcess.replica, *arguments)
