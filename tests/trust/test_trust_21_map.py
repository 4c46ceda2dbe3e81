"""A job stopped by its user stays stopped, whatever signals the emulated throttle sends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, agent, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.throttle import SignalThrottle

pytestmark = pytest.mark.system
JOB = JobId("j")
SECOND = 1_000_000_000
TALKER = """
import os, signal, sys
signal.signal(signal.SIGTSTP, lambda *_: os.write(1, b"asked to stop\\n"))
print("up", flush=True)
for line in sys.stdin:
    print(line.strip(), flush=True)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def ran_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


class Scene:
    """A throttle with a given CPU usage, and a process that it controls."""

    def __init__(self, folder: Path) -> None:
        self.throttle = SignalThrottle(folder)
        self.throttle.prepare(JOB, 0.5)
        self.process = subprocess.Popen(
            [sys.executable, "-c", TALKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self.process.pid
        self.now_ns = self.cpu_ns = 0
        self.tick()
        assert self.hear() == "up\n"

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def tick(self, used_ns: int = 0, passed_ns: int = 0) -> None:
        self.now_ns += passed_ns
        self.cpu_ns += used_ns
        self.throttle.tick(JOB, self.cpu_ns, self.now_ns, lambda: [self.pid])

    def overdraw(self) -> None:
        """Exceed the budget, so that the throttle stops the process."""
        self.tick(used_ns=SECOND, passed_ns=SECOND // 10)

    def recover(self) -> None:
        """Regain credit, so that the throttle continues the process."""
        self.tick(passed_ns=10 * SECOND)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def until_stopped(self) -> None:
        until(lambda: state(self.pid) == "T")

    def answers(self) -> bool:
        assert self.process.stdin is not None
        self.process.stdin.write("hello\n")
        self.process.stdin.flush()
        return self.hear() == "hello\n"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    try:
        yield scene
    finally:
        scene.process.kill()
        scene.process.communicate()


def test_what_the_throttle_has_stopped_it_continues(scene):
    for _ in range(3):
        scene.overdraw()
        scene.until_stopped()
        scene.overdraw()  # stopped already
        scene.recover()
        assert scene.answers()


def test_a_process_found_stopped_is_not_continued(scene):
    scene.signal(signal.SIGSTOP)
    scene.until_stopped()
    scene.overdraw()
    scene.recover()
    assert state(scene.pid) == "T"
    scene.signal(signal.SIGCONT)
    assert scene.answers()


def test_a_stop_that_comes_while_the_throttle_holds_it_lasts(scene):
    scene.overdraw()
    scene.until_stopped()
    scene.signal(signal.SIGSTOP)
    scene.overdraw()
    scene.recover()
    assert state(scene.pid) == "T"
    scene.overdraw()
    scene.recover()
    assert state(scene.pid) == "T"
    scene.signal(signal.SIGCONT)
    assert scene.answers()


def test_a_stop_of_the_terminal_is_taken_by_the_program_in_its_own_way(scene):
    scene.overdraw()
    scene.until_stopped()
    scene.signal(signal.SIGTSTP)
    scene.recover()
    assert scene.hear() == "asked to stop\n"
    assert scene.answers()


def test_a_process_that_the_user_continues_is_stopped_again(scene):
    scene.overdraw()
    scene.until_stopped()
    scene.signal(signal.SIGCONT)
    assert scene.answers()
    scene.overdraw()
    scene.until_stopped()
    scene.recover()
    assert scene.answers()


def test_a_job_that_is_let_go_by_the_throttle_stays_stopped_for_its_user(scene):
    scene.overdraw()
    scene.until_stopped()
    scene.signal(signal.SIGSTOP)
    scene.throttle.release(JOB)
    assert state(scene.pid) == "T"
    assert not list(scene.throttle.stopped_path(JOB).parent.iterdir())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[AgentProcess]:
    need_two_cpus()
    flags = ("--masks", "affinity", "--throttle", "signals", *EMULATE)
    with agent("--config", emulation_file(tmp_path), *flags) as running:
        yield running


def throttled(node: AgentProcess) -> int:
    """A busy job that its cap stops and continues all the time."""
    node.lease()
    node.caps(package_0=15)
    pid: int = node.launch("j", ["sh", "-c", "while :; do :; done"], str(CPUS[0])).pid
    until(lambda: state(pid) == "T")
    until(lambda: state(pid) == "R")
    return pid


def seconds_pass(node: AgentProcess) -> None:
    """Wait for more than a hundred turns of the throttle, which forgets a debt within a second."""
    goal_ns = node.telemetry(lambda _: True).uptime_ns + 3 * SECOND
    node.telemetry(lambda message: message.uptime_ns >= goal_ns)


@pytest.mark.parametrize("agent_dies", [False, True])
def test_a_user_stops_a_throttled_job(node, agent_dies):
    pid = throttled(node)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    had_ns = ran_ns(pid)
    seconds_pass(node)
    assert (state(pid), ran_ns(pid)) == ("T", had_ns)
    if agent_dies:
        node.kill()
        node.start()
        seconds_pass(node)
        assert (state(pid), ran_ns(pid)) == ("T", had_ns)
    os.kill(pid, signal.SIGCONT)
    until(lambda: state(pid) == "R")


def test_a_job_that_is_throttled_when_its_agent_dies_goes_on(node):
    pid = throttled(node)
    until(lambda: state(pid) == "T")
    node.kill()
    until(lambda: state(pid) == "R")
    node.start()
