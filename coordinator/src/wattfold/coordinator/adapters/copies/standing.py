"""A persistent scheduler in the planning worker, which receives the changes of the state.

A round examines all nodes, the jobs that hold resources, and the jobs of the last updates
(`Replica.take_touched`). Unchanged waiting jobs cost nothing. A round examines all jobs after
another policy was set, or after a change that affects many jobs, such as a learnt profile or a
process without a job. After a failed round, the next round starts from scratch.
"""

from __future__ import annotations

from typing import Any

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.copies.replica import Replica
from wattfold.coordinator.core.model.plan import Plan, Snapshot
from wattfold.coordinator.core.rules.snapshot import job_views, without_jobs
from wattfold.coordinator.policies.driver.rounds import Rounds
from wattfold.coordinator.policies.port import Scheduled


class Standing:
    """The rounds of one policy on one copy."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._policy: Scheduled | None = None
        self._rounds: Rounds | None = None
        self._profiles: dict[str, Any] | None = None
        self._strays: frozenset[JobId] = frozenset()

    def forget(self) -> None:
        """Start the next round from scratch."""
        self._rounds = None
        self._replica.take_touched()

    def plan(
        self, policy: Scheduled, now_ns: int, beside: Beside, deadline_s: float
    ) -> tuple[int, Snapshot, Plan]:
        """Return the number of jobs, the current nodes and power, and the policy's plan."""
        rounds, self._rounds = self._rounds, None
        if rounds is None or policy != self._policy:
            rounds = Rounds(policy.scheduler())
            everything = True
        else:
            everything = False
        world = beside.told(without_jobs(self._replica.state, now_ns))
        self._tell(rounds, world, everything)
        plan = rounds.plan(now_ns, deadline_s)
        self._policy, self._rounds = policy, rounds
        return len(rounds), world, plan

    def _tell(self, rounds: Rounds, world: Snapshot, everything: bool) -> None:
        state, touched = self._replica.state, self._replica.take_touched()
        strays = state.stray_jobs()
        if state.profiles is not self._profiles or strays != self._strays:
            self._profiles, self._strays, everything = state.profiles, strays, True
        if everything or touched.everything:
            views = job_views(state, state.index.open.values(), world.now_ns)
            rounds.tell(world, views, rounds.unlike(views))
            return
        holding = {job.job_id: job for job in state.placed()}
        others = touched.jobs.difference(holding)
        waiting = state.index.ordered(
            state.index.open[job_id] for job_id in others if job_id in state.index.open
        )
        jobs = [*holding.values(), *waiting]
        views = job_views(state, jobs, world.now_ns)
        shown = {view.job_id for view in views}
        gone = [job_id for job_id in (*holding, *others) if job_id not in shown]
        rounds.tell(world, views, gone)
