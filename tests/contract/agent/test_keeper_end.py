"""What the keeper does while a job runs and when it ends, also without an agent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keeper_orders import KeptJob, found_keeper, order
from waiting import wait_until

from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.adapters.jobs.keeper_messages import fields_of

SLEEP = ("/bin/sleep", "1000")


def state(pid: int) -> str:
    found = procfs.read_stat(pid)
    return found.state if found else ""


def ticks(pid: int) -> int:
    found = procfs.read_stat(pid)
    assert found is not None
    return found.start_ticks


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that counts as the agent."""
    with sleeper() as process:
        (tmp_path / "agent.pid").write_text(str(process.pid))
        yield process


def shell(folder: Path, script: str, **changed: Any) -> KeptJob:
    env = {"PATH": os.defpath}
    return KeptJob(order(folder, "/bin/sh", "-c", script, env=env, **changed)).go()


@pytest.mark.parametrize(
    ("script", "code", "killer"), [("exit 7", 7, 0), ("kill -9 $$", 137, 9), ("exit 255", 255, 0)]
)
def test_the_end_of_a_job_is_written_down(
    tmp_path: Path, script: str, code: int, killer: int
) -> None:
    end = shell(tmp_path, script).end()
    assert list(end) == ["exit_code", "signal", "ended_ns", "cpu_ns", "left"]
    assert (end["exit_code"], end["signal"], end["left"]) == (code, killer, 0)
    assert end["ended_ns"] > 0 < end["cpu_ns"]
    assert (tmp_path / "exit").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["err", "exit", "out"]


def test_the_space_for_the_end_is_reserved(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    job = shell(tmp_path, "read line < go; exit 7")
    assert (tmp_path / "exit.tmp").stat().st_size == 512
    (tmp_path / "go").write_text("\n")
    assert job.end()["exit_code"] == 7


def test_an_end_that_nobody_can_want_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    job = KeptJob(order(tmp_path, *SLEEP, exit_path=str(folder / "exit"))).go()
    (folder / "exit.tmp").unlink()
    folder.rmdir()
    os.kill(job.pid, signal.SIGKILL)
    os.waitpid(job.keeper, 0)


def test_an_end_is_written_when_the_disk_takes_it_again(tmp_path: Path) -> None:
    job = KeptJob(order(tmp_path, *SLEEP)).go()
    (tmp_path / "exit.tmp").unlink()
    (tmp_path / "exit.tmp").mkdir()
    os.kill(job.pid, signal.SIGTERM)
    wait_until("the job has ended", lambda: not Path(f"/proc/{job.pid}").exists())
    (tmp_path / "exit.tmp").rmdir()
    assert job.end()["signal"] == signal.SIGTERM


@pytest.mark.parametrize(
    "daemon", ["sleep 1000", "sh -c 'kill -STOP $$'", "sh -c 'sleep 1000 & wait'"]
)
def test_nothing_of_a_job_is_alive_after_its_end(tmp_path: Path, daemon: str) -> None:
    script = f"(setsid {daemon} & echo $!) > pid; exit 3"
    end = shell(tmp_path, script).end()
    assert end["exit_code"] == 3
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_signals_for_the_agent_do_not_end_a_keeper(tmp_path: Path) -> None:
    job = KeptJob(order(tmp_path, *SLEEP)).go()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1):
        os.kill(job.keeper, number)
    os.kill(job.pid, signal.SIGKILL)
    assert job.end()["signal"] == signal.SIGKILL


def test_a_group_is_killed_by_one_write(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.kill").write_text("")
    shell(tmp_path, "sleep 1000 & exit 0", groups=[str(group)]).end()
    assert (group / "cgroup.kill").read_text() == "1"


@pytest.mark.parametrize(("name", "thawed"), [("cgroup.freeze", "0"), ("freezer.state", "THAWED")])
def test_a_group_is_frozen_while_its_processes_are_killed(
    tmp_path: Path, name: str, thawed: str
) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / name).write_text("")
    with sleeper() as member:
        # A process outside of this PID namespace is listed as 0, which would be all processes.
        (group / "cgroup.procs").write_text(f"0\n1\n{member.pid}\n")
        shell(tmp_path, "sleep 1000 & exit 0", groups=[str(group)]).end()
        assert member.wait(60) == -signal.SIGKILL
    assert (group / name).read_text() == thawed


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    wait_until("it is stopped", lambda: state(process.pid) == "T")


