"""Simulations wait for the compiled loops of a policy before it plans."""

from __future__ import annotations

import pytest

from wattfold.simulator.runs.schedulers import ready_of


@pytest.mark.parametrize("name", ["andreas", "constraint", "constraint-cp"])
def test_policies_with_compiled_loops_are_waited_for(name: str) -> None:
    ready = ready_of(name)
    assert ready is not None
    assert ready() is not None, "numba is among what tests need"
    assert ready() is ready()


@pytest.mark.parametrize("name", ["easy", "parm-wse", "pbs-fifo", "no such policy"])
def test_others_plan_at_once(name: str) -> None:
    assert ready_of(name) is None
