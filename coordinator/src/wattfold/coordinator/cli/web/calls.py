"""Requests of a page to the coordinator, made as the account of the server.

All of them are the calls of the command, so the coordinator decides what the account may see and
do. Blocking calls run in threads, at most CALLS_MAX at a time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError, NotFoundError
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.web.rows import announced_values, watts
from wattfold.v1 import coordinator_pb2 as pb

CALLS_MAX = 4
WHAT_IF_S = 180.0
"""Time after which a simulation is ended."""
AUDIT_SHOWN = 100
AUDIT_CALLS = ("SetBudget", "AnnounceBudget", "CancelBudget", "ScheduleBudgets")
PREVIEW = "dashboard-preview"
"""Name of a schedule that is only tried."""

T = TypeVar("T")


class Calls:
    """The calls of a server. ``command``: the words of `wattfold` with its global options."""

    def __init__(self, client: CoordinatorClient, command: Sequence[str]) -> None:
        self._client = client
        self._command = tuple(command)
        self._slots = asyncio.Semaphore(CALLS_MAX)
        self._simulating = asyncio.Lock()

    async def job(self, job_id: str) -> dict[str, Any]:
        """Return a job with its explanation and the profile of its application."""
        return await self._run(lambda: self._job(job_id))

    async def audit(self) -> list[dict[str, Any]]:
        """Return the newest changes of the budget that the account may see, newest first."""
        return await self._run(self._audit)

    async def set_budget(self, budget_uw: int, deadline_ns: int) -> dict[str, Any]:
        """Change the budget now."""

        def call() -> dict[str, Any]:
            power = self._client.set_budget(budget_uw, deadline_ns).power
            return {
                "budget_w": watts(power.budget_uw),
                "pending_w": watts(power.pending_budget_uw),
                "deadline_s": power.pending_deadline_s,
            }

        return await self._run(call)

    async def announce(self, budget_uw: int, at_s: float) -> dict[str, Any]:
        """Announce a budget from a time on."""
        return await self._run(
            lambda: announced_values(self._client.announce_budget(budget_uw, at_s))
        )

    async def cancel(self, number: int) -> dict[str, Any]:
        """Cancel an announced budget."""
        return await self._run(lambda: announced_values(self._client.cancel_budget(number)))

    async def preview(self, budget_uw: int, at_s: float) -> dict[str, Any]:
        """Return what the coordinator would answer to a budget from a time on. Changes nothing."""
        request = pb.ScheduleBudgetsRequest(name=PREVIEW, dry_run=True)
        request.budgets.add(at_s=at_s, budget_uw=budget_uw)

        def call() -> dict[str, Any]:
            answer = self._client.schedule_budgets(request)
            made = [announced_values(one) for one in answer.announced]
            refused = [one.obstacle for one in answer.refused]
            return {
                "announced": made[0] if made else None,
                "refused": "; ".join(filter(None, [answer.refusal, *refused])),
                "minimum_w": watts(answer.minimum_uw),
            }

        return await self._run(call)

    async def what_if(self, budget_w: float) -> dict[str, Any]:
        """Simulate the queue with another budget. Raises CliError.

        `wattfold what-if` runs in a process of its own. If the page closes the request, the process
        ends.
        """
        async with self._simulating:
            words = (*self._command, "--json", "what-if", "--budget", f"{budget_w:.1f}W")
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                out, errors = await asyncio.wait_for(process.communicate(), WHAT_IF_S)
            except TimeoutError:
                raise CliError(f"the simulation took longer than {WHAT_IF_S:.0f} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode:
            lines = errors.decode("utf-8", "replace").strip().splitlines()
            raise CliError(lines[-1].removeprefix("wattfold: ") if lines else "what-if failed")
        found: dict[str, Any] = json.loads(out)
        return found

    def _job(self, job_id: str) -> dict[str, Any]:
        request = pb.ListJobsRequest(job_ids=[job_id], include_ended=True, details=True)
        listed = self._client.list_jobs(
            request.job_ids, request.include_ended, details=request.details
        ).jobs
        if not listed:
            raise NotFoundError(f"no job {job_id!r}")
        job = listed[0]
        found: dict[str, Any] = {"job": as_dict(job), "explanation": [], "refused": ""}
        if job.access == pb.JOB_ACCESS_OTHER:
            found["refused"] = "This job belongs to another account; its details are not shown."
            return found | {"profiles": []}
        answer = self._client.explain(job_id)
        found["summary"], found["explanation"] = answer.summary, list(answer.lines)
        profiles = self._client.list_profiles(job.spec.app).profiles if job.spec.app else []
        return found | {"profiles": [as_dict(profile) for profile in profiles]}

    def _audit(self) -> list[dict[str, Any]]:
        entries = [
            entry
            for action in AUDIT_CALLS
            for entry in self._client.list_audit(
                pb.ListAuditRequest(action=action, limit=AUDIT_SHOWN)
            ).entries
        ]
        newest = sorted(entries, key=lambda entry: -entry.time_s)[:AUDIT_SHOWN]
        return [as_dict(entry) for entry in newest]

    async def _run(self, call: Callable[[], T]) -> T:
        async with self._slots:
            return await asyncio.to_thread(call)


def command_words(options: Sequence[str]) -> tuple[str, ...]:
    """Return the words that start `wattfold` with these global options."""
    return (sys.executable, "-m", "wattfold.coordinator.cli.main", *options)
