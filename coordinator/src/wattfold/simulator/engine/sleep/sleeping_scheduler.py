"""Driver of a policy on named nodes that sleep, which plans as the service does.

After the policy the rules of the service decide which nodes sleep (`site_state`). A job whose nodes
are not all up keeps them and their power, and is given to the engine when they are up. If a boot
fails, the job waits in the queue again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.plan import Plan, Snapshot
from wattfold.coordinator.core.rules.nodes import decided_sleep
from wattfold.coordinator.policies.port import Decision, Parts
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler, numbered
from wattfold.simulator.engine.schedulers.promised_starts import note_starts
from wattfold.simulator.engine.sleep.site_state import SiteState


class SleepingNodesScheduler(NamedPolicyScheduler):
    """The scheduler. ``site`` is the state that the engine changes too."""

    def __init__(self, *arguments: Any, nodes: SiteState, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._site = nodes

    def submit(self, job: int, now_ns: int) -> None:
        """Queue a job."""
        super().submit(job, now_ns)
        view = self._views[job]
        self._site.submit(view.job_id, view.spec, view.submitted_ns)

    def end(self, job: int, now_ns: int) -> None:
        """Remove an ended job."""
        self._site.end(self._views[job].job_id, now_ns)
        super().end(job, now_ns)

    def decide(self, now_ns: int) -> Decision:
        """Return the starts on nodes that are up, changes of cores or caps, and preemptions."""
        if self._ready is not None:
            self._ready()
        site = self._site
        site.advance(now_ns)
        changes = self._booted(now_ns)
        plan = self._plan(now_ns)
        world = self._seen
        plan = site.decided(plan, world, now_ns)
        note_starts(self.first_told, plan)
        self.revisit_ns = plan.revisit_ns
        self._note_promises(plan)
        accepted = site.accepted(plan, now_ns)
        if accepted.refusals and not plan.revisit_ns:
            self.revisit_ns = now_ns + site.state.settings.retry_ns
        for assignment in accepted.changes:
            changes += self._resized(assignment, now_ns)
        # As in the core, the power of the plan is judged before its starts have their nodes.
        power = site.judged(plan, accepted.starts, now_ns)
        for assignment in accepted.starts:
            job = int(assignment.job_id)
            self._take(job, replace(self._views[job], promise=None), assignment, now_ns)
            changes += self._started(job, site.start(assignment, now_ns), now_ns)
        preempted = [one for one in plan.preemptions if site.state.jobs[one.job_id].ranks]
        for one in preempted:
            self._yields[int(one.job_id)] = one.for_job
        site.carry_out(power, accepted.starts)
        return Decision(changes, numbered(preempted))

    def _explains(self) -> bool:
        return True  # Nodes wake for the expected starts.

    def _resized(self, assignment: Assignment, now_ns: int) -> list[Parts]:
        job = int(assignment.job_id)
        view = self._views[job]
        if view.current == assignment:
            return []
        decisions = self._decided(job, view, assignment)
        self._take(job, view, assignment, now_ns)
        self._site.move(view.job_id, assignment)
        return decisions

    def _world(self, now_ns: int) -> Snapshot:
        for job in self._site.waiting_for_boots():
            up_ns = decided_sleep.awake_from_ns(self._site.state, job, now_ns)
            number = int(job.job_id)
            self._views[number] = replace(self._views[number], started_ns=up_ns)
            self._changed[number] = None
        world = self._site.world(now_ns)
        self._seen = replace(world, jobs=tuple(self._views.values()))
        return self._seen

    def _note_promises(self, plan: Plan) -> None:
        for one in plan.waiting:
            job, number = self._site.state.jobs[one.job_id], int(one.job_id)
            if job.promise != one.promise:
                job.promise = one.promise
                self._views[number] = replace(self._views[number], promise=one.promise)
                self._changed[number] = None

    def _booted(self, now_ns: int) -> list[Parts]:
        """Return the starts of jobs whose nodes are up; jobs without their nodes wait again."""
        changes: list[Parts] = []
        for job in self._site.waiting_for_boots():
            number = int(job.job_id)
            if self._site.keeps(job):
                changes += self._started(number, job, now_ns)
            else:
                self._site.put_back(job)
                self._views[number] = replace(
                    self._views[number], current=None, started_ns=-1, promise=job.promise
                )
                self._changed[number] = None
        return changes

    def _started(self, number: int, job: Job, now_ns: int) -> list[Parts]:
        """Return the start of a job, if all its nodes are up."""
        view = self._views[number]
        if job.state is not JobState.STARTING or not self._site.all_up(job):
            return []
        assert job.target is not None, "it has nodes"
        self._site.run(job, now_ns)
        self._views[number] = replace(view, started_ns=now_ns)
        self._changed[number] = None
        return self._decided(number, replace(view, current=None), job.target)
