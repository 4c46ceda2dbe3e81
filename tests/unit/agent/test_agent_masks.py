"""Allowed masks and the order of their changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.nodeagent.core.errors import InvalidRequest, WrongState
from wattfold.nodeagent.core.masks import StepKind, apart, change_steps, check_mask, parse_cpus

NODE = CpuSet.parse("0-7")
A, B = JobId("a"), JobId("b")


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


def test_a_job_with_cores_of_another_one_has_what_its_record_has():
    found = {A: CpuSet.parse("0-3"), B: CpuSet.parse("2")}
    recorded = {A: CpuSet.parse("0-1"), B: CpuSet.parse("2")}
    assert apart(found, recorded, NODE) == recorded


def test_a_job_that_left_its_cores_keeps_those_of_its_record():
    found = {A: CpuSet.parse("2"), B: CpuSet.parse("2")}
    recorded = {A: CpuSet.parse("0-1"), B: CpuSet.parse("2")}
    assert apart(found, recorded, NODE) == recorded


def test_a_change_that_is_not_recorded_yet_counts():
    found = {A: CpuSet.parse("0-3"), B: CpuSet.parse("5")}
    recorded = {A: CpuSet.parse("0-1"), B: CpuSet.parse("4-5")}
    assert apart(found, recorded, NODE) == found


found_masks = st.dictionaries(
    st.sampled_from("abc").map(JobId), st.sets(st.integers(0, 9), min_size=1).map(CpuSet.of)
)


@given(found_masks, st.permutations(range(8)), st.sets(st.integers(1, 7), min_size=2, max_size=2))
def test_masks_that_are_found_become_disjoint_and_are_never_empty(found, cores, cuts):
    low, high = sorted(cuts)
    parts = (cores[:low], cores[low:high], cores[high:])
    recorded = {JobId(name): CpuSet.of(part) for name, part in zip("abc", parts, strict=True)}
    made = apart(found, {job: recorded[job] for job in found}, NODE)
    assert made.keys() == found.keys()
    assert all(made.values())
    cpus = [cpu for mask in made.values() for cpu in mask]
    assert len(cpus) == len(set(cpus))
    assert set(cpus) <= set(NODE)
