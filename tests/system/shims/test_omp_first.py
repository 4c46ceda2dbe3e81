"""Before the first mask arrives, regions obey the file that the agent wrote for the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher, Puppet
from system.shims.test_omp_notices import link, short

from wattfold.contract.shim_protocol import ShimMessageType
from wattfold.nodeagent.adapters.shims.shim_notice import TEAMS, TeamsFile

pytestmark = pytest.mark.system


@pytest.fixture(params=["gcc_puppet", "clang_puppet"])
def puppet(request: pytest.FixtureRequest) -> Path:
    """The program, on each runtime."""
    path = request.getfixturevalue(request.param)
    assert isinstance(path, Path)
    return path


@pytest.fixture
def write(agent: AgentEnd) -> Iterator[Callable[..., TeamsFile]]:
    """Write the file next to the socket, as the agent does before a job starts."""
    made: list[TeamsFile] = []

    def make(*teams: int) -> TeamsFile:
        made.append(TeamsFile(agent.path.parent, os.geteuid(), teams, seq=1))
        return made[-1]

    yield make
    for file in made:
        file.close()


def test_the_first_region_obeys_and_follows_until_the_mask_comes(
    launch: Launcher, agent: AgentEnd, puppet: Path, write: Callable[..., TeamsFile]
) -> None:
    file = write(2)
    program = launch.start(puppet)
    assert program.team() == 2
    # The agent has received HELLO, but has not answered.
    assert agent.expect(ShimMessageType.HELLO).cores == 2
    for cores in (1, 3, 4, 2):
        file.write([cores], seq=2)
        assert program.team() == cores
    # OMP_NUM_THREADS has its original value: a mask of all cores gives all threads.
    assert agent.resize(4).cores == 4
    assert program.team() == 4
    file.write([1], seq=99)  # no longer read
    assert program.team() == 4
    assert program.finish() == (0, "")


@pytest.mark.parametrize("clause", [0, 3])
def test_nested_regions_and_clauses_obey(
    launch: Launcher, puppet: Path, write: Callable[..., TeamsFile], clause: int
) -> None:
    write(2)
    program = launch.start(puppet)
    assert program.team(clause=clause) == 2
    assert program.ask("nested 2 2") == "2 1"


@pytest.mark.parametrize(
    ("rank", "team"),
    # 4000 is in another page than the first; ranks beyond the tasks share them.
    [(None, 4), ("0", 1), ("1", 2), ("4000", 3), ("4096", 1), ("nonsense", 4)],
)
def test_a_rank_obeys_its_own_word(
    launch: Launcher, puppet: Path, write: Callable[..., TeamsFile], rank: str | None, team: int
) -> None:
    write(4, 1, 2, *[4] * 3998, 3, *[4] * 95)
    program = launch.start(puppet, OMPI_COMM_WORLD_LOCAL_RANK=rank)
    assert program.team() == team


def nothing_told(path: Path) -> None:
    path.write_bytes(bytes(65_536))


@pytest.mark.parametrize("make", [lambda _: None, nothing_told, short, link, Path.mkdir, os.mkfifo])
def test_without_a_good_file_the_first_mask_counts(
    launch: Launcher, agent: AgentEnd, puppet: Path, make: Callable[[Path], object]
) -> None:
    make(agent.path.with_name(TEAMS))
    program: Puppet = launch.start(puppet)
    assert program.team() == 4
    agent.expect(ShimMessageType.HELLO)
    agent.resize(2)
    assert program.team() == 2
    assert program.finish() == (0, "")


@pytest.mark.parametrize("mode", ["mask", "fixed"])
def test_other_modes_read_none(
    launch: Launcher, puppet: Path, write: Callable[..., TeamsFile], mode: str
) -> None:
    write(2)
    assert launch.start(puppet, mode=mode).team() == 4
