"""Data maintained incrementally equals data computed from a loaded state."""

from __future__ import annotations

from effort import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from property.core.derived import compare
from property.core.test_core_properties import AnyEvents
from unit.core.stage import CHECKED

from wattfold.coordinator.core.machine import CoordinatorCore


class KeptUp(AnyEvents):
    """Any events. After some of them, all derived data is computed again from scratch."""

    @initialize(every=st.integers(1, 7))
    def choose(self, every: int) -> None:
        self.every = every

    def teardown(self) -> None:
        if not hasattr(self, "stage") or not hasattr(self, "every"):
            return
        core = CoordinatorCore(self._first_budget, CHECKED)
        for number, (event, now_ns) in enumerate(self.stage.history):
            core.handle(event, now_ns)
            if number % self.every == 0:
                compare(core, now_ns)
        compare(core, self.stage.now_ns)


KeptUp.TestCase.settings = settings(max_examples=examples(80), stateful_step_count=40)
TestKeptUp = KeptUp.TestCase
