"""Steps of the calendar, and time that only the calendar counted, as changes of the state.

The state holds all times in coordinator time, which counts durations. Announced budgets,
reservations, due dates and begin times are times of the calendar: a step moves them in coordinator
time, so they keep their time of the calendar.

After a reboot of its machine, the coordinator knows only from the calendar how long it was away (a
`Gap`). Agents report how long processes ran by their monotonic clocks. The first report of a
shorter run shows how much of the gap did not pass. The time limit of a job is not enforced until
one of its nodes answered.
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.job_array import JobArray
from wattfold.coordinator.core.rules.jobs import start_conditions
from wattfold.coordinator.core.state.state import Gap, State

SLACK_NS = 1_000_000_000
"""Smaller differences of run times are delays of messages."""


def before_time_passes(state: State, event: ev.Event, now_ns: int) -> None:
    """Apply what an event reveals about clocks, before other work that is due by now."""
    if isinstance(event, ev.CalendarStepped):
        _step(state, event.by_ns, now_ns)
        state.plan_needed = "calendar set"
    elif isinstance(event, ev.CoordinatorStarted):
        if event.calendar_step_ns:
            _step(state, event.calendar_step_ns, now_ns)
        state.gap = None if event.gap_ns < 0 else Gap(event.gap_ns, now_ns)
        for job in state.index.open.values():
            job.unconfirmed = state.gap is not None and bool(job.ranks)


def _step(state: State, by_ns: int, now_ns: int) -> None:
    state.calendar_ns += by_ns
    state.announced = tuple(replace(one, at_ns=one.at_ns - by_ns) for one in state.announced)
    for name, one in state.reservations.items():
        start_ns = one.start_ns - by_ns
        state.reservations[name] = replace(one, start_ns=start_ns, end_ns=one.end_ns - by_ns)
        if start_ns > now_ns and name in state.begun:
            state.begun.remove(name)
    dated: list[Job | JobArray] = [*state.index.open.values(), *state.arrays.values()]
    for job in dated:
        if job.spec.due_ns >= 0:
            job.spec = replace(job.spec, due_ns=max(job.spec.due_ns - by_ns, 0))
    start_conditions.calendar_stepped(state, by_ns, now_ns)
    state.index.touch_everything()


def confirm_run_time(state: State, job: Job, ran_ns: int, now_ns: int) -> None:
    """Record the reported run time of a process of a job; 0 = not reported.

    Processes of a job over several nodes may start one after the other. So for such a job, a
    process that runs longer than the job is ignored, unless only the calendar counted the time.
    """
    job.unconfirmed = False
    if ran_ns > 0 and job.started_ns >= 0 and not job.final:
        late_ns = now_ns - ran_ns - job.started_ns
        if state.gap is not None and late_ns > SLACK_NS:
            _disbelieve(state, state.gap, late_ns)
        elif late_ns < -SLACK_NS and (state.gap is not None or len(job.ranks) == 1):
            job.started_ns = max(job.started_ns + late_ns, 0)
    if job.state is JobState.RUNNING:
        state.index.add_limit(job)


def _disbelieve(state: State, gap: Gap, late_ns: int) -> None:
    """Shorten the gap by the part that did not pass, and move the times before the gap."""
    excess_ns = min(late_ns, gap.claimed_ns)
    state.gap = replace(gap, claimed_ns=gap.claimed_ns - excess_ns)
    state.index.disbelieved_ns = excess_ns
    timed: list[Job | JobArray] = [*state.jobs.values(), *state.arrays.values()]
    for one in timed:
        one.move_past(excess_ns, gap.until_ns)
    for job in state.index.open.values():
        state.index.add_limit(job)
    state.index.touch_everything()
