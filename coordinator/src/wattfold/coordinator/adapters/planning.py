"""Runs the policy for the core: in a worker process, with a deadline, with named fallbacks.

The policy is asked first; if it crashed or was late, its fallback; if there is none, or that
failed too, the last plan stays (PlanFailed). One canonical log line a round.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.plan import Plan, PlanningRound, Policy, Snapshot
from wattfold.coordinator.solvers.worker import Crashed, SolverWorker, Success

log = logging.getLogger("wattfold.planning")


class Planner:
    """Performs `Solve` actions, one at a time (the core asks for no second one meanwhile)."""

    def __init__(
        self,
        policy: Policy,
        worker: SolverWorker,
        snapshot: Callable[[], Snapshot],
        post: Callable[[ev.Event], None],
        deadline_s: float,
    ) -> None:
        self.policy = policy
        self._worker = worker
        self._snapshot = snapshot
        self._post = post
        self._deadline_s = deadline_s
        self._task: asyncio.Task[None] | None = None

    def perform(self, action: act.Action) -> None:
        """Starts a planning round."""
        assert isinstance(action, act.Solve)
        self._task = asyncio.create_task(self._round(action.round, self._snapshot()))

    async def close(self) -> None:
        """Gives a round under way up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _round(self, number: int, snapshot: Snapshot) -> None:
        started_ns = time.monotonic_ns()
        policy: Policy | None = self.policy
        reason = ""
        while policy is not None:
            result = await self._worker.call(
                policy.propose,
                snapshot,
                snapshot.now_ns,
                self._deadline_s,
                deadline_s=self._deadline_s + 1.0,
            )
            if isinstance(result, Success):
                plan: Plan = result.value
                self._done(number, policy, snapshot, plan, time.monotonic_ns() - started_ns)
                return
            reason = result.reason if isinstance(result, Crashed) else "no answer in time"
            details = result.details if isinstance(result, Crashed) else ""
            log.warning("policy_failed policy=%s reason=%r\n%s", policy.name, reason, details)
            policy = policy.fallback()
        elapsed_ns = time.monotonic_ns() - started_ns
        record = self._record(number, snapshot, elapsed_ns, "none", "crashed")
        self._post(ev.PlanFailed(round=record, reason=reason))

    def _record(
        self,
        number: int,
        snapshot: Snapshot,
        elapsed_ns: int,
        solver: str,
        outcome: str,
    ) -> PlanningRound:
        return PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=solver,
            outcome=outcome,
            jobs=len(snapshot.jobs),
            solve_ns=elapsed_ns,
        )

    def _done(
        self,
        number: int,
        policy: Policy,
        snapshot: Snapshot,
        plan: Plan,
        elapsed_ns: int,
    ) -> None:
        outcome = plan.outcome if policy is self.policy else f"fallback {plan.outcome}"
        record = PlanningRound(
            number=number,
            policy=self.policy.name,
            solver=plan.solver,
            outcome=outcome,
            jobs=len(snapshot.jobs),
            solve_ns=elapsed_ns,
            objective=plan.objective,
            bound=plan.bound,
        )
        log.info(
            "round number=%d policy=%s solver=%s outcome=%r jobs=%d assigned=%d solve_ms=%.1f "
            "objective=%.4g bound=%.4g budget_w=%.1f spendable_w=%.1f",
            number,
            self.policy.name,
            plan.solver,
            outcome,
            len(snapshot.jobs),
            len(plan.assignments),
            elapsed_ns / 1e6,
            plan.objective,
            plan.bound,
            snapshot.budget_uw / 1e6,
            snapshot.spendable_uw / 1e6,
        )
        self._post(ev.PlanProposed(plan=plan, round=record))