def test_what_the_agent_has_stopped_runs_on_without_it(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    stopped = tmp_path / "stopped"
    job = KeptJob(order(tmp_path, *SLEEP, stopped_path=str(stopped))).go()
    with sleeper() as ours, sleeper() as other:
        for process in (ours, other):
            stop(process)
        # The PID of a process that has ended may belong to another one.
        stopped.write_text(f"{other.pid} {ticks(other.pid) + 1}\n{ours.pid} {ticks(ours.pid)}\n")
        agent.kill()
        agent.wait()
        wait_until("it runs", lambda: state(ours.pid) == "S")
        wait_until("this is done", lambda: not stopped.exists())
        assert state(other.pid) == "T"
    os.kill(job.pid, signal.SIGKILL)
    job.end()


def test_a_process_that_its_user_stops_too_stays_stopped(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    stopped = tmp_path / "stopped"
    job = KeptJob(order(tmp_path, *SLEEP, stopped_path=str(stopped))).go()
    with sleeper() as process:
        stop(process)
        # It waits while the process is stopped.
        process.send_signal(signal.SIGSTOP)
        stopped.write_text(f"{process.pid} {ticks(process.pid)}\n")
        agent.kill()
        agent.wait()
        wait_until("this is done", lambda: not stopped.exists())
        assert state(process.pid) == "T"
    os.kill(job.pid, signal.SIGKILL)
    job.end()


def test_a_keeper_watches_the_agent_that_has_adopted_its_job(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    stopped = tmp_path / "stopped"
    job = KeptJob(order(tmp_path, *SLEEP, stopped_path=str(stopped))).go()
    stopped.write_text("")
    agent.kill()
    agent.wait()
    wait_until("it has seen the end", lambda: not stopped.exists())
    with sleeper() as successor:
        (tmp_path / "agent.pid").write_text(str(successor.pid))
        os.kill(job.keeper, signal.SIGUSR1)
        watched = f"Pid:\t{successor.pid}\n"
        wait_until("it watches", lambda: watched in descriptors_of(job.keeper))
        stopped.write_text("")
        successor.kill()
        successor.wait()
        wait_until("it has seen that end too", lambda: not stopped.exists())
    os.kill(job.pid, signal.SIGKILL)
    job.end()


def descriptors_of(pid: int) -> str:
    """What the kernel says of the descriptors of a process."""
    return "".join(path.read_text() for path in Path(f"/proc/{pid}/fdinfo").iterdir())


def guard_on_record(folder: Path, guard: subprocess.Popen[bytes]) -> Path:
    """A guard, and the limit that somebody has to lower after its end."""
    limit = folder / "limit"
    limit.write_text("95")
    (folder / "lock").write_text("")
    record = {"instance": "i", "pid": guard.pid, "start_ticks": ticks(guard.pid)}
    (folder / "guard.json").write_text(json.dumps(record))
    (folder / "guard-writes.json").write_text(json.dumps({"writes": [[str(limit), "25"]]}))
    return limit


def test_a_keeper_brings_a_node_without_agent_and_guard_to_its_floor(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    """Also if nobody has collected the guard, as in a container whose first process does not."""
    job = KeptJob(order(tmp_path, *SLEEP)).go()
    with sleeper() as guard:
        limit = guard_on_record(tmp_path, guard)
        agent.kill()
        agent.wait()
        watched = f"Pid:\t{guard.pid}\n"
        wait_until("it watches the guard", lambda: watched in descriptors_of(job.keeper))
        assert limit.read_text() == "95"
        guard.kill()
        lapsed = tmp_path / "guard-lapse.json"
        wait_until("the floor is recorded", lapsed.exists)
        assert limit.read_text() == "25"
        assert json.loads(lapsed.read_text())["cause"] == "the agent and its guard were killed"
    os.kill(job.pid, signal.SIGKILL)
    job.end()


def test_the_end_of_a_job_does_not_stop_who_brings_the_node_to_its_floor(
    tmp_path: Path, agent: subprocess.Popen[bytes]
) -> None:
    job = KeptJob(order(tmp_path, *SLEEP)).go()
    with sleeper() as guard:
        limit = guard_on_record(tmp_path, guard)
        # The first attempt fails, and the second follows half a second later.
        limit.unlink()
        limit.mkdir()
        guard.kill()
        agent.kill()
        agent.wait()
        wait_until("one attempt was made", (tmp_path / "guard-lapse.json").exists)
        os.kill(job.pid, signal.SIGKILL)
        # A zone that never takes its floor must not hide the end of the job.
        assert job.end()["signal"] == signal.SIGKILL
        limit.rmdir()
        limit.write_text("95")
        wait_until("the zone is at its floor", lambda: limit.read_text() == "25")


def exchanged(message: bytes) -> tuple[list[bytes], int]:
    """What a keeper answers to a message after which nothing comes, and its status."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keeper = subprocess.Popen([found_keeper()], stdin=theirs, stdout=theirs)
        theirs.close()
        ours.sendall(message)
        ours.shutdown(socket.SHUT_WR)
        data = b"".join(iter(lambda: ours.recv(65536), b""))
        status = keeper.wait(60)
    return (fields_of(data) or []) if data else [], status


def test_a_keeper_whose_agent_ends_without_an_order_leaves_nothing() -> None:
    assert exchanged(b"") == ([], 0)
    assert exchanged(b"100:10:") == ([], 0)
    assert exchanged(b"1") == ([], 0)


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body.replace(b"1:1\0", b"1:2\0", 1),
        lambda body: body[:-1],
        lambda body: body + b"1:x\0",
        lambda body: body.replace(b"9:/bin/true\0", b"3:/b\0\0", 1),
        lambda body: body.replace(b"9:/bin/true\0", b"99999999999999999999:/bin/true\0", 1),
        lambda body: body.replace(b"1:1\0009:", b"7:9999999\0009:", 1),
        lambda body: b"",
        lambda body: b"\0" * 100,
    ],
)
def test_an_order_that_is_not_whole_is_refused(tmp_path: Path, damage: Any) -> None:
    _, _, body = order(tmp_path, "/bin/true").message().partition(b":")
    damaged = damage(body)
    answer, status = exchanged(b"%d:%b" % (len(damaged), damaged))
    assert answer == [b"error", b"71", b"set up its keeper", b""]
    assert status == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "message", [b"x:", b":", b"99999999999:", b"123456789012345678901234567890"]
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    assert exchanged(message)[0] == [b"error", b"71", b"set up its keeper", b""]


def test_a_person_who_starts_a_keeper_is_told_what_it_is() -> None:
    done = subprocess.run([found_keeper(), "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the agent of Wattfold starts this program" in done.stderr
