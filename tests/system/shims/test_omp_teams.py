"""Teams of a real libgomp under the shim follow the mask, and acknowledgements are true."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import DEADLINE_S, Launcher, Puppet

from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType

pytestmark = pytest.mark.system

NEW_FORMS = (
    "parallel",
    "reductions",
    "sections",
    "static",
    "dynamic",
    "guided",
    "runtime",
    "nonmonotonic_dynamic",
    "nonmonotonic_guided",
    "nonmonotonic_runtime",
    "maybe_nonmonotonic_runtime",
)
OLD_FORMS = (
    "parallel_start",
    "static_start",
    "dynamic_start",
    "guided_start",
    "runtime_start",
    "sections_start",
)


@pytest.fixture(params=["libgomp", "libomp", "libomp-tool"])
def way(request: pytest.FixtureRequest) -> str:
    """The OpenMP runtime under test; the last is the tool interface of other architectures."""
    return str(request.param)


@pytest.fixture
def runtime(way: str) -> str:
    return way.removesuffix("-tool")


@pytest.fixture
def shim(way: str, request: pytest.FixtureRequest) -> Path:
    path = request.getfixturevalue("tool_shim" if way == "libomp-tool" else "default_shim")
    assert isinstance(path, Path)
    return path


@pytest.fixture
def puppet(runtime: str, request: pytest.FixtureRequest) -> Path:
    """The program that runs on this runtime."""
    path = request.getfixturevalue("gcc_puppet" if runtime == "libgomp" else "clang_puppet")
    assert isinstance(path, Path)
    return path


@pytest.fixture
def team(launch: Launcher, agent: AgentEnd, puppet: Path) -> Puppet:
    """The puppet in team mode, launched for 4 threads and connected to the agent."""
    program = launch.start(puppet)
    agent.expect(ShimMessageType.HELLO)
    return program


def test_says_hello_before_its_first_region(
    launch: Launcher, agent: AgentEnd, puppet: Path, runtime: str
) -> None:
    program = launch.start(puppet)
    hello = agent.expect(ShimMessageType.HELLO)
    assert hello.text == runtime
    assert (hello.pid, hello.regions, hello.cores) == (program.process.pid, 0, 4)


def test_shrinks_and_grows(team: Puppet, agent: AgentEnd) -> None:
    assert team.team() == 4
    for cores in (1, 3, 2, 4):
        assert agent.resize(cores).cores == cores
        assert team.team() == cores
        assert team.team() == cores


def test_a_serial_phase_acknowledges_without_a_region(team: Puppet, agent: AgentEnd) -> None:
    # The program waits for a command all the time, so the helper must have answered.
    assert agent.resize(1).regions == 0
    assert team.team() == 1
    assert agent.resize(2).regions == 1


@pytest.mark.parametrize("old_form", [0, 1])
def test_a_running_larger_region_holds_the_acknowledgement_back(
    team: Puppet, agent: AgentEnd, old_form: int
) -> None:
    assert team.ask(f"hold {old_form} 4") == "inside 4"
    agent.send_mask(2)
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    assert team.ask("go on") == "outside"
    assert agent.expect(ShimMessageType.ACK).seq == agent.seq
    assert team.team() == 2


def test_the_end_of_a_region_wakes_the_helper(team: Puppet, agent: AgentEnd) -> None:
    # Without the wake-up each acknowledgement would wait for the helper's next status.
    rounds = 40
    for _ in range(rounds):
        agent.resize(4)
        assert team.ask("hold 0 4") == "inside 4"
        agent.send_mask(2)
        assert team.ask("go on") == "outside"
        while agent.expect(ShimMessageType.ACK).seq != agent.seq:
            pass
    statuses = sum(message.type is ShimMessageType.STATUS for message in agent.heard)
    assert statuses < rounds / 2


def test_a_running_small_region_does_not(team: Puppet, agent: AgentEnd) -> None:
    assert team.ask("hold 0 2") == "inside 2"
    assert agent.resize(3).cores == 3
    assert agent.resize(2).cores == 2
    assert team.ask("go on") == "outside"


def test_the_last_of_several_masks_wins(team: Puppet, agent: AgentEnd) -> None:
    assert team.ask("hold 0 4") == "inside 4"
    agent.send_mask(1)
    agent.send_mask(3)
    last = agent.send_mask(2)
    until = time.monotonic() + DEADLINE_S
    while int(team.ask("mask").split()[1]) != last:
        assert time.monotonic() < until, "the masks have not arrived"
    assert team.ask("go on") == "outside"
    assert agent.expect(ShimMessageType.ACK).seq == last
    assert team.team() == 2


def test_never_grows_beyond_the_launch_size(team: Puppet, agent: AgentEnd) -> None:
    assert agent.resize(16).cores == 4
    assert team.team() == 4
    assert team.team(clause=9) == 4
    assert team.ask("set 12") == "12"
    assert team.team() == 4


def test_grows_beyond_the_launch_size_where_that_is_allowed(
    launch: Launcher, agent: AgentEnd, puppet: Path
) -> None:
    program = launch.start(puppet, cpus=2, WATTFOLD_GROW_BEYOND_LAUNCH="1")
    agent.expect(ShimMessageType.HELLO)
    assert program.team() == 2
    assert program.team(clause=4) == 2  # without a mask, no core has been promised
    assert agent.resize(4).cores == 4
    assert [program.team(), program.team(clause=3), program.team(clause=9)] == [4, 3, 4]
    assert program.ask("set 1") == "1"
    assert program.team() == 1
    assert program.ask("set 2") == "2"
    assert agent.resize(3).cores == 3
    assert program.team() == 3
    assert program.ask("max") == "2"
    assert agent.resize(1).cores == 1
    assert program.team() == 1
    assert program.finish() == (0, "")
    assert agent.expect(ShimMessageType.BYE).max_team == 4


def test_a_larger_team_than_at_launch_holds_the_acknowledgement_back(
    launch: Launcher, agent: AgentEnd, puppet: Path
) -> None:
    program = launch.start(puppet, cpus=2, WATTFOLD_GROW_BEYOND_LAUNCH="1")
    agent.expect(ShimMessageType.HELLO)
    agent.resize(4)
    assert program.ask("hold 0 4") == "inside 4"
    agent.send_mask(3)
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    assert program.ask("go on") == "outside"
    assert agent.expect(ShimMessageType.ACK).seq == agent.seq


def test_growth_stops_at_the_thread_limit(launch: Launcher, agent: AgentEnd, puppet: Path) -> None:
    program = launch.start(puppet, cpus=2, WATTFOLD_GROW_BEYOND_LAUNCH="1", OMP_THREAD_LIMIT="3")
    agent.expect(ShimMessageType.HELLO)
    agent.resize(4)
    assert program.team() == 3
    assert program.finish() == (0, "")


def test_a_program_says_itself_how_far_it_may_grow(
    launch: Launcher, agent: AgentEnd, puppet: Path
) -> None:
    program = launch.start(puppet, cpus=2)
    agent.expect(ShimMessageType.HELLO)
    assert agent.resize(4).cores == 2
    assert program.team() == 2
    assert program.ask("grow 3") == "1"
    assert agent.resize(4).cores == 3
    assert program.team() == 3
    assert program.ask("grow 0") == "1"
    assert agent.resize(4).cores == 2
    assert program.team() == 2


def test_without_a_told_launch_size_the_programs_own_counts(
    launch: Launcher, agent: AgentEnd, puppet: Path
) -> None:
    program = launch.start(puppet, WATTFOLD_LAUNCH_CPUS=None, OMP_NUM_THREADS="3")
    agent.expect(ShimMessageType.HELLO)
    assert program.team() == 3
    agent.resize(8)
    assert program.team() == 3
    assert program.team(clause=8) == 3


def test_never_uses_more_than_the_program_asks_for(team: Puppet, agent: AgentEnd) -> None:
    agent.resize(3)
    assert team.team(clause=2) == 2
    assert team.team(clause=1) == 1
    assert team.team(clause=4) == 3
    assert team.ask("set 2") == "2"
    assert team.team() == 2


@pytest.mark.parametrize("kind", NEW_FORMS + OLD_FORMS)
def test_every_kind_of_region_is_clamped(team: Puppet, agent: AgentEnd, kind: str) -> None:
    def sizes() -> tuple[int, int, int]:
        return team.team(kind), team.team(kind, 3), team.team(kind, 1)

    agent.resize(2)
    assert sizes() == (2, 2, 1)
    agent.resize(4)
    assert sizes() == (4, 3, 1)
    assert team.finish() == (0, "")
    assert agent.expect(ShimMessageType.BYE).max_team == 4


def test_the_variables_of_a_region_arrive(team: Puppet, agent: AgentEnd) -> None:
    for cores in (4, 1, 3):
        agent.resize(cores)
        assert team.ask("captures") == "wrong 0"


def test_a_clause_counts_for_its_own_region_alone(team: Puppet, agent: AgentEnd, way: str) -> None:
    if way == "libomp-tool":
        pytest.skip("LLVM's runtime before 15 keeps a clause that an if clause makes void")
    agent.resize(4)
    assert team.ask("if 1 2") == "2 4"
    assert team.ask("if 0 2") == "1 4"
    agent.resize(3)
    assert team.ask("if 1 2") == "2 3"
    assert team.ask("if 0 2") == "1 3"
    assert agent.resize(4).regions == 8


def test_the_puppet_really_uses_every_entry_point(gcc_puppet: Path, default_shim: Path) -> None:
    def symbols(path: Path, *options: str) -> set[str]:
        listed = subprocess.run(
            ["nm", "-D", *options, path], capture_output=True, text=True, check=True
        )
        return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}

    interposed = {s for s in symbols(default_shim, "--defined-only") if s.startswith("GOMP_")}
    assert len(interposed) == 18
    assert interposed <= symbols(gcc_puppet, "--undefined-only")


def test_nested_regions_share_the_mask(team: Puppet, agent: AgentEnd) -> None:
    assert team.ask("nested 2 3") == "2 3"  # without a mask, the program decides
    agent.resize(4)
    assert team.ask("nested 2 2") == "2 2"
    assert team.ask("nested 2 3") == "2 2"
    assert team.ask("nested 4 3") == "4 1"
    agent.resize(2)
    assert team.ask("nested 4 3") == "2 1"
    # An outer region of one thread is serial: the inner one is the outermost that runs in parallel.
    assert team.ask("nested 1 4") == "1 2"
    assert agent.resize(1).cores == 1
    assert team.ask("nested 4 3") == "1 1"


def test_running_nested_regions_hold_the_acknowledgement_back(
    team: Puppet, agent: AgentEnd
) -> None:
    agent.resize(4)
    assert team.ask("hold nested 2 2") == "inside 2 2"
    # Each team alone would fit, but not all threads together.
    agent.send_mask(2)
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    assert team.ask("go on") == "outside"
    assert agent.expect(ShimMessageType.ACK).seq == agent.seq


def test_resizes_amid_signals(team: Puppet, agent: AgentEnd) -> None:
    team.send("storm 300")
    for cores in (1, 4, 2, 3) * 5:
        agent.resize(cores)
    assert team.answer() == "lost 0 signals 1"
    assert team.team() == 3


def test_threads_that_come_and_go_obey_too(team: Puppet, agent: AgentEnd) -> None:
    agent.resize(2)
    assert team.ask("crowd 10 2") == "larger 0"
    assert agent.resize(3).regions == 10 * 4 * 20


def test_regions_of_other_threads_are_clamped_and_accounted(team: Puppet, agent: AgentEnd) -> None:
    agent.resize(2)
    for _ in range(20):
        assert team.ask("thread 4") == "2"
    assert agent.resize(3).regions == 20
    assert team.ask("thread 4") == "3"


@pytest.mark.parametrize("mode", ["mask", "fixed"])
def test_other_modes_leave_teams_alone_and_acknowledge_at_once(
    launch: Launcher, agent: AgentEnd, puppet: Path, mode: str
) -> None:
    program = launch.start(puppet, mode=mode)
    agent.expect(ShimMessageType.HELLO)
    assert program.ask("hold 0 4") == "inside 4"
    assert agent.resize(1).cores == 4
    assert program.ask("go on") == "outside"
    assert program.team() == 4
    assert program.team(clause=6) == 6


def test_a_mask_without_the_flag_leaves_teams_alone(team: Puppet, agent: AgentEnd) -> None:
    agent.resize(3)
    agent.send_mask(1, flags=ShimFlags.NONE)
    assert agent.expect(ShimMessageType.ACK).cores == 3
    assert team.team() == 3


def test_stale_masks_are_ignored(team: Puppet, agent: AgentEnd) -> None:
    agent.send_mask(2, seq=5)
    agent.send_mask(1, seq=5)
    agent.send_mask(1, seq=4)
    agent.send_mask(3, seq=6)
    acks: list[ShimMessage] = [agent.expect(ShimMessageType.ACK)]
    while acks[-1].seq != 6:
        acks.append(agent.expect(ShimMessageType.ACK))
    assert [ack.seq for ack in acks] in ([5, 6], [6])
    assert team.team() == 3


def test_garbage_is_dropped(team: Puppet, agent: AgentEnd) -> None:
    good = ShimMessage(
        type=ShimMessageType.MASK, flags=ShimFlags.TEAM_FOLLOWS, seq=50, cores=1, text="0"
    ).pack()
    for frame in (
        b"",
        b"hello",
        good[:-2],
        b"XXXX" + good[4:],
        good[:4] + b"\x09\x00" + good[6:],
        good[:64] + b"zero",
        good[:64] + b"3-1",
        good[:64] + b"0,",
        good[:64] + b"99999",
        good[:64] + b"0-3",  # four cores named, but one announced
        good[:16] + b"\0\0\0\0" + good[20:64],  # no core at all
        good + b"!" * 60_000,
        good + b"0" * 70_000,
    ):
        agent.send_raw(frame)
    agent.send_raw(good, b"second part")
    assert agent.resize(2).seq == 1
    assert [m.seq for m in agent.heard if m.type is ShimMessageType.ACK] == [1]
    assert team.team() == 2


@pytest.mark.parametrize("policy", ["active", None])
def test_no_idle_thread_of_libgomp_is_left_to_spin(
    launch: Launcher, agent: AgentEnd, gcc_puppet: Path, policy: str | None
) -> None:
    program = launch.start(gcc_puppet, cpus=2, OMP_WAIT_POLICY=policy)
    agent.expect(ShimMessageType.HELLO)
    assert program.team() == 2
    assert program.threads().count("puppet") == 2
    agent.resize(1)
    assert program.team() == 1
    assert program.threads().count("puppet") == 1
    agent.resize(2)
    assert program.team() == 2
