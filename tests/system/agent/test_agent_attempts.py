"""Attempts of a job under an agent: one at a time, and commands only for their own attempt."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from system.agent.agent_process import alive, until, wait_gone
from system.agent.conftest import CPUS

from wattfold.v1 import node_agent_pb2 as pb

ONE = str(CPUS[0])
SLEEP = ["sleep", "600"]


def launch(agent: Any, attempt: int, argv: list[str], **fields: object) -> pb.LaunchResponse:
    answer: pb.LaunchResponse = agent.launch("a", argv, ONE, attempt=attempt, **fields)
    return answer


def end(agent: Any, attempt: int, number: int, grace_s: float = 5, *, saves: bool = False) -> bool:
    request = pb.EndAttemptRequest(
        header=agent.header(),
        job_id="a",
        attempt=attempt,
        signal=number,
        grace_ns=round(grace_s * 1e9),
        saves=saves,
    )
    found: bool = agent.stub.EndAttempt(request).found
    return found


def stat_of(pid: int) -> str:
    """The state of a process, as one letter."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_later_attempt_starts_when_the_earlier_one_is_over(plain_agent: Any) -> None:
    first = ["sh", "-c", "echo one"]
    launch(plain_agent, 1, first)
    plain_agent.ended("a")
    assert launch(plain_agent, 1, first).already_running, "that one has been"
    launch(plain_agent, 2, ["sh", "-c", "echo two"])
    until(lambda: plain_agent.processes()["a"].state == pb.PROCESS_STATE_ENDED)
    assert plain_agent.processes()["a"].attempt == 2
    text = (plain_agent.work() / "wattfold-a.out").read_text()
    assert text == "one\ntwo\n", "it adds to the output of the first"


def test_a_late_word_to_forget_an_attempt_leaves_the_next_one_alone(plain_agent: Any) -> None:
    def forget(attempt: int) -> None:
        request = pb.ForgetProcessRequest(header=plain_agent.header(), job_id="a", attempt=attempt)
        plain_agent.stub.ForgetProcess(request)

    launch(plain_agent, 1, ["true"])
    plain_agent.ended("a")
    launch(plain_agent, 2, ["false"])
    until(lambda: plain_agent.processes()["a"].state == pb.PROCESS_STATE_ENDED)
    forget(1)
    assert plain_agent.processes()["a"].attempt == 2
    forget(2)
    assert plain_agent.processes() == {}


def test_an_earlier_attempt_that_is_alive_makes_way(plain_agent: Any) -> None:
    old = launch(plain_agent, 1, SLEEP).pid
    with pytest.raises(grpc.RpcError) as refused:
        launch(plain_agent, 2, SLEEP)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "this node has attempt 1, not 2" in refused.value.details()
    assert wait_gone(old)
    until(lambda: plain_agent.processes()["a"].state != pb.PROCESS_STATE_RUNNING)
    new = launch(plain_agent, 2, SLEEP).pid
    with pytest.raises(grpc.RpcError):
        launch(plain_agent, 1, SLEEP)
    assert alive(new)


def test_commands_of_another_attempt_find_nothing(plain_agent: Any) -> None:
    pid = launch(plain_agent, 2, SLEEP).pid
    assert not end(plain_agent, 1, signal.SIGTERM)
    request = pb.SuspendRequest(header=plain_agent.header(), job_id="a", attempt=1, suspended=True)
    assert not plain_agent.stub.Suspend(request).found
    assert alive(pid)
    assert end(plain_agent, 2, signal.SIGTERM)
    assert wait_gone(pid)


def test_a_signal_goes_to_those_who_take_it(plain_agent: Any) -> None:
    """The shell around the program has no handler, and its end would end the program."""
    inner = "trap 'echo saved; exit 3' USR1; echo ready; while :; do sleep 0.05; done"
    launch(plain_agent, 1, ["sh", "-c", f'sh -c "{inner}"; echo outer $?'])
    output = plain_agent.work() / "wattfold-a.out"
    until(lambda: output.exists() and output.read_text() == "ready\n")
    assert end(plain_agent, 1, signal.SIGUSR1, 60)
    assert plain_agent.ended("a").exit_code == 0
    assert output.read_text() == "ready\nsaved\nouter 3\n"


