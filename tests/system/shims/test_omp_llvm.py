"""Features of LLVM's OpenMP runtime: tools, settings, and programs of gcc that run on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.programs_build import compile_program
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system


@pytest.fixture
def team(launch: Launcher, agent: AgentEnd, clang_puppet: Path) -> Puppet:
    program = launch.start(clang_puppet)
    agent.expect(ShimMessageType.HELLO)
    return program


@pytest.fixture
def tool(built_shims: Path, tmp_path: Path, clang_puppet: Path) -> Path:
    """A third-party tool, as a shared library."""
    return compile_program("tool.c", built_shims, tmp_path, "-shared", "-fPIC")


def libomp_of(program: Path) -> Path:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    line = next(line for line in listed.splitlines() if "libomp" in line)
    return Path(line.split("=>")[1].split()[0])


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_the_programs_own_setting_stays_what_it_was(
    team: Puppet, agent: AgentEnd, cores: int
) -> None:
    agent.resize(cores)
    assert team.team() == cores
    assert team.ask("max") == "4"
    assert team.team(clause=1) == 1
    assert team.ask("max") == "4"
    agent.resize(4)
    assert team.team() == 4
    assert team.ask("set 3") == "3"
    assert team.team() == 3
    agent.resize(1)
    assert team.team() == 1
    assert team.ask("set 2") == "2"
    agent.resize(4)
    assert team.team() == 2


def test_a_program_of_gcc_on_a_preloaded_llvm_runtime(
    launch: Launcher, agent: AgentEnd, puppet: Path, clang_puppet: Path
) -> None:
    program = launch.start(puppet, LD_PRELOAD=launch.preload(libomp_of(clang_puppet)))
    agent.expect(ShimMessageType.HELLO)
    for cores in (2, 4, 1, 3):
        agent.resize(cores)
        assert [program.team(), program.team(clause=2)] == [cores, min(cores, 2)]
    # Each region is counted once, though it passes an entry point and is reported to the tool.
    assert agent.resize(4).regions == 8


@pytest.mark.parametrize("way", ["listed", "preloaded"])
def test_another_tool_works_behind_the_shim(
    launch: Launcher, agent: AgentEnd, clang_puppet: Path, tool: Path, way: str
) -> None:
    more = (
        {"OMP_TOOL_LIBRARIES": f"/nowhere.so:{tool}"}
        if way == "listed"
        else {"LD_PRELOAD": launch.preload(tool)}
    )
    program = launch.start(clang_puppet, **more)
    agent.expect(ShimMessageType.HELLO)
    agent.resize(2)
    assert [program.team() for _ in range(3)] == [2, 2, 2]
    code, errors = program.finish()
    assert (code, errors) == (0, "tool: set 1 begins 3 ends 3 threads 2\n")


def test_the_runtime_runs_without_a_tool_where_there_is_no_other(
    launch: Launcher, agent: AgentEnd, clang_puppet: Path
) -> None:
    program = launch.start(clang_puppet, OMP_TOOL_VERBOSE_INIT="stderr")
    agent.expect(ShimMessageType.HELLO)
    agent.resize(2)
    assert program.team() == 2
    code, errors = program.finish()
    assert code == 0
    assert "No OMP tool loaded" in errors


def test_without_an_agent_the_other_tool_is_alone(
    launch: Launcher, clang_puppet: Path, tool: Path
) -> None:
    program = launch.start(clang_puppet, WATTFOLD_SHIM_ENDPOINT=None, OMP_TOOL_LIBRARIES=str(tool))
    assert program.team() == 4
    assert program.finish() == (0, "tool: set 1 begins 1 ends 1 threads 4\n")


def test_tools_that_are_disabled_do_not_matter(
    launch: Launcher, agent: AgentEnd, clang_puppet: Path
) -> None:
    program = launch.start(clang_puppet, OMP_TOOL="disabled")
    agent.expect(ShimMessageType.HELLO)
    agent.resize(1)
    assert program.team() == 1


def test_mask_mode_counts_regions_and_leaves_them_alone(
    launch: Launcher, agent: AgentEnd, clang_puppet: Path
) -> None:
    program = launch.start(clang_puppet, mode="mask")
    agent.expect(ShimMessageType.HELLO)
    assert agent.resize(1).cores == 4
    assert program.team() == 4
    assert agent.resize(2).regions == 1


def affinities(program: Puppet) -> list[frozenset[int]]:
    """Affinities of the program's own threads, in order of their creation."""
    tasks = Path(f"/proc/{program.process.pid}/task")
    return [
        frozenset(os.sched_getaffinity(int(task.name)))
        for task in sorted(tasks.iterdir(), key=lambda task: int(task.name))
        if not (task / "comm").read_text().startswith(("ZMQbg", "wattfold"))
    ]


@pytest.mark.parametrize("runtime", ["libgomp", "libomp"])
def test_bound_threads_are_bound_again_after_a_change(
    launch: Launcher, agent: AgentEnd, request: pytest.FixtureRequest, runtime: str
) -> None:
    both = sorted(os.sched_getaffinity(0))[:2]
    if both != [0, 1]:
        pytest.skip("needs the cores 0 and 1")
    puppet = request.getfixturevalue("puppet" if runtime == "libgomp" else "clang_puppet")
    program = launch.start(puppet, cpus=2, OMP_PROC_BIND="true")
    agent.expect(ShimMessageType.HELLO)
    assert program.team() == 2
    assert affinities(program) == [{0}, {1}]
    agent.resize(2)
    # As the agent does after an acknowledgement: all threads may use the whole mask.
    for task in Path(f"/proc/{program.process.pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), both)
    agent.wait_until(lambda: affinities(program) == [{0}, {1}])
    assert program.team() == 2
