"""The state of a job in the core. `jobs.spec` is its request, `jobs.assignment` its resources."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.attempt import Attempt, Requeue
from wattfold.coordinator.core.model.jobs.conditions import UNCONDITIONAL, StartConditions
from wattfold.coordinator.core.model.jobs.promise import Promise
from wattfold.coordinator.core.model.jobs.rank import Rank
from wattfold.coordinator.core.model.jobs.spec import (
    JobSpec,
    ResizeMode,
)
from wattfold.coordinator.core.model.jobs.speeds import SeenSpeed
from wattfold.coordinator.core.model.pickled_state import pickled_by_position
from wattfold.coordinator.core.model.resource_manager import Allocation
from wattfold.coordinator.models.forecast import NOTHING_KNOWN, SimilarRuns

RETRYING = "retrying to "
ATTEMPT_ENDED = "attempt "
"""Prefixes of reasons that end with a colon and the text of an agent or an operator."""
HELD = "held until it is released"


class JobState(enum.Enum):
    """State of a job. HELD, WAITING and PENDING have not started; the last five are final.

    WAITING: the conditions of its start are not met, so no policy sees it.
    """

    HELD = "held"
    WAITING = "waiting"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    TIMED_OUT = "timed-out"

    # Members are singletons, and sets of states are searched for every job. Enum hashes names.
    __hash__ = object.__hash__


class Ender(enum.Enum):
    """Reason why a job is ended that has not ended by itself."""

    NOBODY = "nobody"
    USER = "user"
    TIME_LIMIT = "time limit"
    RESERVATION = "reservation"


FINAL_STATES = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.LOST,
        JobState.TIMED_OUT,
    },
)
PLACED_STATES = frozenset(
    {JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED, JobState.ENDING}
)
KEEPS_STATES = frozenset({JobState.SUSPENDED, JobState.ENDING})
"""Jobs in these states keep their resources, and plans do not contain them."""


@pickled_by_position
@dataclass(slots=True, kw_only=True)
class Job:
    """State of a job. Times are coordinator time in nanoseconds, -1 = not yet."""

    job_id: JobId
    spec: JobSpec
    state: JobState
    submitted_ns: int
    started_ns: int = -1
    ended_ns: int = -1
    resized_ns: int = -1
    target: Assignment | None = None
    ranks: dict[NodeId, Rank] = field(default_factory=dict)
    done: float = 0.0
    done_at_ns: int = 0
    resizes: int = 0
    # Cores that the program requested last (0 = none), and the time of the request.
    wanted: int = 0
    wanted_ns: int = -1
    exit_code: int = 0
    message: str = ""
    reason: str = ""
    expected_start_ns: int = 0
    """Start expected by the last plan; 0 = no expectation, or the job does not wait."""
    promise: Promise | None = None
    """Planned start that plans have to keep, until the job has started."""
    ended_by: Ender = Ender.NOBODY
    over_since_ns: int = -1
    """Time from which the job exceeds its modelled run time, as of its last change of speed."""
    # Epoch of the coordinator at submission; 0 = before version 2.
    epoch: int = 0
    attempt: int = 1
    """Number of the current or next start. The fields above describe this attempt."""
    attempts: tuple[Attempt, ...] = ()
    """The previous attempts."""
    requeue: Requeue | None = None
    """The order that ends this attempt and requeues the job."""
    yields_to: JobId = JobId("")  # noqa: RUF009 - a string
    """The job for which it was last preempted."""
    preempts: bool = False
    """Whether other jobs were preempted for this job while it waits."""
    suspended_ns: int = -1
    paused_ns: int = 0
    """Time for which this attempt was suspended before ``suspended_ns``."""
    size_asked: int = 0
    """Size fixed by a user; 0 = the policy chooses."""
    following: Assignment | None = None
    """Assignment of the next attempt, while the current attempt ends for a resize."""
    ordered_ns: int = -1
    """Start of the pending restart at another size."""
    saved: float = 0.0
    """Completed share in the snapshot, if known."""
    told: bool = False
    """Whether the program reported its completed share in this attempt."""
    owed: float = -1.0
    """Completed share when the attempt ended for a resize, until the program reports its progress.

    -1 = no report is pending.
    """
    moving_bytes: int = 0
    """Size of the snapshot from which it resumes at another size; 0 = unknown."""
    ran_ns: int = 0
    """At other sizes since it last waited. It counts for the time limit."""
    known: SimilarRuns = NOTHING_KNOWN
    """Run times of similar earlier jobs, as known at its submission."""
    reach: tuple[NodeId, ...] = ()
    """Nodes with its processes, which it may hold while it runs; empty = its target's nodes."""
    speeds: tuple[SeenSpeed, ...] = ()
    """Measured speeds at the sizes of the job so far."""
    epochs_saved: int = 0
    """Epochs in the snapshot of a training job. The next attempt resumes from them."""
    epochs_timed: int = 0
    """Number of timed epochs of the current attempt, with their mean in ``epoch_mean_ns``."""
    epoch_mean_ns: int = 0
    told_off_ns: int = -1
    """Time of the order to requeue the job; -1 = no order."""
    left_ns: int = 0
    """Time that the previous attempt took to save and exit on request; 0 = not requested."""
    placed_ns: int = -1
    """When the current attempt was placed."""
    conditions: StartConditions = UNCONDITIONAL
    freed_ns: int = -1
    """When the conditions of its start were met; -1 = it did not wait."""
    shared_uw: int = 0
    """Power that adds to the recent use of its share (fair share)."""
    hopeless: bool = False
    """Whether it waits for a job that failed or is hopeless itself."""
    unconfirmed: bool = False
    """Whether its run time is unconfirmed by its nodes since the coordinator's machine rebooted."""
    capped_ns: int = 0
    """Run time of all attempts with a package cap; below: the integral of the cap over it."""
    cap_uw_ns: int = 0
    allocation: Allocation | None = None
    """By its resource manager; None = it has none."""

    @property
    def saved_share(self) -> float:
        """Completed share in the snapshot of a training job that reports epochs; otherwise 0."""
        return self.epochs_saved / self.spec.epochs if self.spec.epochs else 0.0

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL_STATES

    @property
    def has_snapshot(self) -> bool:
        """Whether it is known to have a snapshot for another attempt."""
        return self.epochs_saved > 0 or self.saved > 0

    @property
    def start_promised(self) -> bool:
        """Whether its expected start is a planned start that plans keep."""
        return self.promise is not None and self.expected_start_ns == self.promise.start_ns

    @property
    def resizable(self) -> bool:
        """Whether its cores may change while it runs."""
        return self.spec.kind.resized and self.spec.mode is not ResizeMode.FIXED

    @property
    def restarted(self) -> bool:
        """Whether a resize ends the job and starts it again."""
        return self.resizable and self.spec.mode is ResizeMode.RESTART

    @property
    def planned_spec(self) -> JobSpec:
        """Return the submission for planning, with a size fixed by a user and within the reach."""
        size = self.size_asked
        if not size and 0 < len(self.reach) < self.spec.size_max:
            return replace(self.spec, size_max=len(self.reach))
        return replace(self.spec, size_min=size, size_max=size) if size else self.spec

    def done_by(self, now_ns: int) -> float:
        """Return the completed share by now: the last share plus interval / t[j, n, p] (PARM)."""
        if self.state is JobState.RUNNING and self.target and self.target.expected_total_s > 0:
            elapsed_s = (now_ns - self.done_at_ns) / 1e9
            done = self.done + elapsed_s / self.target.expected_total_s
            return min(done, self._next_epoch_share, MAX_DONE)
        return self.done

    @property
    def _next_epoch_share(self) -> float:
        """Completed share at the next epoch report of a training job; 1 for other jobs."""
        return (self.epochs_saved + 1) / self.spec.epochs if self.spec.epochs else 1.0

    def over_ns(self, now_ns: int) -> int:
        """Return the run time past the estimated end; 0 before it, and without an estimate."""
        if self.final:
            return 0
        since_ns = self._over_since(now_ns)
        return max(now_ns - since_ns, 0) if since_ns >= 0 else 0

    def _over_since(self, now_ns: int) -> int:
        if self.state is not JobState.RUNNING or self.over_since_ns >= 0:
            return self.over_since_ns
        total_s = self.target.expected_total_s if self.target else 0.0
        end_ns = self.done_at_ns + round((1 - self.done) * total_s * 1e9)
        return end_ns if total_s > 0 and end_ns <= now_ns else -1

    @property
    def limit_at_ns(self) -> int:
        """Time at which it reaches its time limit; -1 = no limit, or it does not run."""
        if self.state is not JobState.RUNNING or not self.spec.limit_ns:
            return -1
        return self.started_ns + self.paused_ns - self.ran_ns + self.spec.limit_ns

    def suspended_for_ns(self, now_ns: int) -> int:
        """Return the total time for which this attempt was suspended."""
        since_ns = self.suspended_ns
        return self.paused_ns + (max(now_ns - since_ns, 0) if since_ns >= 0 else 0)

    def move_past(self, by_ns: int, until_ns: int) -> None:
        """Move past times forward, at most to ``until_ns``. For the handlers of events."""
        for name in _PAST:
            time_ns = getattr(self, name)
            if 0 <= time_ns < until_ns:
                setattr(self, name, min(time_ns + by_ns, until_ns))

    def go_on(self, now_ns: int) -> None:
        """End the suspension of the job. For the handlers of events."""
        self.suspended_ns, self.paused_ns = -1, self.suspended_for_ns(now_ns)

    def advance_progress(self, now_ns: int) -> None:
        """Fix the completed share by now, because the speed changes. For the handlers of events."""
        self.over_since_ns = self._over_since(now_ns)
        self.count_cap(now_ns)
        self.done, self.done_at_ns = self.done_by(now_ns), now_ns

    def count_cap(self, now_ns: int) -> None:
        """Integrate the cap since ``done_at_ns``, which the caller then sets to ``now_ns``."""
        if self.state is JobState.RUNNING and self.target is not None and self.target.cap_uw:
            span_ns = max(now_ns - self.done_at_ns, 0)
            self.capped_ns += span_ns
            self.cap_uw_ns += self.target.cap_uw * span_ns


_PAST = (
    "submitted_ns",
    "started_ns",
    "ended_ns",
    "resized_ns",
    "done_at_ns",
    "wanted_ns",
    "over_since_ns",
    "suspended_ns",
    "ordered_ns",
    "told_off_ns",
    "placed_ns",
    "freed_ns",
)
"""Names of the fields with times of past events."""
MAX_DONE = 0.99
"""Maximum completed share of a running job: its model may be too fast."""
