"""Derived from the state: which jobs are where, what has changed, what is due when.

Nothing here decides anything or is stored: `Index` is built anew from the state when it is loaded.
It saves looking at everything on every event. Its rule is to err on the side of more: an index may
name a job that has left (readers look at the job itself), and something marked as touched that has
not changed costs a look and nothing else. So whoever changes

- a node, its account or a process on it touches the node (an event touches the node it names);
- the target of a job, or whether its processes are to end, touches the job.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.job import PLACED_STATES, Job
from wattfold.coordinator.core.node import Duty, Node


@dataclass(slots=True)
class Touched:
    """What `reconcile` has to look at. ``everything`` stands for all nodes and jobs."""

    everything: bool = True
    nodes: set[NodeId] = field(default_factory=set)
    jobs: set[JobId] = field(default_factory=set)
    """Jobs to look at on all their nodes; of others only what is on touched nodes."""
    shown: dict[JobId, None] = field(default_factory=dict)
    """Jobs that only look different (a reason): nothing follows from it."""


class Index:
    """See the module. Orders are those of the state's own dictionaries."""

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        nodes: Iterable[Node] = (),
        keys: Mapping[str, JobId] | None = None,
    ) -> None:
        self.touched = Touched()
        self.news: list[JobId] = []
        """Jobs of which the last event said that they run, are on their way out or have ended."""
        self.open: dict[JobId, Job] = {}
        """Jobs that have not ended, in order of submission."""
        self.ended: dict[JobId, None] = {}
        """The others, in order of their ends."""
        self.unadmitted: dict[NodeId, Node] = {}
        self.retired: dict[NodeId, Node] = {}
        self.leaving: dict[NodeId, Node] = {}
        """Nodes that are to be given back and are not yet."""
        self.fixed_uw = 0
        """Sum of `set_fixed` over all nodes."""
        self._fixed_uw: dict[NodeId, int] = {}
        self._numbers = itertools.count()
        self._job_order: dict[JobId, int] = {}
        self._node_order: dict[NodeId, int] = {}
        self._placed: dict[JobId, Job] = {}
        self._on_node: dict[NodeId, dict[JobId, Job]] = {}
        self._nodes_of: dict[JobId, tuple[NodeId, ...]] = {}
        self._due: dict[NodeId, int] = {}
        self._queue: list[tuple[int, NodeId]] = []
        self._limits: list[tuple[int, JobId]] = []
        for node in nodes:
            self.add_node(node)
        over: list[Job] = []
        for job in jobs:
            if job.final:
                over.append(job)
                continue
            self.add_job(job)
            self.add_limit(job)
            if job.state in PLACED_STATES:
                self.place(job)
        self.ended.update((job.job_id, None) for job in sorted(over, key=lambda j: j.ended_ns))
        self.key_of: dict[JobId, str] = {}
        """The idempotency key of a job that has one."""
        self.spent_keys: dict[str, None] = {}
        """Keys of jobs that are forgotten, in the order in which they were."""
        for key, job_id in (keys or {}).items():
            if job_id in self.open or job_id in self.ended:
                self.key_of[job_id] = key
            else:
                self.spent_keys[key] = None

    # Jobs.

    def add_job(self, job: Job) -> None:
        """A job was submitted."""
        self._job_order[job.job_id] = next(self._numbers)
        self.open[job.job_id] = job

    def place(self, job: Job) -> None:
        """A job has a target or processes: it is on their nodes from now on."""
        self.displace(job)
        targets = [target for target in (job.target, job.following) if target]
        wanted = [share.node_id for target in targets for share in target.shares]
        self._nodes_of[job.job_id] = tuple(dict.fromkeys((*wanted, *job.ranks)))
        self._placed[job.job_id] = job
        for node_id in self._nodes_of[job.job_id]:
            self._on_node.setdefault(node_id, {})[job.job_id] = job
        self.touch_job(job)

    def displace(self, job: Job) -> None:
        """A job holds nothing any more; its nodes are touched."""
        self.touch_job(job)
        self._placed.pop(job.job_id, None)
        for node_id in self._nodes_of.pop(job.job_id, ()):
            self._on_node[node_id].pop(job.job_id, None)

    def end_job(self, job: Job) -> None:
        """A job has ended."""
        self.displace(job)
        self.open.pop(job.job_id, None)
        self._job_order.pop(job.job_id, None)
        self.ended[job.job_id] = None

    def forget_job(self, job_id: JobId) -> None:
        """A job that had ended is not in the state any more."""
        self.ended.pop(job_id, None)
        self.touched.shown[job_id] = None

    def add_limit(self, job: Job) -> None:
        """A job runs: its time limit is due some day."""
        if job.limit_at_ns >= 0:
            heapq.heappush(self._limits, (job.limit_at_ns, job.job_id))

    def next_limit_ns(self) -> int | None:
        """When the next running job has had its time."""
        while self._limits and not self._runs(*self._limits[0]):
            heapq.heappop(self._limits)
        return self._limits[0][0] if self._limits else None

    def take_over_limit(self, now_ns: int) -> list[Job]:
        """The running jobs that have had their time by now, each once."""
        out: list[Job] = []
        while (due_ns := self.next_limit_ns()) is not None and due_ns <= now_ns:
            out.append(self.open[heapq.heappop(self._limits)[1]])
        return out

    def _runs(self, limit_at_ns: int, job_id: JobId) -> bool:
        # Another limit is of another attempt, or of before the job was suspended.
        return job_id in self.open and self.open[job_id].limit_at_ns == limit_at_ns

    def ordered(self, jobs: Iterable[Job]) -> list[Job]:
        """Open jobs in order of submission."""
        return sorted(jobs, key=lambda job: self._job_order[job.job_id])

    def placed(self) -> list[Job]:
        """Jobs that hold or are about to hold cores, in order of submission."""
        return self.ordered(job for job in self._placed.values() if job.state in PLACED_STATES)

    def is_placed(self, job: Job) -> bool:
        """Whether `placed` has this job."""
        return self._placed.get(job.job_id) is job

    def on_node(self, node_id: NodeId) -> list[Job]:
        """Those of `placed` with a process or a share on a node."""
        there = self._on_node.get(node_id)
        if not there:
            return []
        jobs = [job for job in there.values() if job.state in PLACED_STATES]
        return self.ordered(jobs) if len(jobs) > 1 else jobs

    # Nodes.

    def add_node(self, node: Node) -> None:
        """A node was registered."""
        self._node_order[node.node_id] = next(self._numbers)
        if not node.admitted:
            self.unadmitted[node.node_id] = node
        if node.retired:
            self.retired[node.node_id] = node
        self.note_duty(node)

    def note_duty(self, node: Node) -> None:
        """The duty of a node is another one."""
        if node.duty in (Duty.LEAVING, Duty.RESTORING):
            self.leaving[node.node_id] = node
        else:
            self.leaving.pop(node.node_id, None)

    def drop_node(self, node_id: NodeId) -> None:
        """A node is gone."""
        self.set_fixed(node_id, 0)
        self.set_due(node_id, None)
        self.unadmitted.pop(node_id, None)
        self.retired.pop(node_id, None)
        self.leaving.pop(node_id, None)
        self._node_order.pop(node_id, None)
        self.touched.nodes.discard(node_id)

    def set_fixed(self, node_id: NodeId, fixed_uw: int) -> None:
        """What an admitted node is charged with at the least."""
        self.fixed_uw += fixed_uw - self._fixed_uw.get(node_id, 0)
        self._fixed_uw[node_id] = fixed_uw

    def node_order(self, node_id: NodeId) -> int:
        """Position by which nodes are taken."""
        return self._node_order[node_id]

    # What has changed.

    def touch(self, node_id: NodeId) -> None:
        """Something about a node or what runs there may have changed."""
        self.touched.nodes.add(node_id)

    def touch_job(self, job: Job) -> None:
        """What is wanted of a job may have changed, and with it the caps of its nodes."""
        self.touched.jobs.add(job.job_id)
        self.touched.nodes.update(self._nodes_of.get(job.job_id, ()))

    def show_job(self, job_id: JobId) -> None:
        """Something about a job that only people read may have changed."""
        self.touched.shown[job_id] = None

    def touch_everything(self) -> None:
        """Look at all of it."""
        self.touched.everything = True

    # What is due.

    def set_due(self, node_id: NodeId, time_ns: int | None) -> None:
        """When something about a node is due without an event, None = never."""
        if time_ns is None:
            self._due.pop(node_id, None)
        elif self._due.get(node_id) != time_ns:
            self._due[node_id] = time_ns
            heapq.heappush(self._queue, (time_ns, node_id))

    def next_due_ns(self) -> int | None:
        """When the next node is due."""
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def touch_due(self, now_ns: int) -> None:
        """Touches the nodes that are due by now."""
        while (due_ns := self.next_due_ns()) is not None and due_ns <= now_ns:
            _, node_id = heapq.heappop(self._queue)
            del self._due[node_id]
            self.touch(node_id)
