"""System calls refused to a program disable the shim with a message, and never end the program."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.conftest import (  # noqa: F401
    agent,
    built_shims,
    default_shim,
    gcc_puppet,
    launch,
    shim,
)
from system.shims.programs_build import compile_program
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimMessageType

# Fixtures of another folder are found by their names in this module.
# ruff: noqa: F811

pytestmark = pytest.mark.system
CANNOT, UNKNOWN = 77, 2
EPERM, ENOSYS = 1, 38
CALLS = """
    bind clock_gettime clone clone3 connect dup epoll_create1 epoll_ctl epoll_pwait epoll_wait
    eventfd2 fcntl futex getdents64 getpeername getrandom getsockname getsockopt gettid madvise
    membarrier membarrier:8 membarrier:16 munmap pipe2 poll ppoll prctl prlimit64 recvfrom recvmsg
    rseq rt_sigaction rt_sigprocmask sched_getaffinity sched_getattr sched_getparam
    sched_getscheduler sched_setaffinity sched_setattr sched_setscheduler sched_yield sendmsg
    sendto set_robust_list setsockopt shutdown socket socketpair sysinfo
""".split()  # noqa: SIM905
"""System calls whose refusal an OpenMP program tolerates."""
INERT = "; this program runs without being resized\n"
STRANGER = 54_321
"""An account without other processes."""


@pytest.fixture(scope="module")
def refuse(built_shims: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("refuse.c", built_shims, tmp_path_factory.mktemp("refuse"))


def alone(refuse: Path, call: str, error: int, puppet: Path) -> None:
    """Skip calls that the program itself needs or that the kernel cannot refuse."""
    done = subprocess.run(
        [refuse, call, str(error), puppet],
        input="region parallel 0\n",
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stderr)
    if done.returncode == UNKNOWN:
        pytest.skip(f"this architecture has no {call}")
    if (done.returncode, done.stdout) != (0, "2 499500\n"):
        pytest.skip(f"the program itself needs {call}")


def complaint(program: Puppet) -> str:
    """Return the message of the shim, which precedes the start of the program."""
    assert program.process.stderr is not None
    ready, _, _ = select.select([program.process.stderr], [], [], 0)
    return program.complaint() + "\n" if ready else ""


def obeys_or_is_inert(program: Puppet, agent: AgentEnd) -> None:
    assert program.team() == 2
    if said := complaint(program):
        assert said.startswith("wattfold: ")
        assert said.endswith(INERT)
    else:
        agent.expect(ShimMessageType.HELLO)
        assert agent.resize(1).cores == 1
    assert program.team() == (2 if said else 1)
    assert program.finish() == (0, "")


@pytest.mark.parametrize("error", [EPERM, ENOSYS])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_is_refused_does_not_end_the_program(
    refuse: Path, launch: Launcher, agent: AgentEnd, gcc_puppet: Path, call: str, error: int
) -> None:
    alone(refuse, call, error, gcc_puppet)
    obeys_or_is_inert(launch.start(refuse, call, str(error), gcc_puppet, cpus=2), agent)


def test_without_membarrier_from_the_start_the_program_is_resized(
    refuse: Path, launch: Launcher, agent: AgentEnd, gcc_puppet: Path
) -> None:
    alone(refuse, "membarrier", EPERM, gcc_puppet)
    program = launch.start(refuse, "membarrier", str(EPERM), gcc_puppet, cpus=2)
    agent.expect(ShimMessageType.HELLO)
    assert agent.resize(1).cores == 1
    assert program.team() == 1
    assert program.finish() == (0, "")


def test_a_program_that_forbids_itself_membarrier_goes_on_without_the_shim(
    launch: Launcher, agent: AgentEnd, built_shims: Path, tmp_path: Path
) -> None:
    sandbox = compile_program("sandbox.c", built_shims, tmp_path, "-fopenmp")
    program = launch.start(sandbox, cpus=2)
    agent.expect(ShimMessageType.HELLO)
    assert program.answer() == "team 2"
    if program.ask("filter yourself") == "":
        pytest.skip("no seccomp filters here")
    agent.send_mask(1)
    assert program.complaint() == f"wattfold: the kernel refuses membarrier{INERT}".strip()
    # The shim does not acknowledge a mask that may not be in force.
    assert [m.type for m in agent.heard if m.type is ShimMessageType.ACK] == []
    assert program.ask("once more") == "team 2"
    program.send("go")
    assert program.finish() == (0, "")


@pytest.fixture
def reachable(default_shim: Path, gcc_puppet: Path) -> Iterator[tuple[Path, Path]]:
    """Shim and program in a folder that another account can read."""
    if os.geteuid() != 0 or shutil.which("prlimit") is None:
        pytest.skip("needs root, to become an account without processes, and prlimit")
    with tempfile.TemporaryDirectory(prefix="wattfold-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield tuple(Path(shutil.copy(path, folder)) for path in (default_shim, gcc_puppet))


@pytest.mark.parametrize("team", [2, 4])
def test_with_few_threads_to_be_had_the_program_has_them(
    reachable: tuple[Path, Path], team: int
) -> None:
    """From just enough threads for the program to enough for program and shim."""
    shim, puppet = reachable
    said = set()
    for most in range(team, team + 8):
        done = subprocess.run(
            ["prlimit", f"--nproc={most}", puppet],
            input="region parallel 0\n",
            capture_output=True,
            text=True,
            check=False,
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
            cwd="/",
            env={
                "PATH": os.defpath,
                "LD_PRELOAD": str(shim),
                "WATTFOLD_SHIM_ENDPOINT": f"ipc://{puppet}.absent",
                "WATTFOLD_RESIZE_MODE": "team",
                "WATTFOLD_LAUNCH_CPUS": str(team),
                "OMP_NUM_THREADS": str(team),
            },
        )
        assert (done.returncode, done.stdout) == (0, f"{team} 499500\n"), (most, done.stderr)
        said.add(done.stderr)
    wanting = "the kernel refuses threads (Resource temporarily unavailable)"
    assert said == {"", f"wattfold: {wanting}{INERT}"}
