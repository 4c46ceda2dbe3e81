"""Masks: what is allowed and in which order they change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState
from wattfold.nodeagent.core.masks import StepKind, change_steps, check_mask, parse_cpus

NODE = CpuSet.parse("0-7")
A = JobId("a")


def told(old: str, new: str) -> list[tuple[str, str]]:
    steps = change_steps(CpuSet.parse(old), CpuSet.parse(new))
    return [(step.kind.value, str(step.cpus)) for step in steps]


def test_shrink_tells_before_it_confines():
    assert told("0-3", "0-1") == [("tell", "0-1"), ("confine", "0-1")]


def test_grow_widens_before_it_tells():
    assert told("0-1", "0-3") == [("confine", "0-3"), ("tell", "0-3")]


def test_a_move_does_both():
    assert told("0", "1") == [("confine", "0-1"), ("tell", "1"), ("confine", "1")]


sets = st.sets(st.integers(0, 7), min_size=1).map(CpuSet.of)


@given(sets, sets)
def test_the_mask_ends_right_and_is_never_empty(old, new):
    steps = change_steps(old, new)
    confined = [step.cpus for step in steps if step.kind is StepKind.CONFINE]
    assert (confined or [old])[-1] == new
    assert all(cpus and cpus <= old | new for cpus in confined)
    before_told = [s.cpus for s in steps[: [s.kind for s in steps].index(StepKind.TELL)]]
    assert new <= (before_told[-1] if before_told else old)


def test_refusals_name_cpus_and_job():
    with pytest.raises(InvalidRequest, match="empty"):
        check_mask(A, CpuSet(), NODE, {})
    with pytest.raises(InvalidRequest, match=r"CPUs 8-9 are not CPUs of this node"):
        check_mask(A, CpuSet.parse("7-9"), NODE, {})
    with pytest.raises(WrongState, match=r"CPUs 2 are held by job b"):
        check_mask(A, CpuSet.parse("0-2"), NODE, {JobId("b"): CpuSet.parse("2-3")})
    check_mask(A, CpuSet.parse("0-2"), NODE, {A: CpuSet.parse("2-3")})
    with pytest.raises(InvalidRequest, match="job a"):
        parse_cpus("0-x", what="job a")