def test_environment_and_folder_of_an_attempt(plain_agent: Any) -> None:
    script = 'echo "$WATTFOLD_ATTEMPT $WATTFOLD_SNAPSHOT_DIR"; test -d "$WATTFOLD_SNAPSHOT_DIR"'
    launch(plain_agent, 3, ["sh", "-c", script], snapshot_dir="a.snapshot")
    assert plain_agent.ended("a").exit_code == 0
    work = plain_agent.work()
    assert (work / "wattfold-a.out").read_text() == f"3 {work}/a.snapshot\n"


def test_a_folder_that_cannot_be_made_is_told(plain_agent: Any) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        launch(plain_agent, 1, SLEEP, snapshot_dir="/proc/none")
    assert "make the snapshot folder" in refused.value.details()


SAVES = (
    "import os, pathlib, signal, sys, time\n"
    "def told(*_):\n"
    "    if sys.argv[1] == 'saves':\n"
    "        pathlib.Path(os.environ['WATTFOLD_SNAPSHOT_DIR'], 'state').write_text('1')\n"
    "    if sys.argv[1] != 'stays':\n"
    "        sys.exit(0)\n"
    "signal.signal(signal.SIGUSR1, told)\n"
    "pathlib.Path(sys.argv[2]).touch()\n"
    "while True: time.sleep(0.02)\n"
)


@pytest.mark.parametrize(
    ("what", "saving", "code"),
    [
        ("saves", pb.SAVING_SAVED, 0),
        ("ends", pb.SAVING_UNSAVED, 0),
        ("stays", pb.SAVING_KILLED, 137),
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["one agent", "another agent"])
def test_it_tells_whether_a_job_has_saved(
    plain_agent: Any, what: str, saving: int, code: int, again: bool
) -> None:
    ready = plain_agent.work() / f"{what}-{again}.ready"
    argv = [sys.executable, "-c", SAVES, what, str(ready)]
    launch(plain_agent, 1, argv, snapshot_dir=f"{what}-{again}.snapshot")
    until(ready.exists)
    assert plain_agent.processes()["a"].saving == pb.SAVING_UNSPECIFIED
    if again:
        plain_agent.kill()
        plain_agent.start()
    assert end(plain_agent, 1, signal.SIGUSR1, 0.3 if what == "stays" else 60, saves=True)
    process = plain_agent.ended("a")
    assert process.saving == saving
    assert (process.exit_code or 128 + process.signal) in (code, 128)


@pytest.mark.parametrize("saves", [True, False], ids=["to go on", "requeued"])
def test_an_order_to_stop_that_comes_after_the_one_to_end_is_too_late(
    plain_agent: Any, saves: bool
) -> None:
    ready = plain_agent.work() / f"late-{saves}.ready"
    argv = [sys.executable, "-c", SAVES, "stays", str(ready)]
    pid = launch(plain_agent, 1, argv, snapshot_dir="late.snapshot").pid
    until(ready.exists)
    assert end(plain_agent, 1, signal.SIGUSR1, 60, saves=saves)
    request = pb.SuspendRequest(header=plain_agent.header(), job_id="a", attempt=1, suspended=True)
    assert not plain_agent.stub.Suspend(request).found
    plain_agent.kill()
    plain_agent.start()
    assert not plain_agent.stub.Suspend(request).found, "the next agent knows it too"
    assert end(plain_agent, 1, signal.SIGTERM)
    assert wait_gone(pid)


def test_a_shell_with_the_signal_blocked_for_an_instant_is_not_taken_for_one_that_waits_for_it(
    plain_agent: Any,
) -> None:
    """The shell blocks the signal in its handler for SIGCHLD. Here it is stopped at that moment."""
    around = (
        "import os, signal, subprocess, sys\n"
        "inner = subprocess.Popen([sys.executable, *sys.argv[1:]])\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])\n"
        "sys.exit(inner.wait())\n"
    )
    ready = plain_agent.work() / "around.ready"
    argv = [sys.executable, "-c", around, "-c", SAVES, "saves", str(ready)]
    pid = launch(plain_agent, 1, argv, snapshot_dir="around.snapshot").pid
    until(lambda: ready.exists() and stat_of(pid) == "T")
    assert end(plain_agent, 1, signal.SIGUSR1, 60)
    until(lambda: (plain_agent.work() / "around.snapshot" / "state").exists())
    os.kill(pid, signal.SIGCONT)
    assert plain_agent.ended("a").exit_code == 0


WAITS = (
    "import os, pathlib, signal, sys, threading, time\n"
    "number = signal.SIGUSR1\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [number])\n"
    "def wait():\n"
    "    signal.sigwait([number])\n"
    "    os._exit(3)\n"
    "threading.Thread(target=wait).start()\n"
    "pathlib.Path(sys.argv[2]).touch()\n"
    "while True:\n"
    "    if sys.argv[1] == 'sleeps': time.sleep(600)\n"
)


@pytest.mark.parametrize("how", ["sleeps", "runs"])
def test_one_that_has_it_blocked_to_wait_for_it_in_a_thread_gets_it(
    plain_agent: Any, how: str
) -> None:
    ready = plain_agent.work() / f"{how}.ready"
    launch(plain_agent, 1, [sys.executable, "-c", WAITS, how, str(ready)])
    until(ready.exists)
    assert end(plain_agent, 1, signal.SIGUSR1, 60)
    assert plain_agent.ended("a").exit_code == 3


def test_a_program_that_has_just_started_is_told_when_it_can_be(plain_agent: Any) -> None:
    gate, ready = plain_agent.work() / "late.gate", plain_agent.work() / "started.ready"
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[3]): time.sleep(0.02)\n"
    argv = [sys.executable, "-c", wait + SAVES, "saves", str(ready), str(gate)]
    launch(plain_agent, 1, argv, snapshot_dir="started.snapshot")
    assert end(plain_agent, 1, signal.SIGUSR1, 60)
    gate.touch()
    assert plain_agent.ended("a").exit_code == 0
    assert (plain_agent.work() / "started.snapshot" / "state").exists()


