"""Runs the policy for the core: in a worker process, with a deadline, with named fallbacks.

The policy is asked first; if it crashed or was late, its fallback; if there is none, or that
failed too, the last plan stays (PlanFailed). One canonical log line a round.

The worker has a copy of the state (`replica`) and answers with what the plan changes: neither the
jobs that wait as before nor those that run on as before cost the loop anything. A policy that is a
scheduler stands there beside the copy (`standing`) and is told of what has changed; any other gets
a snapshot made anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.placing import Placing
from wattfold.coordinator.adapters.replica import Replica
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed
from wattfold.coordinator.adapters.standing import Standing
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.job import Job
from wattfold.coordinator.core.plan import Plan, PlanningRound, Policy, Snapshot, Waiting
from wattfold.coordinator.core.snapshot import job_views, snapshot
from wattfold.coordinator.core.state import State
from wattfold.coordinator.policies.lent_cores import may_lack_cores, with_cores_back
from wattfold.coordinator.policies.ordered_sizes import with_ordered_sizes
from wattfold.coordinator.policies.scheduler import Scheduled
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success

log = logging.getLogger("wattfold.planning")


START_NEWS_NS = 1_000_000_000
"""A start that is expected so much earlier or later is news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the worker answers: a plan without what it leaves as it is, and the round's figures."""

    plan: Plan
    jobs: int
    assigned: int
    budget_uw: int
    spendable_uw: int


def propose(
    replica: Replica,
    policy: Policy,
    now_ns: int,
    beside: Beside,
    deadline_s: float,
) -> Proposal:
    """Called in the worker: has a policy plan on the copy of the state there."""
    if isinstance(policy, Scheduled):
        standing = replica.companion(Standing)
        jobs, world, plan = standing.plan(policy, now_ns, beside, deadline_s)
    else:
        replica.companion(Standing).forget()
        world = beside.told(snapshot(replica.state, now_ns))
        jobs, plan = len(world.jobs), policy.propose(world, now_ns, deadline_s)
    plan = _beside_the_policy(plan, world, replica.state, now_ns, policy)
    return Proposal(
        plan=news_of(plan, replica.state),
        jobs=jobs,
        assigned=len(plan.assignments),
        budget_uw=world.budget_uw,
        spendable_uw=world.spendable_uw,
    )


def _beside_the_policy(
    plan: Plan, world: Snapshot, state: State, now_ns: int, policy: Policy
) -> Plan:
    """The plan with the sizes that people have ordered of running jobs, and cores lent before."""
    placed = state.placed()
    ordered = any(job.size_asked for job in placed)
    lent = any(may_lack_cores(job, policy) for job in placed)
    if not (ordered or lent):
        return plan
    views = job_views(state, placed, now_ns)
    if lent:
        plan = with_cores_back(plan, world, views, policy)
    return with_ordered_sizes(plan, world, views) if ordered else plan


def news_of(plan: Plan, state: State) -> Plan:
    """A plan without jobs that wait for the reason they wait for already or run on as they do.

    The core takes it as it would take the whole: who is not named keeps what it has. A job that
    was accepted and has no process yet is always named, as it may still go elsewhere.
    """
    jobs = state.jobs
    return replace(
        plan,
        assignments=tuple(
            assignment
            for assignment in plan.assignments
            if (job := jobs.get(assignment.job_id)) is None
            or not job.ranks
            or job.reason
            or job.target != assignment
        ),
        waiting=tuple(
            waiting
            for waiting in plan.waiting
            if (job := jobs.get(waiting.job_id)) is None
            or job.reason != waiting.reason
            or _start_is_news(job, waiting)
        ),
    )


def _start_is_news(job: Job, waiting: Waiting) -> bool:
    """Whether a job is expected, or promised, to start at another time or elsewhere."""
    told, promise = job.promise, waiting.promise
    if (told and told.nodes) != (promise and promise.nodes):
        return True
    before_ns, start_ns = job.expected_start_ns, waiting.start_ns
    return bool(before_ns) != bool(start_ns) or abs(before_ns - start_ns) > START_NEWS_NS


class Planner:
    """Performs `Solve` actions, one at a time (the core asks for no second one meanwhile)."""

    def __init__(
        self,
        policy: Policy,
        feed: ReplicaFeed,
        now_ns: Callable[[], int],
        residual: Callable[[], Mapping[NodeId, CpuSet]],
        post: Callable[[ev.Event], None],
        deadline_s: float,
    ) -> None:
        self.policy = policy
        self._feed = feed
        self._now_ns = now_ns
        self._residual = residual
        self._post = post
        self._deadline_s = deadline_s
        self.placing: Callable[[], Placing | None] = lambda: None
        """How whole nodes are chosen, if not in their order."""
        self._task: asyncio.Task[None] | None = None

    def perform(self, action: act.Action) -> None:
        """Starts a planning round."""
        assert isinstance(action, act.Solve)
        self._task = asyncio.create_task(self._round(action.round))

    async def close(self) -> None:
        """Gives a round under way up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _round(self, number: int) -> None:
        started_ns = time.monotonic_ns()
        # A reload may put another one in its place meanwhile.
        first = self.policy
        policy: Policy | None = first
        reason = ""
        while policy is not None:
            result = await self._ask(policy)
            if isinstance(result, Success):
                took_ns = time.monotonic_ns() - started_ns
                self._done(number, result.value, took_ns, fell_back=policy is not first)
                return
            reason = result.reason if isinstance(result, Crashed) else "no answer in time"
            details = result.details if isinstance(result, Crashed) else ""
            log.warning("%s\n%s", line("policy_failed", policy=policy.name, reason=reason), details)
            policy = policy.fallback()
        elapsed_ns = time.monotonic_ns() - started_ns
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver="none",
            outcome="crashed",
            jobs=0,
            solve_ns=elapsed_ns,
        )
        self._post(ev.PlanFailed(round=record, reason=reason))

    async def _ask(self, policy: Policy) -> CallResult:
        return await self._feed.ask(
            propose,
            lambda _anew: (policy, self._now_ns(), self._beside(), self._deadline_s),
            deadline_s=self._deadline_s + 1.0,
        )

    def _beside(self) -> Beside:
        return Beside(residual=self._residual(), placing=self.placing())

    def _done(self, number: int, proposal: Proposal, elapsed_ns: int, *, fell_back: bool) -> None:
        plan = proposal.plan
        outcome = f"fallback {plan.outcome}" if fell_back else plan.outcome
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=plan.solver,
            outcome=outcome,
            jobs=proposal.jobs,
            solve_ns=elapsed_ns,
            objective=plan.objective,
            bound=plan.bound,
        )
        log.info(
            "event=round number=%d policy=%s solver=%s outcome=%s jobs=%d assigned=%d "
            "solve_ms=%.1f objective=%.4g bound=%.4g budget_w=%.1f spendable_w=%.1f",
            number,
            self.policy.name,
            plan.solver,
            json.dumps(outcome),
            proposal.jobs,
            proposal.assigned,
            elapsed_ns / 1e6,
            plan.objective,
            plan.bound,
            proposal.budget_uw / 1e6,
            proposal.spendable_uw / 1e6,
        )
        self._post(ev.PlanProposed(plan=plan, round=record))
