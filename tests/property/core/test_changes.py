"""A replica that receives only the changes of a state always equals this state."""

from __future__ import annotations

import asyncio

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from property.core.test_core_properties import AnyEvents
from unit.adapters.in_place import InPlaceWorker
from unit.core.stage import CHECKED

from wattfold.coordinator.adapters.copies.replica import Replica
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, whole
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.core.state.changes import Changes
from wattfold.coordinator.core.state.state import State


def state_there(replica: Replica) -> State:
    return replica.state


def compare(feed: ReplicaFeed, core: CoordinatorCore, now_ns: int) -> None:
    """Compare the updated replica with the original state."""
    result = asyncio.run(feed.ask(state_there, lambda _anew: (), 10.0))
    copy: State = result.value  # type: ignore[union-attr]
    state = core.state
    assert list(copy.nodes.values()) == list(state.nodes.values())
    assert copy.ledger == state.ledger
    assert copy.profiles == state.profiles
    assert list(copy.jobs.values()) == list(state.jobs.values())
    assert list(copy.index.open) == list(state.index.open)
    assert set(copy.index.ended) == set(state.index.ended)
    assert copy.placed() == state.placed()
    assert snapshot(copy, now_ns) == snapshot(state, now_ns)


class CopiedEvents(AnyEvents):
    """The same events. The replica is compared after some of them, and its process dies once."""

    @initialize(every=st.integers(1, 9), dies=st.integers(0, 30))
    def choose(self, every: int, dies: int) -> None:
        self.every, self.dies = every, dies

    def teardown(self) -> None:
        if not hasattr(self, "stage") or not hasattr(self, "every"):
            return
        core = CoordinatorCore(self._first_budget, CHECKED)
        worker = InPlaceWorker()
        feed = ReplicaFeed(worker, lambda: core.state, whole)
        for number, (event, now_ns) in enumerate(self.stage.history):
            actions = core.handle(event, now_ns)
            changes = Changes()
            changes.add(core.state, event, core.touched, actions)
            feed.note(changes)
            if number == self.dies:
                worker.die()
            if number % self.every == 0:
                compare(feed, core, now_ns)
        compare(feed, core, self.stage.now_ns)


CopiedEvents.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestCopiedEvents = CopiedEvents.TestCase