def test_an_order_that_is_repeated_tells_nobody_twice(plain_agent: Any) -> None:
    count = (
        "import pathlib, signal, sys, time\n"
        "told = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: told.append(1))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(told)))\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while True: time.sleep(0.02)\n"
    )
    ready = plain_agent.work() / "count.ready"
    launch(plain_agent, 1, [sys.executable, "-c", count, str(ready)])
    until(ready.exists)
    for _ in range(3):
        assert end(plain_agent, 1, signal.SIGUSR1, 60)
    assert end(plain_agent, 1, signal.SIGTERM, 60)
    assert plain_agent.ended("a").exit_code == 1


def test_a_job_that_ends_by_itself_was_not_asked(plain_agent: Any) -> None:
    launch(plain_agent, 1, ["true"], snapshot_dir="by-itself.snapshot")
    assert plain_agent.ended("a").saving == pb.SAVING_UNASKED


def test_a_record_is_dropped_for_its_own_attempt_alone(plain_agent: Any) -> None:
    launch(plain_agent, 2, ["true"])
    plain_agent.ended("a")
    for attempt, left in ((1, True), (2, False)):
        request = pb.ForgetProcessRequest(header=plain_agent.header(), job_id="a", attempt=attempt)
        plain_agent.stub.ForgetProcess(request)
        assert ("a" in plain_agent.processes()) is left


def test_an_attempt_that_was_to_end_before_it_came_does_not_start(plain_agent: Any) -> None:
    assert not end(plain_agent, 2, signal.SIGTERM)
    for attempt in (1, 2):
        with pytest.raises(grpc.RpcError) as refused:
            launch(plain_agent, attempt, SLEEP)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert f"attempt {attempt} was cancelled before it arrived" in refused.value.details()
    assert plain_agent.processes() == {}
    assert launch(plain_agent, 3, SLEEP).pid
    assert end(plain_agent, 3, signal.SIGTERM)


def test_an_end_that_comes_beside_the_start_ends_it(plain_agent: Any) -> None:
    """Whichever command is handled first, no process of the attempt continues."""
    for attempt in range(1, 21):
        order = plain_agent.launch_request("a", SLEEP, ONE, attempt=attempt)
        ending = pb.EndAttemptRequest(
            header=plain_agent.header(),
            job_id="a",
            attempt=attempt,
            signal=signal.SIGTERM,
            grace_ns=5_000_000_000,
        )
        starts = plain_agent.stub.Launch.future(order)
        found = plain_agent.stub.EndAttempt(ending).found
        pid = 0 if starts.exception() else starts.result().pid
        assert found == bool(pid)
        if pid:
            plain_agent.ended("a")
            assert wait_gone(pid)
