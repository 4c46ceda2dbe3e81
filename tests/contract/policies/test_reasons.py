"""Displayed reasons of a waiting job under every policy: the cause, the holder and the time.

The core, the view of the queue and the policy are the real components. Nodes have 4 cores, a base
power of 10 W, and packages of 10 to 50 W. Nothing in this file names a policy.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import pytest
from unit.adapters.in_place import InPlaceWorker
from unit.core.stage import NODES, S, Stage, W, job_spec, planning_round

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.copies import pictures, view_requests
from wattfold.coordinator.adapters.copies.outlook_views import ViewInputs
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning, whole
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.planning import propose
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.reservation import Reservation
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.warm_up import chain
from wattfold.coordinator.solvers.worker import Success
from wattfold.v1 import coordinator_pb2 as pb

SERVICE = [entry for entry in registry.entries() if entry.variant.service is not None]
every_policy = pytest.mark.parametrize("entry", SERVICE, ids=lambda entry: entry.variant.name)
OPERATOR = Peer(uid=0, account="root", address="test")
STRANGER = Peer(uid=4711, account="stranger", address="test")
UNTIL = r"until \d\d:\d\d"


@dataclass(frozen=True)
class StoppedClock:
    """A clock with a fixed time."""

    at_ns: int

    def now_ns(self) -> int:
        return self.at_ns

    def wall_s(self, time_ns: int) -> float:
        return 1e9 + time_ns / 1e9 if time_ns >= 0 else 0.0


class Site(Stage):
    """Two nodes, a policy, and the queries of users."""

    def __init__(
        self, entry: registry.RegisteredPolicy, budget_w: float = 1000, nodes: int = 2
    ) -> None:
        super().__init__(budget_w)
        self.policy = entry.service({})
        self.up(*(f"n{index}" for index in range(nodes)))

    def ask(self, question: view_requests.Question) -> bytes:
        clock: Any = StoppedClock(self.now_ns)
        setting = ViewInputs(clock=clock, policy=self.policy)
        feed = ReplicaFeed(InPlaceWorker(), lambda: self.core.state, whole)
        asked = feed.ask(
            pictures.answer, lambda _: (setting, view_requests.AgentReports(), (question,)), 1.0
        )
        result = asyncio.run(asked)
        assert isinstance(result, Success), result
        return result.value[0]  # type: ignore[no-any-return]

    def listed(self, viewer: Peer = OPERATOR) -> pb.ListJobsResponse:
        return pb.ListJobsResponse.FromString(self.ask(view_requests.Jobs(viewer=viewer)))

    def reason(self, job: str, viewer: Peer = OPERATOR) -> str:
        return next(one.reason for one in self.listed(viewer).jobs if one.job_id == job)

    def by_number(self, job: str, *, details: bool) -> pb.Job:
        question = view_requests.Jobs(viewer=OPERATOR, job_ids=(JobId(job),), details=details)
        return pb.ListJobsResponse.FromString(self.ask(question)).jobs[0]

    def explained(self, job: str) -> str:
        question = view_requests.Explanation(viewer=OPERATOR, job_id=JobId(job))
        reply = pb.ExplainResponse.FromString(self.ask(question))
        return "\n".join([reply.summary, *reply.lines])

    def round(self) -> None:
        """Run a planning round and start the jobs that it starts."""
        self.need_plan()
        feed = ReplicaFeed(InPlaceWorker(), lambda: self.core.state, for_planning)
        asked = feed.ask(propose, lambda _: (self.policy, self.now_ns, Beside(), 5.0), 5.0)
        result = asyncio.run(asked)
        assert isinstance(result, Success), result
        record = planning_round(self.core.state.solving)
        self.send(ev.PlanProposed(plan=result.value.plan, round=record))
        for job in self.core.state.placed():
            for node_id, rank in job.ranks.items():
                if rank.launching:
                    self.launched(node_id, job.job_id)

    def whole_nodes(self, job: str, count: int, time_s: float = 600, **fields: Any) -> None:
        """Submit a rigid job on whole nodes, which no other job may share."""
        spec = job_spec(
            count,
            count,
            kind=JobKind.RIGID,
            unit=NODES,
            exclusive=True,
            time_ns=round(time_s * S),
            **fields,
        )
        self.submit(job, spec)


@every_policy
def test_too_few_nodes(entry: registry.RegisteredPolicy) -> None:
    """Both nodes are in use: the reason names the needs of the job, the holder and the time."""
    site = Site(entry)
    site.whole_nodes("r0", 1, time_s=300)
    site.whole_nodes("r1", 1, time_s=600)
    site.round()
    site.whole_nodes("w", 2)
    site.round()
    site.after(1)
    for told in (site.reason("w"), site.reason("w", STRANGER)):
        assert "needs 2 nodes, none free" in told
        assert "held by jobs r0 and r1" in told
        assert re.search(UNTIL, told), told
    assert site.by_number("w", details=True).reason == site.reason("w")
    assert site.by_number("w", details=False).reason == site.job("w").reason, "cheap for pollers"
    told = site.explained("w")
    assert told.startswith(f"Waits: {site.job('w').reason}.")
    assert "It needs 2 nodes, none free." in told
    assert re.search(r"Held by jobs r0 and r1, expected to end within \d+ min", told), told
    assert site.policy.name in told


@every_policy
def test_too_few_watts(entry: registry.RegisteredPolicy) -> None:
    """A node is free, but its power is not: the reason names the watts and their holder."""
    site = Site(entry, budget_w=40 + 40 + 5)
    site.whole_nodes("r", 1, cap_uw=50 * W)
    site.round()
    assert len(site.core.state.placed()) == 1
    site.whole_nodes("w", 1, cap_uw=50 * W)
    site.round()
    told = site.reason("w")
    assert "needs 40.0 W above idle, 5.0 W free" in told
    assert "held by job r until" in told
    assert "It needs 40.0 W above idle, 5.0 W free.\nHeld by job r" in site.explained("w")


@every_policy
def test_a_free_place_without_watts_is_not_called_free(entry: registry.RegisteredPolicy) -> None:
    site = Site(entry, budget_w=40 + 40 + 5)
    site.whole_nodes("r", 1, cap_uw=50 * W)
    site.round()
    site.whole_nodes("w", 1, cap_uw=50 * W)
    site.round()
    assert "It would fit now" not in site.explained("w")


@every_policy
def test_an_announced_budget_that_is_enough(entry: registry.RegisteredPolicy) -> None:
    site = Site(entry, budget_w=40 + 5)
    site.send(ev.BudgetAnnounced(budget_uw=200 * W, at_ns=60 * S))
    site.whole_nodes("w", 1, cap_uw=50 * W)
    site.round()
    assert site.job("w").target is None
    told = site.reason("w")
    assert "the announced budget of 200.0 W from" in told, told


@every_policy
def test_held_by_its_user(entry: registry.RegisteredPolicy) -> None:
    site = Site(entry)
    site.submit("w", job_spec(), held=True)
    assert site.reason("w") == "held until it is released"
    assert site.explained("w").startswith("Held.\n`wattfold release w`")


@every_policy
def test_a_reservation_that_would_begin_before_it_ends(entry: registry.RegisteredPolicy) -> None:
    site = Site(entry)
    nodes = tuple(NodeId(name) for name in ("n0", "n1"))
    window = Reservation(
        name="service", nodes=nodes, start_ns=100 * S, end_ns=200 * S, maintenance=True
    )
    site.send(ev.ReservationMade(reservation=window))
    site.whole_nodes("w", 1, time_s=1000)
    site.round()
    assert site.job("w").target is None
    for told in (site.reason("w"), site.explained("w")):
        assert "maintenance (service)" in told


@every_policy
def test_larger_than_the_machine(entry: registry.RegisteredPolicy) -> None:
    site = Site(entry)
    site.whole_nodes("w", 3)
    site.round()
    assert re.search(r"requests 3 nodes\b.* more than", site.reason("w")), site.reason("w")


@every_policy
def test_the_reason_is_the_policys_own_whatever_the_job_lacks(
    entry: registry.RegisteredPolicy,
) -> None:
    """Missing memory does not replace the reason from the policy."""
    site = Site(entry)
    site.whole_nodes("r0", 1)
    site.whole_nodes("r1", 1)
    site.round()
    site.whole_nodes("w", 1)
    site.round()
    own = site.job("w").reason
    assert own
    assert not own.startswith("needs ")
    assert site.reason("w").startswith(own)
    assert site.explained("w").startswith(f"Waits: {own}.")


@every_policy
def test_a_late_planner_is_reported(entry: registry.RegisteredPolicy) -> None:
    """Shown as the reason of a job that no plan has considered, and above the queue."""
    site = Site(entry)
    site.submit("w")
    assert site.core.state.solving
    assert site.reason("w") == "not planned yet"
    assert site.listed().planner == ""
    site.after(30)
    late = r"the planner is late: it has worked on the current plan since \d\d:\d\d:\d\d"
    assert re.fullmatch(late, site.reason("w"))
    assert re.fullmatch(late, site.listed(STRANGER).planner)
    assert re.fullmatch(late, pb.Power.FromString(site.ask(view_requests.Power())).planner)
    assert "the planner is late" in site.explained("w")


@every_policy
def test_a_failed_planner_is_reported_until_it_plans_again(
    entry: registry.RegisteredPolicy,
) -> None:
    site = Site(entry)
    site.submit("w")
    round_ = planning_round(site.core.state.solving)
    site.send(ev.PlanFailed(round=round_, reason="policy x gave no answer within 5 s"))
    assert site.reason("w") == "no plan: policy x gave no answer within 5 s"
    failed = r"the planner has failed since .*: policy x gave no answer within 5 s"
    assert re.fullmatch(failed, site.listed().planner)
    assert re.fullmatch(failed, pb.Power.FromString(site.ask(view_requests.Power())).planner)
    site.after(2)
    site.round()
    assert site.listed().planner == ""


@every_policy
def test_every_policy_has_a_fallback_that_its_description_names(
    entry: registry.RegisteredPolicy,
) -> None:
    policies = list(chain(entry.service({})))
    assert len(policies) > 1
    assert policies[-1].name == "in-turn"
    assert entry.family.fallback
    names = {policy.name for policy in policies} - {entry.variant.name}
    assert all(name in entry.family.fallback for name in names), names
