"""The policy that stands in the worker plans what a new one plans from a snapshot of the core."""

from __future__ import annotations

import asyncio

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from property.core.test_core_properties import AnyEvents
from unit.adapters.in_place import InPlaceWorker
from unit.core.stage import CHECKED

from wattfold.coordinator.adapters.beside import Beside
from wattfold.coordinator.adapters.planning import Proposal, news_of, propose
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed, for_planning
from wattfold.coordinator.core.changes import Changes
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.policies.fifo_easy import FifoEasy
from wattfold.coordinator.policies.parm import Parm, Variant

POLICIES = (
    (FifoEasy(), FifoEasy(size="min", backfill=False)),
    (Parm(solver="greedy"), Parm(solver="greedy", variant=Variant.NOSE)),
)


class Rounds:
    """Planning rounds nobody carries out, each against one from the beginning."""

    def __init__(self, core: CoordinatorCore, others: int, policies: tuple[Policy, Policy]) -> None:
        self._core = core
        self.worker = InPlaceWorker()
        self.feed = ReplicaFeed(self.worker, lambda: core.state, for_planning)
        self._others, self._policies = others, policies
        self._count = 0
        self._said: dict[str, str] = {}

    def compare(self, now_ns: int) -> None:
        self._count += 1
        policy = self._policies[self._count % self._others == 0]
        asked = self.feed.ask(propose, lambda _anew: (policy, now_ns, Beside(), 1.0), 10.0)
        result = asyncio.run(asked)
        proposal: Proposal = result.value  # type: ignore[union-attr]
        state = self._core.state
        seen = self._core.snapshot(now_ns)
        whole = policy.propose(seen, now_ns, 1.0)
        assert proposal.jobs == len(seen.jobs)
        assert proposal.plan.assignments == news_of(whole, state).assignments
        self._said.update({w.job_id: w.reason for w in proposal.plan.waiting})
        for waiting in whole.waiting:
            shown = (self._said.get(waiting.job_id), state.jobs[waiting.job_id].reason)
            assert waiting.reason in shown


class StandingEvents(AnyEvents):
    """The same events; after some of them a round is planned, and once the worker dies."""

    @initialize(
        every=st.integers(1, 5),
        dies=st.integers(0, 30),
        others=st.integers(2, 9),
        policies=st.sampled_from(POLICIES),
    )
    def choose(self, every: int, dies: int, others: int, policies: tuple[Policy, Policy]) -> None:
        self.every, self.dies, self.others, self.policies = every, dies, others, policies

    def teardown(self) -> None:
        if not hasattr(self, "stage") or not hasattr(self, "every"):
            return
        core = CoordinatorCore(self._first_budget, CHECKED)
        rounds = Rounds(core, self.others, self.policies)
        for number, (event, now_ns) in enumerate(self.stage.history):
            actions = core.handle(event, now_ns)
            changes = Changes()
            changes.add(core.state, event, core.touched, actions)
            rounds.feed.note(changes)
            if number == self.dies:
                rounds.worker.die()
            if number % self.every == 0:
                rounds.compare(now_ns)
        rounds.compare(self.stage.now_ns)


StandingEvents.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestStandingEvents = StandingEvents.TestCase
