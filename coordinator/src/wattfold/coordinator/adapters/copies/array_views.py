"""Arrays in lists: one message stands for all tasks of an array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from wattfold.contract.ids import array_of, task_of
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies import job_messages
from wattfold.coordinator.adapters.copies.view_requests import Jobs
from wattfold.coordinator.adapters.door.ownership import access_of, public
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.model.jobs.spec import UNKNOWN_UID
from wattfold.coordinator.core.rules.job_arrays.array_counts import SHOWN, counts, end_counts
from wattfold.coordinator.core.rules.job_arrays.arrays import next_task
from wattfold.coordinator.core.rules.jobs.adoption import UNSTARTED
from wattfold.coordinator.core.state.state import State
from wattfold.v1 import coordinator_pb2 as pb

_ORDER = tuple(dict.fromkeys(map(job_messages.job_state, SHOWN)))
_WORDS = {pb.JOB_STATE_PENDING: "waiting", pb.JOB_STATE_TIMED_OUT: "timed out"}


class ArrayLines:
    """The lines of a list of jobs. A line is a job, or an array that stands for its tasks.

    Arrays that are requested by ID, and tasks that are not jobs yet, are in the list as well.
    """

    def __init__(self, state: State, clock: Clock, now_ns: int, question: Jobs) -> None:
        self._state = state
        self._clock = clock
        self._now_ns = now_ns
        self._question = question
        self._left_only = question.tasks and not question.job_ids

    def lines(self, jobs: Sequence[Job]) -> list[Job | JobArray]:
        """Return the lines of the jobs of a list, in order of submission."""
        arrays_of_state, question = self._state.arrays, self._question
        if question.job_ids:
            named = [arrays_of_state[one] for one in question.job_ids if one in arrays_of_state]
            return [*jobs, *named]
        if not arrays_of_state:
            return list(jobs)
        if question.tasks:
            return [*jobs, *self.left()]
        lines: dict[str, Job | JobArray] = {}
        for job in jobs:
            array = arrays_of_state.get(array_of(job.job_id))
            lines.setdefault(array.array_id if array else job.job_id, array or job)
        for array in self.left():
            lines.setdefault(array.array_id, array)
        return sorted(lines.values(), key=lambda one: one.submitted_ns)

    def left(self) -> list[JobArray]:
        """Return the arrays with tasks that are not jobs yet and that belong to the list."""
        return list(filter(self._keeps_left, self._state.arrays.values()))

    def counts(self, jobs: Iterable[Job]) -> list[pb.JobCount]:
        """Return the numbers of jobs and tasks by state, in the order of the states."""
        found = counted((job.state, 1) for job in jobs)
        if not self._question.job_ids:
            for array in self.left():
                found += counted([(next_task(array, self._now_ns).state, array.left)])
        return [pb.JobCount(state=state, jobs=found[state]) for state in sorted(found)]

    def last(self, lines: list[Job | JobArray]) -> list[Job | JobArray]:
        """Return the lines within the limit: jobs on nodes first, and newer before older jobs."""
        if len(lines) <= self._question.limit:
            return lines
        last = sorted(lines, key=self._is_placed)[-self._question.limit :]
        kept = set(map(id, last))
        return [one for one in lines if id(one) in kept]

    def _is_placed(self, line: Job | JobArray) -> bool:
        """Whether a job of a line is on nodes."""
        if isinstance(line, Job):
            return line.state in PLACED_STATES
        tasks = self._state.index.tasks(line.array_id).values()
        return any(job.state in PLACED_STATES for job in tasks)

    def data(self, array: JobArray) -> bytes:
        """Return the serialised message of an array, for the viewer of the list."""
        message = array_message(
            self._state, array, self._clock, self._now_ns, left_only=self._left_only
        )
        message.access = access_of(self._question.viewer, array.spec)
        shown = public(message) if message.access == pb.JOB_ACCESS_OTHER else message
        return shown.SerializeToString()

    def _keeps_left(self, array: JobArray) -> bool:
        """Whether the tasks that are not jobs yet belong to the list."""
        if not array.left:
            return False
        chosen, viewer = self._question.chosen, self._question.viewer
        return chosen.keeps(next_task(array, self._now_ns), viewer, self._clock)


def array_message(
    state: State, array: JobArray, clock: Clock, now_ns: int, *, left_only: bool = False
) -> pb.Job:
    """Return the message that stands for the tasks of an array.

    ``left_only``: only for the tasks that are not jobs yet.
    """
    shown = next_task(array, now_ns)
    found = Counter({shown.state: array.left}) if left_only else counts(state, array)
    tasks = [] if left_only else list(state.index.tasks(array.array_id).values())
    states = counted(found.items())
    ordered = [one for one in _ORDER if states[one]]
    message = pb.Job(
        job_id=array.array_id,
        state=ordered[0],
        submitted_at_s=clock.wall_s(array.submitted_ns),
        user=array.spec.user,
        reason=_reason(states, ordered, tasks, shown if array.left else None),
        array=pb.JobArray(
            indices=array.indices,
            limit=array.limit,
            waiting=_waiting(array, tasks),
            tasks=sum(found.values()),
            counts=[pb.JobCount(state=one, jobs=states[one]) for one in sorted(ordered)],
            left=array.left,
        ),
    )
    message.attempt = 1
    if array.spec.uid != UNKNOWN_UID:
        message.uid = array.spec.uid
    if not left_only:
        _add_times(message, state, array, tasks, clock)
    message.spec.CopyFrom(job_messages.spec_message(array.spec, clock))
    return message


def counted(states: Iterable[tuple[JobState, int]]) -> Counter[pb.JobState]:
    """Return numbers of jobs by their states in messages."""
    found: Counter[pb.JobState] = Counter()
    for state, count in states:
        found[job_messages.job_state(state)] += count
    return found


def _reason(
    states: Counter[pb.JobState],
    ordered: list[pb.JobState],
    tasks: list[Job],
    left: Job | None,
) -> str:
    told = ", ".join(f"{states[one]} {_word(one)}" for one in ordered)
    waiting = [job for job in (*tasks, left) if job is not None and job.state in UNSTARTED]
    why = next((job.reason for job in waiting if job.reason), "")
    return f"{told}: {why}" if why else told


def _word(state: pb.JobState) -> str:
    name = pb.JobState.Name(state).removeprefix("JOB_STATE_").lower()
    return _WORDS.get(state, name)


def _waiting(array: JobArray, tasks: list[Job]) -> str:
    """Return the indices of the tasks that have not started."""
    made = [found[1] for job in tasks if job.state in UNSTARTED and (found := task_of(job.job_id))]
    left = array.index_set.after(array.taken).without(array.early)
    return str(left.with_indices(made))


def _add_times(
    message: pb.Job, state: State, array: JobArray, tasks: list[Job], clock: Clock
) -> None:
    ended = [state.jobs[job_id] for job_id in state.index.ended_tasks(array.array_id)]
    started_ns = [job.started_ns for job in (*tasks, *ended) if job.started_ns >= 0]
    if started_ns:
        message.started_at_s = clock.wall_s(min(started_ns))
    over = end_counts(state, array).total() == len(array.index_set)
    if over and ended:
        message.ended_at_s = clock.wall_s(max(job.ended_ns for job in ended))
        message.exit_code = next((job.exit_code for job in ended if job.exit_code), 0)
        message.message, message.reason = message.reason, ""
