"""The window of a job array: which of its tasks exist as jobs.

Only as many tasks exist as the known nodes could run at the same time, at the smallest size. So
policies, plans and copies of the state never handle 100,000 tasks, and they need no rule about
arrays. Tasks are made in the order of their indices after each event, and never by an event of
their own: one event stands in the journal, and a replay makes the same tasks. An event that names
a task makes it first.

No more tasks are active than the limit of the array. A held task is not active. If a task becomes
active beyond the limit, because it was released, it waits until another task ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from wattfold.contract.ids import JobId
from wattfold.coordinator.core.model.job import HELD, Job, JobState
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Node
from wattfold.coordinator.core.rules.job_arrays.array_counts import awaited
from wattfold.coordinator.core.rules.jobs import deletion, start_conditions
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED
from wattfold.coordinator.core.rules.jobs.start_conditions import NOT_PLANNED
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.models.pass_model import SizeUnit

UNPLACED_MAX = 2_000
"""Maximum number of tasks of an array that wait as jobs. Plans place them and make room."""
LIMITED = "waits for the end of another task: its array has a limit"
"""Reason of a task beyond the limit of its array."""


def fill(state: State, now_ns: int) -> None:
    """Make the tasks that arrays lack, and enforce their limits."""
    if not state.arrays:
        return
    for array_id in state.index.take_unfilled(state.arrays):
        _fill(state, state.arrays[array_id], now_ns)
    deletion.drop_oldest(state)


def _fill(state: State, array: JobArray, now_ns: int) -> None:
    tasks = state.index.tasks(array.array_id)
    _note_conditions(array, tasks.values(), now_ns)
    states = Counter(job.state for job in tasks.values())
    limited = [job for job in tasks.values() if is_limited(job)]
    active = len(tasks) - states[JobState.HELD] - len(limited)
    room = array.limit - active if array.limit else len(limited)
    for job in limited[: max(room, 0)]:
        _activate(state, job, now_ns)
        active += 1
    if room < 0:
        _put_off(state, list(tasks.values()), -room)
        return
    if array.held or not array.left:
        return
    most = min(array.limit or active + array.left, capacity(state, array))
    if array.conditions:
        most = 1  # The first task stands for the others until it has met the conditions.
    waiting = states[JobState.PENDING] + states[JobState.WAITING]
    for _ in range(min(most - active, UNPLACED_MAX - waiting, array.left)):
        make(state, array, array.index_set[array.taken], now_ns)


def is_limited(job: Job) -> bool:
    """Whether a task waits only because of the limit of its array."""
    return job.state is JobState.WAITING and job.reason == LIMITED


def _activate(state: State, job: Job, now_ns: int) -> None:
    job.state, job.reason, job.freed_ns = JobState.PENDING, NOT_PLANNED, now_ns
    state.index.touch_job(job)
    state.plan_needed = "task may start"


def _put_off(state: State, tasks: list[Job], excess: int) -> None:
    """Let the last waiting tasks beyond the limit wait for the ends of others."""
    waiting = [job for job in tasks if job.state is JobState.PENDING]
    for job in waiting[len(waiting) - min(excess, len(waiting)) :]:
        job.state, job.reason = JobState.WAITING, LIMITED
        job.expected_start_ns, job.promise = 0, None
        state.index.touch_job(job)
        state.plan_needed = "task waits for the limit of its array"


def _note_conditions(array: JobArray, tasks: Iterable[Job], now_ns: int) -> None:
    """Use the conditions of an array up when a task has met them."""
    if not array.conditions:
        return
    for job in tasks:
        if job.state not in (JobState.HELD, JobState.WAITING):
            array.conditions, array.freed_ns = UNCONDITIONAL, now_ns
            return


def task(array: JobArray, index: int, now_ns: int) -> Job:
    """Return a task as the job that it will be. Changes nothing."""
    limited = array.limit and now_ns > array.submitted_ns
    return Job(
        job_id=array.task_id(index),
        spec=array.spec,
        state=JobState.HELD if array.held else JobState.PENDING,
        submitted_ns=array.submitted_ns,
        done_at_ns=now_ns,
        reason=HELD if array.held else NOT_PLANNED,
        epoch=array.epoch,
        conditions=array.conditions,
        freed_ns=now_ns if limited else array.freed_ns,
        known=array.known,
    )


def next_task(array: JobArray, now_ns: int) -> Job:
    """Return the first task that is not a job yet, or else the last task, as a job."""
    position = min(array.taken, len(array.index_set) - 1)
    return task(array, array.index_set[position], now_ns)


def first_waiting(state: State, array: JobArray, now_ns: int) -> Job | None:
    """Return the first task of an array that has not started, as a job; None if all have."""
    tasks = state.index.tasks(array.array_id).values()
    waiting = (job for job in tasks if job.state in UNSTARTED)
    return next(waiting, None) or (next_task(array, now_ns) if array.left else None)


def make(state: State, array: JobArray, index: int, now_ns: int) -> Job:
    """Add a task to the jobs."""
    job = task(array, index, now_ns)
    state.jobs[job.job_id] = job
    state.index.add_job(job)
    state.index.touch_job(job)
    start_conditions.submitted(state, job, now_ns)
    array.early.append(index)
    array.pass_taken()
    state.index.show_job(array.array_id)
    if job.state is JobState.PENDING:
        state.plan_needed = "task of an array submitted"
    return job


def name(state: State, job_id: JobId, now_ns: int) -> None:
    """Make a job of the task that an event names, unless it is a job already."""
    found = awaited(state, job_id)
    if found is not None:
        make(state, *found, now_ns)


def capacity(state: State, array: JobArray) -> int:
    """Return how many tasks the known nodes could run at the same time; at least one."""
    known = state.index.capacities.get(array.array_id)
    if known is None:
        known = max(_capacity(state, array.spec), 1)
        state.index.capacities[array.array_id] = known
    return known


def _capacity(state: State, spec: JobSpec) -> int:
    suitable = [node for node in state.nodes.values() if _suits(node, spec)]
    if spec.unit is SizeUnit.NODES and not spec.borrows:
        return len(suitable) // spec.min_size
    return sum(_on_node(node, spec) for node in suitable) // (
        spec.min_size if spec.unit is SizeUnit.UNITS else 1
    )


def _suits(node: Node, spec: JobSpec) -> bool:
    if node.spec is None or (spec.among and node.node_id not in spec.among):
        return False
    amounts = spec.unit_amounts
    enough = node.spec.memory_bytes >= amounts.memory_bytes and len(node.spec.gpus) >= amounts.gpus
    return enough and {*spec.features} <= {*node.all_features}


def _on_node(node: Node, spec: JobSpec) -> int:
    """Return how many tasks, or units of tasks, a node could run at the same time."""
    assert node.spec is not None
    if spec.exclusive and spec.unit is not SizeUnit.UNITS:
        return 1
    least = spec.tasks_per_node if spec.borrows else spec.least_on_node
    fits = [len(node.spec.cpus) // max(least, 1)]
    if spec.memory_bytes:
        fits.append(node.spec.memory_bytes // spec.memory_bytes)
    if spec.gpus:
        fits.append(len(node.spec.gpus) // spec.gpus)
    return min(fits)
