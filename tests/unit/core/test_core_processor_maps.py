"""The processor map that goes with a set of cores, in commands and for every order of events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.core.stage import Stage, job_spec, launch, mask, on

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.processor_map import map_of
from wattfold.coordinator.core.model.jobs.spec import MAPPED, JobKind, ResizeMode

MAP = job_spec(mode=ResizeMode.MAP)
cpu_sets = st.sets(st.integers(0, 63), min_size=1, max_size=16).map(CpuSet.of)


@given(one=cpu_sets, other=cpu_sets, launch_cpus=st.integers(1, 16))
def test_the_map_is_a_function_of_the_number_of_cores(
    one: CpuSet, other: CpuSet, launch_cpus: int
) -> None:
    first, second = map_of(MAP, one, launch_cpus), map_of(MAP, other, launch_cpus)
    if len(one) > launch_cpus:
        assert first == b""
        return
    assert len(first) == launch_cpus
    assert sum(first) == len(one)
    assert not any(first[len(one) :]), "the first PEs, without a gap"
    if len(one) == len(other):
        assert first == second
    elif len(other) < len(one):
        # Fewer cores: PEs are only removed.
        assert all(a >= b for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("mode", [mode for mode in ResizeMode if mode not in MAPPED])
def test_jobs_of_other_modes_have_none(mode: ResizeMode) -> None:
    assert map_of(replace(MAP, mode=mode), CpuSet.of(range(2)), 4) == b""


def test_without_the_size_of_the_program_the_agent_finds_it() -> None:
    assert map_of(MAP, CpuSet.of(range(2)), 0) == b""


def running_on(cpus: str) -> Stage:
    stage = Stage()
    stage.up("n0")
    stage.submit("a", MAP)
    out = stage.plan(on("a", f"n0:{cpus}", cap_w=10))
    assert out == [with_map(launch("n0", "a", cpus, spec=MAP), cpus)]
    stage.launched("n0", "a")
    return stage


def with_map(action: act.Launch | act.SetMask, cpus: str) -> act.Launch | act.SetMask:
    cores = len(CpuSet.parse(cpus))
    return replace(action, processor_map=b"\1" * cores + b"\0" * (4 - cores))


def test_every_change_of_cores_carries_its_map() -> None:
    stage = running_on("0-1")
    out = stage.plan(on("a", "n0:0-3", cap_w=10))
    assert with_map(mask("n0", "a", "0-3"), "0-3") in out
    stage.mask_is("n0", "a", "0-3")
    out = stage.plan(on("a", "n0:2", cap_w=10))
    assert with_map(mask("n0", "a", "2"), "2") in out


def test_a_move_to_other_cores_gives_first_and_keeps_at_least_a_pe() -> None:
    stage = running_on("0-1")
    out = stage.plan(on("a", "n0:1-2", cap_w=10))
    assert with_map(mask("n0", "a", "1"), "1") in out
    assert stage.mask_is("n0", "a", "1") == [with_map(mask("n0", "a", "1-2"), "1-2")]


def test_a_rigid_program_has_all_its_pes() -> None:
    stage = Stage()
    stage.up("n0")
    spec = job_spec(2, 2, kind=JobKind.RIGID, mode=ResizeMode.MAP)
    stage.submit("a", spec)
    (out,) = stage.plan(on("a", "n0:0-1", cap_w=10))
    assert isinstance(out, act.Launch)
    assert out.processor_map == b"\1\1"


def test_the_size_of_the_program_survives_a_restart() -> None:
    stage = running_on("0-1")
    stage.core.state = codec.load_state(codec.dump_state(stage.core.state))
    stage.core.look_at_everything()
    out = stage.plan(on("a", "n0:0", cap_w=10))
    assert with_map(mask("n0", "a", "0"), "0") in out
