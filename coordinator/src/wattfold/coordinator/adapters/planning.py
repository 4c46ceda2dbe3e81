"""Planning rounds: the policy runs in a worker process, with a deadline and named fallbacks.

If the policy crashes or is late, its fallback runs, then the fallback of that policy. If all fail,
the last plan stays (PlanFailed). The record of the round names the failures. Each round logs one
canonical line.

The worker has a copy of the state (`replica`) and answers with the changes of the plan only. So
unchanged jobs, waiting or running, cost the loop nothing. A policy with a persistent scheduler
(`standing`) receives the changes of the state. Other policies get a new snapshot for each round.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.copies.replica import Replica
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed
from wattfold.coordinator.adapters.copies.standing import Standing
from wattfold.coordinator.adapters.placing import Placing
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import configuration
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.model.plan import Plan, PlanningRound, Policy, Snapshot, Waiting
from wattfold.coordinator.core.rules.snapshot import job_views, snapshot
from wattfold.coordinator.core.state.state import State
from wattfold.coordinator.policies.driver.node_sleep import with_sleep
from wattfold.coordinator.policies.driver.ordered_sizes import with_ordered_sizes
from wattfold.coordinator.policies.driver.warm_up import chain
from wattfold.coordinator.policies.port import Scheduled
from wattfold.coordinator.policies.slowdown_driven.lent_core_recovery import (
    may_lack_cores,
    with_cores_back,
)
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success

log = logging.getLogger("wattfold.planning")


PolicySettings = tuple[tuple[str, str], ...]
"""Settings by key, as text."""
START_NEWS_NS = 1_000_000_000
"""A planned start that moves by more than this time is sent to the core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The answer of the worker: the changes of the plan, and the figures of the round."""

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
    """Let a policy plan on the worker's copy of the state. Runs in the worker."""
    if isinstance(policy, Scheduled):
        standing = replica.companion(Standing)
        jobs, world, plan = standing.plan(policy, now_ns, beside, deadline_s)
    else:
        replica.companion(Standing).forget()
        world = beside.told(snapshot(replica.state, now_ns))
        jobs, plan = len(world.jobs), policy.propose(world, now_ns, deadline_s)
    plan = beside_the_policy(plan, world, replica.state, now_ns, policy)
    plan = with_sleep(plan, world, replica.state, now_ns)
    return Proposal(
        plan=news_of(plan, replica.state),
        jobs=jobs,
        assigned=len(plan.assignments),
        budget_uw=world.budget_uw,
        spendable_uw=world.spendable_uw,
    )


def beside_the_policy(
    plan: Plan, world: Snapshot, state: State, now_ns: int, policy: Policy
) -> Plan:
    """Return the plan with sizes set by users for running jobs, and with lent cores returned."""
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
    """Return a plan without the jobs that keep their allocation or their reason to wait.

    The core treats it like the full plan: unnamed jobs keep their resources. An accepted job
    without a process is always named, because it may still move.
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
    """Whether the expected or planned start of a job has changed in time or nodes."""
    told, promise = job.promise, waiting.promise
    if (told and told.nodes) != (promise and promise.nodes):
        return True
    before_ns, start_ns = job.expected_start_ns, waiting.start_ns
    return bool(before_ns) != bool(start_ns) or abs(before_ns - start_ns) > START_NEWS_NS


async def _nothing(_policy: Policy) -> None:
    """Load nothing."""


class Planner:
    """Performs `Solve` actions one at a time. The core requests no second one meanwhile."""

    def __init__(
        self,
        policy: Policy,
        feed: ReplicaFeed,
        now_ns: Callable[[], int],
        residual: Callable[[], Mapping[NodeId, CpuSet]],
        post: Callable[[ev.Event], None],
        deadline_s: float,
        load: Callable[[Policy], Awaitable[object]] = _nothing,
        settings: PolicySettings = (),
    ) -> None:
        """``load``: makes a policy ready in the worker before it is used.

        ``settings``: the stated settings of the policy, for people.
        """
        self.policy, self.settings = policy, settings
        self._load = load
        self._feed = feed
        self._now_ns = now_ns
        self._residual = residual
        self._post = post
        self._deadline_s = deadline_s
        self.placing: Callable[[], Placing | None] = lambda: None
        """Choice of whole nodes, if not in their order."""
        self.planned: Callable[[PlanningRound], None] = lambda _: None
        """Called with the record of each round."""
        self._task: asyncio.Task[None] | None = None

    def perform(self, action: act.Action) -> None:
        """Start a planning round."""
        assert isinstance(action, act.Solve)
        self._task = asyncio.create_task(self._round(action.round))

    async def change(self, policy: Policy, settings: PolicySettings) -> None:
        """Plan with this policy from now on, and soon. A round in progress is completed before."""
        await self._load(policy)
        self.policy, self.settings = policy, settings
        self._post(configuration.PolicyChanged(name=policy.name))

    async def close(self) -> None:
        """Cancel the round in progress."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _round(self, number: int) -> None:
        started_ns = time.monotonic_ns()
        # A reload may replace the policy meanwhile.
        failures: list[str] = []
        for policy in chain(self.policy):
            result = await self._ask(policy)
            if isinstance(result, Success):
                took_ns = time.monotonic_ns() - started_ns
                planner = policy.name if failures else ""
                self._done(number, result.value, took_ns, failures, planner)
                return
            if isinstance(result, Crashed):
                reason, details = result.reason, result.details
                # Users read only the kind of the failure; the rest may name jobs and files.
                told = f"failed ({reason.partition(':')[0]})"
            else:
                reason = told = f"gave no answer within {self._deadline_s:g} s"
                details = ""
            log.warning("%s\n%s", line("policy_failed", policy=policy.name, reason=reason), details)
            failures.append(f"{'its fallback' if failures else 'policy'} {policy.name} {told}")
        elapsed_ns = time.monotonic_ns() - started_ns
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver="none",
            outcome="crashed",
            jobs=0,
            solve_ns=elapsed_ns,
        )
        self.planned(record)
        self._post(ev.PlanFailed(round=record, reason="; ".join(failures)))

    async def _ask(self, policy: Policy) -> CallResult:
        # This deadline is for the policy. The start of a process has a separate deadline.
        started = await self._feed.started()
        if not isinstance(started, Success):
            return started
        return await self._feed.ask(
            propose,
            lambda _anew: (policy, self._now_ns(), self._beside(), self._deadline_s),
            deadline_s=self._deadline_s + 1.0,
        )

    def _beside(self) -> Beside:
        return Beside(residual=self._residual(), placing=self.placing())

    def _done(
        self,
        number: int,
        proposal: Proposal,
        elapsed_ns: int,
        failures: Sequence[str],
        fallback: str,
    ) -> None:
        """Post a plan. ``fallback``: the policy that made it after a failure."""
        plan = proposal.plan
        outcome = f"fallback {plan.outcome}" if failures else plan.outcome
        told = [*failures, f"{fallback} plans in its place"] if failures else []
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=plan.solver,
            outcome=outcome,
            jobs=proposal.jobs,
            solve_ns=elapsed_ns,
            objective=plan.objective,
            bound=plan.bound,
            failure="; ".join(told),
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
        self.planned(record)
        self._post(ev.PlanProposed(plan=plan, round=record))
