"""The shim in a process: harmless to other functions, with clear messages when it cannot work."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system


@pytest.fixture(params=["libgomp", "libomp"])
def runtime(request: pytest.FixtureRequest) -> str:
    """The OpenMP runtime under test."""
    return str(request.param)


@pytest.fixture
def puppet(runtime: str, request: pytest.FixtureRequest) -> Path:
    """The program that runs on this runtime."""
    path = request.getfixturevalue("gcc_puppet" if runtime == "libgomp" else "clang_puppet")
    assert isinstance(path, Path)
    return path


@pytest.fixture
def team(launch: Launcher, agent: AgentEnd, puppet: Path) -> Puppet:
    program = launch.start(puppet)
    agent.expect(ShimMessageType.HELLO)
    return program


def thread_count(status: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith("Threads:"))
    return int(line.split()[1])


@pytest.mark.parametrize(
    "command",
    [
        ("cat", "/proc/self/status"),
        ("sh", "-c", "cat </proc/$$/status"),
        (sys.executable, "-c", "print(open('/proc/self/status').read())"),
    ],
)
def test_programs_without_openmp_get_no_thread(
    launch: Launcher, agent: AgentEnd, command: tuple[str, ...]
) -> None:
    output, errors = launch.start(*command).process.communicate(timeout=240)
    assert thread_count(output) == 1
    assert errors == ""
    assert agent.poll(ShimMessageType.HELLO, 0.2) is None


def test_without_an_agent_configured_it_is_silent_and_inert(launch: Launcher, puppet: Path) -> None:
    program = launch.start(puppet, WATTFOLD_SHIM_ENDPOINT=None, WATTFOLD_LAUNCH_CPUS="2")
    assert program.team() == 4
    assert "wattfold" not in program.threads()
    assert program.finish() == (0, "")


def test_helper_is_named_and_blocks_every_signal(team: Puppet) -> None:
    assert "wattfold" in team.threads()
    for task in Path(f"/proc/{team.process.pid}/task").iterdir():
        if task.name == str(team.process.pid):
            continue
        status = (task / "status").read_text()
        blocked = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
        mask = int(blocked.split()[1], 16)
        # SIGKILL and SIGSTOP cannot be blocked, and the C library reserves 32 and 33.
        wanted = (1 << 64) - 1
        for number in (9, 19, 32, 33):
            wanted &= ~(1 << (number - 1))
        assert mask & wanted == wanted, status


def test_runs_without_the_agent_there(launch: Launcher, puppet: Path, tmp_path: Path) -> None:
    program = launch.start(puppet, WATTFOLD_SHIM_ENDPOINT=f"ipc://{tmp_path}/nobody.sock")
    assert program.team() == 4
    assert program.finish() == (0, "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WATTFOLD_SHIM_ENDPOINT", "tcp://127.0.0.1:1"),
        ("WATTFOLD_SHIM_ENDPOINT", "ipc:///" + "x" * 200),
        ("WATTFOLD_RESIZE_MODE", "sideways"),
        ("WATTFOLD_GROW_BEYOND_LAUNCH", "yes"),
        ("WATTFOLD_LAUNCH_CPUS", "-1"),
        ("WATTFOLD_LAUNCH_CPUS", "many"),
        ("WATTFOLD_LAUNCH_CPUS", ""),
    ],
)
def test_a_bad_setting_is_one_line_and_no_effect(
    launch: Launcher, puppet: Path, name: str, value: str
) -> None:
    program = launch.start(puppet, **{name: value})
    assert program.team() == 4
    code, errors = program.finish()
    assert code == 0
    assert errors.count("\n") == 1
    assert errors.startswith("wattfold: ")
    assert name in errors


@pytest.mark.parametrize("what", ["lacking", "unreadable"])
def test_without_a_usable_libzmq_it_says_so_and_is_inert(
    launch: Launcher, puppet: Path, tmp_path: Path, what: str
) -> None:
    library = tmp_path / "libzmq.so.5"
    if what == "lacking":
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", library], check=True
        )
    else:
        library.write_bytes(b"\x7fELF")
    program = launch.start(puppet, LD_LIBRARY_PATH=str(tmp_path))
    assert program.team() == 4
    assert "wattfold" not in program.threads()
    code, errors = program.finish()
    assert code == 0
    assert errors.count("\n") == 1
    assert errors.startswith("wattfold: ")
    assert "libzmq.so.5" in errors


@pytest.mark.parametrize("limit", range(5, 20))
def test_without_free_file_descriptors_it_is_inert(
    launch: Launcher, puppet: Path, limit: int
) -> None:
    """Enough for the program and its libraries, but too few for a channel to the agent."""
    program = launch.start("sh", "-c", f'ulimit -n {limit}; exec "$0"', puppet)
    assert program.team() == 4
    assert program.finish() == (
        0,
        "wattfold: too few file descriptors are free; this program runs without being resized\n",
    )


def test_a_program_that_takes_all_file_descriptors_stays_alive_without_its_agent(
    team: Puppet, agent: AgentEnd
) -> None:
    assert team.team() == 4
    unlimited = resource.prlimit(team.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(team.process.pid, resource.RLIMIT_NOFILE, (3, unlimited[1]))
    agent.restart()
    # Longer than the shim waits between two attempts to connect.
    assert agent.poll(ShimMessageType.HELLO, 2.5) is None
    assert team.team() == 4
    resource.prlimit(team.process.pid, resource.RLIMIT_NOFILE, unlimited)
    agent.expect(ShimMessageType.HELLO)
    assert agent.resize(2).cores == 2
    assert team.finish() == (0, "")


def test_a_returning_agent_is_greeted_with_what_holds(
    team: Puppet, agent: AgentEnd, runtime: str
) -> None:
    agent.resize(3)
    agent.resize(2)
    agent.restart()
    hello = agent.expect(ShimMessageType.HELLO)
    assert (hello.seq, hello.cores, hello.text) == (2, 2, runtime)
    assert agent.resize(1).cores == 1
    assert team.team() == 1


def test_an_acknowledgement_due_while_the_agent_is_away_is_made_up(
    team: Puppet, agent: AgentEnd
) -> None:
    assert team.ask("hold 0 4") == "inside 4"
    seq = agent.send_mask(1)
    # A later answer proves that the mask was received before the agent goes.
    assert team.process.poll() is None
    assert agent.poll(ShimMessageType.ACK, 0.3) is None
    agent.restart()
    assert agent.expect(ShimMessageType.HELLO).seq == 0
    assert team.ask("go on") == "outside"
    assert agent.expect(ShimMessageType.ACK).seq == seq


def test_a_forked_child_is_on_its_own(team: Puppet, agent: AgentEnd) -> None:
    agent.resize(1)
    team.send("fork")
    assert team.answer() == "child 4 0"
    assert team.answer() == "status 0"
    assert agent.resize(2).cores == 2
    assert team.team() == 2
    assert {message.pid for message in agent.heard} == {team.process.pid}


def test_exec_into_another_program(team: Puppet, agent: AgentEnd) -> None:
    team.team()
    team.send("exec")
    output, errors = team.process.communicate(timeout=240)
    assert thread_count(output) == 1
    assert errors == ""


def test_exit_inside_a_region(team: Puppet, agent: AgentEnd) -> None:
    team.send("exit in region")
    assert team.finish() == (7, "")
    assert agent.expect(ShimMessageType.BYE).regions == 1


def test_normal_exit_says_goodbye(team: Puppet, agent: AgentEnd) -> None:
    assert team.team() == 4
    assert team.finish() == (0, "")
    bye = agent.expect(ShimMessageType.BYE)
    assert (bye.regions, bye.max_team) == (1, 4)


def test_ending_the_main_thread_alone_ends_the_program(team: Puppet) -> None:
    team.send("pthread_exit")
    assert team.process.wait(timeout=240) == 0


def test_status_tells_regions_and_progress(team: Puppet, agent: AgentEnd) -> None:
    team.team()
    assert team.ask("progress 3 12") == "reported"
    assert team.ask("progress nan 12") == "reported"
    while (status := agent.expect(ShimMessageType.STATUS)).done == 0:
        pass
    assert (status.regions, status.done, status.total, status.max_team) == (1, 3.0, 12.0, 4)
    # Without a change there is no message.
    assert agent.poll(ShimMessageType.STATUS, 1.2) is None


def test_poll_sees_every_change_once(team: Puppet, agent: AgentEnd) -> None:
    assert team.ask("poll") == "0 0 0 0"
    assert team.ask("cores") == "4 0.1.0"
    agent.resize(3)
    assert team.ask("poll") == "1 1 3 7"
    assert team.ask("poll") == "0 0 0 0"
    assert team.ask("cores") == "3 0.1.0"


def test_the_static_library_answers_without_the_shim(launch: Launcher, puppet: Path) -> None:
    program = launch.start(puppet, LD_PRELOAD=None)
    assert program.ask("poll") == "0 0 0 0"
    assert program.ask("progress 1 2") == "reported"
    cores, _, version = program.ask("cores").partition(" ")
    assert int(cores) > 0
    assert version == ""
