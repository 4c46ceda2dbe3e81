"""Index of the state: placed jobs, changes, and due times.

The index decides nothing and is not stored: `Index` is rebuilt from a loaded state. It avoids a
scan of the state on every event. An index may contain too much, but never too little: it may name a
job that has left, and readers check the job itself. A touched item without a change costs only an
examination. Therefore

- a change of a node, its account or a process on it touches the node; events touch their node;
- a change of the target of a job, or an order to end its processes, touches the job.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattfold.contract.ids import JobId, NodeId, array_of
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.conditions import DependencyState
from wattfold.coordinator.core.model.node import Duty, Node
from wattfold.coordinator.core.model.node_power import SWITCHING


@dataclass(slots=True)
class Touched:
    """Items that `reconcile` has to examine. ``everything`` stands for all nodes and jobs."""

    everything: bool = True
    nodes: set[NodeId] = field(default_factory=set)
    jobs: set[JobId] = field(default_factory=set)
    """Jobs to examine on all their nodes. Other jobs are examined only on touched nodes."""
    shown: dict[JobId, None] = field(default_factory=dict)
    """Jobs with a changed description, such as a reason, but without consequences."""


class Index:
    """Index of jobs and nodes. Orders are those of the state's own dictionaries."""

    def __init__(
        self,
        jobs: Iterable[Job] = (),
        nodes: Iterable[Node] = (),
        keys: Mapping[str, JobId] | None = None,
        arrays: Iterable[JobId] = (),
    ) -> None:
        self.touched = Touched()
        self.news: list[JobId] = []
        """Jobs that started to run, began to end or ended with the last event."""
        self.forgotten: list[JobId] = []
        """Jobs deleted by the last event."""
        self.disbelieved_ns = 0
        """Part of the time away that did not pass, as the last event showed."""
        self.open: dict[JobId, Job] = {}
        """Jobs that have not ended, in order of submission."""
        self.ended: dict[JobId, None] = {}  # In order of their ends.
        self.unadmitted: dict[NodeId, Node] = {}
        self.retired: dict[NodeId, Node] = {}
        self.leaving: dict[NodeId, Node] = {}
        """Nodes that were ordered to leave and have not left yet."""
        self.switching: dict[NodeId, Node] = {}
        """Nodes that fall asleep, boot, or were ordered to, in the order of their registration."""
        self.fixed_uw = 0
        """Sum of `set_fixed` over all nodes."""
        self._fixed_uw: dict[NodeId, int] = {}
        self._number = 0
        self._job_order: dict[JobId, int] = {}
        self._node_order: dict[NodeId, int] = {}
        self._placed: dict[JobId, Job] = {}
        self._on_node: dict[NodeId, dict[JobId, Job]] = {}
        self._nodes_of: dict[JobId, tuple[NodeId, ...]] = {}
        self._due: dict[NodeId, int] = {}
        self._queue: list[tuple[int, NodeId]] = []
        self._limits: list[tuple[int, JobId]] = []
        self._begins: list[tuple[int, JobId]] = []
        self._followers: dict[JobId, dict[JobId, None]] = {}
        self._tasks: dict[JobId, dict[JobId, Job]] = {}
        self._ended_tasks: dict[JobId, dict[JobId, None]] = {}
        self.unfilled: dict[JobId, None] = {}
        """Arrays that may lack tasks, besides the arrays of touched tasks."""
        self.node_changes = 0  # Number of calls of `nodes_changed`.
        self.capacities: dict[JobId, int] = {}
        """Numbers of tasks that the known nodes could run, of arrays that asked for it."""
        for node in nodes:
            self.add_node(node)
        over: list[Job] = []
        for job in jobs:
            if job.final:
                over.append(job)
                self._note_end(job.job_id)
                continue
            self.add_job(job)
            self.add_limit(job)
            if job.state in PLACED_STATES:
                self.place(job)
        self.ended.update((job.job_id, None) for job in sorted(over, key=lambda j: j.ended_ns))
        self.key_of: dict[JobId, str] = {}
        """Idempotency key of each job that has a key."""
        self.spent_keys: dict[str, None] = {}
        """Keys of deleted jobs, in order of deletion."""
        known_arrays = {*arrays}
        for key, job_id in (keys or {}).items():
            if job_id in self.open or job_id in self.ended or job_id in known_arrays:
                self.key_of[job_id] = key
            else:
                self.spent_keys[key] = None

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    # Jobs.

    def add_job(self, job: Job) -> None:
        """Add a submitted job."""
        self._job_order[job.job_id] = self._next_number()
        self.open[job.job_id] = job
        if array_id := array_of(job.job_id):
            self._tasks.setdefault(array_id, {})[job.job_id] = job
        for one in unsettled(job):
            self._followers.setdefault(one, {})[job.job_id] = None
        self.add_begin(job)

    def place(self, job: Job) -> None:
        """Record the nodes of a job with a target or processes."""
        self.displace(job)
        targets = [target for target in (job.target, job.following) if target]
        wanted = [share.node_id for target in targets for share in target.shares]
        self._nodes_of[job.job_id] = tuple(dict.fromkeys((*wanted, *job.ranks)))
        self._placed[job.job_id] = job
        for node_id in self._nodes_of[job.job_id]:
            self._on_node.setdefault(node_id, {})[job.job_id] = job
        self.touch_job(job)

    def displace(self, job: Job) -> None:
        """Remove a job from its nodes, and touch them."""
        self.touch_job(job)
        self._placed.pop(job.job_id, None)
        for node_id in self._nodes_of.pop(job.job_id, ()):
            self._on_node[node_id].pop(job.job_id, None)

    def end_job(self, job: Job) -> None:
        """Move a job to the ended jobs."""
        self.displace(job)
        self.open.pop(job.job_id, None)
        self._job_order.pop(job.job_id, None)
        self.ended[job.job_id] = None
        self._note_end(job.job_id)
        for one in unsettled(job):
            self.unfollow(job.job_id, one)

    def renew_job(self, job: Job) -> None:
        """Replace the object of an open job. For copies of the state."""
        self.open[job.job_id] = job
        if array_id := array_of(job.job_id):
            self._tasks[array_id][job.job_id] = job

    def reopen_job(self, job: Job, jobs: Iterable[Job]) -> None:
        """Reopen an ended job. ``jobs`` are all jobs in order of submission."""
        self.ended.pop(job.job_id, None)
        self._forget_end(job.job_id)
        self.open.clear()
        self._tasks.clear()
        for one in jobs:
            if not one.final:
                self.add_job(one)

    def forget_job(self, job_id: JobId) -> None:
        """Remove a deleted job or array."""
        self.ended.pop(job_id, None)
        self._forget_end(job_id)
        self._followers.pop(job_id, None)
        self.forgotten.append(job_id)
        self.touched.shown[job_id] = None

    # Tasks of arrays.

    def tasks(self, array_id: JobId) -> dict[JobId, Job]:
        """Return the tasks of an array that are jobs and have not ended."""
        return self._tasks.get(array_id, {})

    def ended_tasks(self, array_id: JobId) -> dict[JobId, None]:
        """Return the ended tasks of an array that the core has not deleted."""
        return self._ended_tasks.get(array_id, {})

    def take_unfilled(self, arrays: Iterable[JobId]) -> list[JobId]:
        """Remove and return the arrays that may lack tasks, from all these arrays."""
        found, self.unfilled = self.unfilled, {}
        if self.touched.everything:
            return list(arrays)
        found.update(dict.fromkeys(map(array_of, self.touched.jobs)))
        # In the order of the arrays, so that the order of new tasks is always the same.
        return [array_id for array_id in arrays if array_id in found] if found else []

    def nodes_changed(self, arrays: Iterable[JobId]) -> None:
        """Let arrays count again how many of their tasks the nodes could run."""
        self.node_changes, self.capacities = self.node_changes + 1, {}
        self.unfilled.update(dict.fromkeys(arrays))

    def _note_end(self, job_id: JobId) -> None:
        if array_id := array_of(job_id):
            self._ended_tasks.setdefault(array_id, {})[job_id] = None
            left = self._tasks.get(array_id, {})
            left.pop(job_id, None)
            if not left:
                self._tasks.pop(array_id, None)

    def _forget_end(self, job_id: JobId) -> None:
        if array_id := array_of(job_id):
            known = self._ended_tasks.get(array_id, {})
            known.pop(job_id, None)
            if not known:
                self._ended_tasks.pop(array_id, None)

    # Time limits.

    def add_limit(self, job: Job) -> None:
        """Record the time limit of a running job."""
        if job.limit_at_ns >= 0:
            heapq.heappush(self._limits, (job.limit_at_ns, job.job_id))

    def next_limit_ns(self) -> int | None:
        """Return when the next running job reaches its time limit."""
        while self._limits and not self._runs(*self._limits[0]):
            heapq.heappop(self._limits)
        return self._limits[0][0] if self._limits else None

    def take_over_limit(self, now_ns: int) -> list[Job]:
        """Remove and return the running jobs that have reached their time limits, each once."""
        out: list[Job] = []
        while (due_ns := self.next_limit_ns()) is not None and due_ns <= now_ns:
            job = self.open[heapq.heappop(self._limits)[1]]
            # Two attempts that started at the same time have equal limits, which follow each other.
            if not out or out[-1] is not job:
                out.append(job)
        return out

    def _runs(self, limit_at_ns: int, job_id: JobId) -> bool:
        # Another limit belongs to another attempt, or to a time before a suspension. An unconfirmed
        # run time is confirmed together with its limit.
        job = self.open.get(job_id)
        return job is not None and job.limit_at_ns == limit_at_ns and not job.unconfirmed

    # Conditions of starts.

    def followers(self, job_id: JobId) -> list[JobId]:
        """Return the open jobs that depend on a job, unless that dependency is settled."""
        return list(self._followers.get(job_id, ()))

    def unfollow(self, follower: JobId, job_id: JobId) -> None:
        """Remove a job from the jobs that depend on another job."""
        known = self._followers.get(job_id)
        if known is not None:
            known.pop(follower, None)
            if not known:
                del self._followers[job_id]

    def all_followers(self) -> dict[JobId, set[JobId]]:
        """Return the jobs that depend on each job, for checks."""
        return {job_id: set(known) for job_id, known in self._followers.items()}

    def add_begin(self, job: Job) -> None:
        """Record the begin time of a job that waits."""
        if job.conditions.begin_ns >= 0:
            heapq.heappush(self._begins, (job.conditions.begin_ns, job.job_id))

    def next_begin_ns(self) -> int | None:
        """Return when the begin time of the next waiting job comes."""
        while self._begins and not self._begins_at(*self._begins[0]):
            heapq.heappop(self._begins)
        return self._begins[0][0] if self._begins else None

    def take_begun(self, now_ns: int) -> list[Job]:
        """Remove and return the waiting jobs whose begin time has come."""
        out: list[Job] = []
        while (begin_ns := self.next_begin_ns()) is not None and begin_ns <= now_ns:
            out.append(self.open[heapq.heappop(self._begins)[1]])
        return out

    def _begins_at(self, begin_ns: int, job_id: JobId) -> bool:
        # A job that is held or pending is reviewed, and recorded again, when it has to wait.
        job = self.open.get(job_id)
        if job is None or job.state is not JobState.WAITING:
            return False
        return job.conditions.begin_ns == begin_ns

    def ordered(self, jobs: Iterable[Job]) -> list[Job]:
        """Sort open jobs in order of submission."""
        return sorted(jobs, key=lambda job: self._job_order[job.job_id])

    def placed(self) -> list[Job]:
        """Return jobs that hold or are about to hold cores, in order of submission."""
        return self.ordered(job for job in self._placed.values() if job.state in PLACED_STATES)

    def is_placed(self, job: Job) -> bool:
        """Whether `placed` contains this job."""
        return self._placed.get(job.job_id) is job

    def on_node(self, node_id: NodeId) -> list[Job]:
        """Return placed jobs with a process or a share on a node."""
        there = self._on_node.get(node_id)
        if not there:
            return []
        jobs = [job for job in there.values() if job.state in PLACED_STATES]
        return self.ordered(jobs) if len(jobs) > 1 else jobs

    # Nodes.

    def add_node(self, node: Node) -> None:
        """Add a registered node."""
        self._node_order[node.node_id] = self._next_number()
        if not node.admitted:
            self.unadmitted[node.node_id] = node
        if node.retired:
            self.retired[node.node_id] = node
        self.note_duty(node)
        self.note_power(node)

    def note_power(self, node: Node) -> None:
        """Record a changed power state of a node."""
        if node.power not in SWITCHING:
            self.switching.pop(node.node_id, None)
        elif node.node_id not in self.switching:
            self.switching[node.node_id] = node
            order = sorted(self.switching, key=self.node_order)
            self.switching = {node_id: self.switching[node_id] for node_id in order}

    def note_duty(self, node: Node) -> None:
        """Record a changed administrative state of a node."""
        if node.duty in (Duty.LEAVING, Duty.RESTORING):
            self.leaving[node.node_id] = node
        else:
            self.leaving.pop(node.node_id, None)

    def drop_node(self, node_id: NodeId) -> None:
        """Remove a node."""
        self.set_fixed(node_id, 0)
        self.set_due(node_id, None)
        self.unadmitted.pop(node_id, None)
        self.retired.pop(node_id, None)
        self.leaving.pop(node_id, None)
        self.switching.pop(node_id, None)
        self._node_order.pop(node_id, None)
        self.touched.nodes.discard(node_id)

    def set_fixed(self, node_id: NodeId, fixed_uw: int) -> None:
        """Record the minimum charge of an admitted node."""
        self.fixed_uw += fixed_uw - self._fixed_uw.get(node_id, 0)
        self._fixed_uw[node_id] = fixed_uw

    def node_order(self, node_id: NodeId) -> int:
        """Return the position of a node in the processing order."""
        return self._node_order[node_id]

    # Changes.

    def touch(self, node_id: NodeId) -> None:
        """Record that a node, or a process on it, may have changed."""
        self.touched.nodes.add(node_id)

    def touch_job(self, job: Job) -> None:
        """Record that the target state of a job, and the caps of its nodes, may have changed."""
        self.touched.jobs.add(job.job_id)
        self.touched.nodes.update(self._nodes_of.get(job.job_id, ()))

    def show_job(self, job_id: JobId) -> None:
        """Record that a description of a job may have changed."""
        self.touched.shown[job_id] = None

    def touch_everything(self) -> None:
        """Record that everything may have changed."""
        self.touched.everything = True

    # Due times.

    def set_due(self, node_id: NodeId, time_ns: int | None) -> None:
        """Set when something about a node is due without an event; None = never."""
        if time_ns is None:
            self._due.pop(node_id, None)
        elif self._due.get(node_id) != time_ns:
            self._due[node_id] = time_ns
            heapq.heappush(self._queue, (time_ns, node_id))

    def next_due_ns(self) -> int | None:
        """Return when the next node is due."""
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def touch_due(self, now_ns: int) -> None:
        """Touch the nodes that are due by now."""
        while (due_ns := self.next_due_ns()) is not None and due_ns <= now_ns:
            _, node_id = heapq.heappop(self._queue)
            del self._due[node_id]
            self.touch(node_id)


def unsettled(job: Job) -> list[JobId]:
    """Return the jobs that a job depends on and that the core has not deleted."""
    return [one.job_id for one in job.conditions.after if one.settled is DependencyState.OPEN]
