"""The persistent scheduler in the worker plans like a new scheduler with a snapshot of the core.

Every policy of the registry runs on the same events, and sometimes another policy replaces it.
"""

from __future__ import annotations

import asyncio

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from property.core.test_core_properties import AnyEvents
from unit.adapters.in_place import InPlaceWorker

from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.adapters.planning import (
    Proposal,
    beside_the_policy,
    news_of,
    propose,
)
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import JobState
from wattfold.coordinator.core.model.plan import Plan, Policy
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import Value
from wattfold.coordinator.solvers.worker import Success

DEADLINE_S = 10.0
IMPATIENT: dict[str, Value] = {"patience": 0.05}
"""Nodes are held for a job that has waited for a few seconds."""
POLICIES = [
    entry.service(
        {
            **entry.family.without_memory,
            **(IMPATIENT if entry.family.setting("patience") is not None else {}),
        }
    )
    for entry in registry.entries()
    if entry.variant.service is not None
]


class Rounds:
    """Planning rounds without effects, each compared with a round from scratch."""

    def __init__(self, core: CoordinatorCore, others: int, policies: tuple[Policy, Policy]) -> None:
        self._core = core
        self.worker = InPlaceWorker()
        self.feed = ReplicaFeed(self.worker, lambda: core.state, for_planning)
        self._others, self._policies = others, policies
        self._count = 0
        self._said: dict[str, str] = {}

    def compare(self, now_ns: int) -> Changes:
        """Plan a round twice. Return the jobs whose planned start changed."""
        self._count += 1
        policy = self._policies[self._count % self._others == 0]
        asked = self.feed.ask(propose, lambda _anew: (policy, now_ns, Beside(), DEADLINE_S), 10.0)
        result = asyncio.run(asked)
        assert isinstance(result, Success), (policy, result)
        proposal: Proposal = result.value
        state = self._core.state
        seen = self._core.snapshot(now_ns)
        whole = policy.propose(seen, now_ns, DEADLINE_S)
        whole = beside_the_policy(whole, seen, state, now_ns, policy)
        assert proposal.jobs == len(seen.jobs), policy
        assert proposal.plan.assignments == news_of(whole, state).assignments, policy
        self._said.update({w.job_id: w.reason for w in proposal.plan.waiting})
        for waiting in whole.waiting:
            shown = (self._said.get(waiting.job_id), state.jobs[waiting.job_id].reason)
            assert waiting.reason in shown, policy
        return self._promised(proposal.plan)

    def _promised(self, plan: Plan) -> Changes:
        """Report planned starts to the core, because they are values of plans."""
        changes = Changes()
        for waiting in plan.waiting:
            job = self._core.state.jobs[waiting.job_id]
            if job.state is JobState.PENDING and job.promise != waiting.promise:
                job.promise = waiting.promise
                changes.jobs[job.job_id] = None
        return changes


class StandingEvents(AnyEvents):
    """The same events. After some of them all policies plan a round; once the workers die."""

    # The core by itself is tested in `AnyEvents`.
    replay = None
    look_at_everything = None

    @initialize(every=st.integers(1, 30), dies=st.integers(0, 30), others=st.integers(2, 5))
    def choose(self, every: int, dies: int, others: int) -> None:
        self.every, self.dies, self.others = every, dies, others

    def teardown(self) -> None:
        if not hasattr(self, "stage") or not hasattr(self, "every"):
            return
        core = CoordinatorCore(self._first_budget)
        after = POLICIES[1:] + POLICIES[:1]
        every = [Rounds(core, self.others, pair) for pair in zip(POLICIES, after, strict=True)]
        history = self.stage.history
        for number, (event, now_ns) in enumerate(history):
            actions = core.handle(event, now_ns)
            changes = Changes()
            changes.add(core.state, event, core.touched, actions)
            # All policies plan after the last event, where the history of a failure is shortest.
            asked = (len(history) - 1 - number) % self.every == 0
            for rounds in every:
                rounds.feed.note(changes)
                if number == self.dies:
                    rounds.worker.die()
            for rounds in every if asked else ():
                promised = rounds.compare(now_ns)
                for told in every:
                    told.feed.note(promised)


StandingEvents.TestCase.settings = settings(max_examples=examples(24), stateful_step_count=40)
TestStandingEvents = StandingEvents.TestCase
