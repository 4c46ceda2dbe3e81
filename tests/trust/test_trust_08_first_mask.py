"""A starting program obeys the mask of its job from its first parallel region on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, agent, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.shims.conftest import built_shims  # noqa: F401
from system.shims.programs_build import clang_missing, compile_program

from wattfold.v1 import common_pb2 as common

pytestmark = pytest.mark.system
GATES = ("gate", "late", "one", "two", "three")
"""Files that programs wait for."""
ONE, BOTH = str(CPUS[0]), ",".join(map(str, CPUS))


@pytest.fixture(scope="module", params=["gcc", "clang"])
def first(
    request: pytest.FixtureRequest,
    built_shims: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The program, with the runtimes of GNU and LLVM."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "clang" and (missing := clang_missing(folder)):
        pytest.skip(missing)
    return compile_program("first.c", built_shims, folder, "-fopenmp", compiler=request.param)


@pytest.fixture
def node(built_shims: Path, tmp_path: Path) -> Iterator[AgentProcess]:  # noqa: F811
    need_two_cpus()
    shim = ("--omp-shim", str(built_shims / "libwattfold_omp.so"))
    flags = ("--masks", "affinity", "--throttle", "signals", *EMULATE, *shim)
    with agent("--config", emulation_file(tmp_path), *flags) as running:
        try:
            yield running
        finally:
            for gate in GATES:
                (running.work() / gate).touch()


def launch(node: AgentProcess, script: str, cpus: str, launch_cpus: int = 2, **fields: int) -> None:
    """Launch a shell that starts programs, as a job of mode team."""
    values = {"mode": common.RESIZE_MODE_TEAM, "launch_cpus": launch_cpus, **fields}
    node.launch("j", ["/bin/sh", "-c", script], cpus, **values)


def teams(node: AgentProcess, name: str) -> list[tuple[int, int]]:
    """Return the team sizes that a program printed, each with the maximum that it assumes."""
    text = (node.work() / "wattfold-j.out").read_text()
    found = re.findall(rf"^{name} team (\d+) of (\d+)$", text, re.MULTILINE)
    return [(int(team), int(most)) for team, most in found]


def end(node: AgentProcess, *gates: str) -> None:
    for gate in gates:
        (node.work() / gate).touch()
    assert node.ended("j").exit_code == 0


def test_the_first_region_of_a_job_launched_small_obeys_and_later_ones_grow(node, first):
    launch(node, f"{first} a gate", ONE)
    until(lambda: teams(node, "a") == [(1, 2)])
    assert node.mask("j", BOTH).cpus.replace("-", ",") == BOTH
    until(lambda: teams(node, "a") == [(1, 2), (2, 2)])
    end(node, "gate")


def test_a_program_that_starts_later_obeys_the_mask_of_then(node, first):
    launch(node, f"{first} a one; {first} b two; exec {first} c three", BOTH)
    until(lambda: teams(node, "a") == [(2, 2)])
    node.mask("j", ONE)
    (node.work() / "one").touch()
    until(lambda: teams(node, "b") != [])
    node.mask("j", BOTH)
    (node.work() / "two").touch()
    until(lambda: teams(node, "c") != [])
    end(node, "three")
    assert teams(node, "b")[0] == (1, 2)
    assert teams(node, "c")[0] == (2, 2)


def test_each_rank_obeys_its_own_part_also_one_that_comes_late(node, first):
    def rank(number: int) -> str:
        return f"env WATTFOLD_LOCAL_RANK={number} {first} rank{number}"

    wait = "until [ -e late ]; do sleep 0.05; done"
    launch(
        node,
        f"{rank(0)} gate & {wait}; {rank(1)} gate; wait",
        BOTH,
        launch_cpus=4,
        tasks_per_node=2,
    )
    until(lambda: teams(node, "rank0") == [(1, 2)])
    (node.work() / "late").touch()
    until(lambda: teams(node, "rank1") == [(1, 2)])
    end(node, "gate")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_program_that_starts_while_there_is_no_agent_obeys(node, first, how):
    node.flags = tuple(flag for flag in node.flags if flag != "--kill-jobs-on-exit")
    node.kill()
    node.start()
    launch(node, f"{first} a one; {first} b two; exec {first} c three", BOTH)
    until(lambda: teams(node, "a") == [(2, 2)])
    node.mask("j", ONE)
    getattr(node, how)()
    (node.work() / "one").touch()
    until(lambda: teams(node, "b") == [(1, 2)])
    node.start()
    # A new agent has taken over the file and keeps writing to it.
    assert node.mask("j", BOTH).cpus.replace("-", ",") == BOTH
    until(lambda: teams(node, "b") == [(1, 2), (2, 2)])
    (node.work() / "two").touch()
    until(lambda: teams(node, "c") == [(2, 2)])
    end(node, "three")
