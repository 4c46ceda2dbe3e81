"""A job has ended only when none of its processes is alive, including fork bombs and daemons."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from system.agent.agent_process import AgentProcess, until, wait_gone
from system.agent.conftest import CPUS
from trust.ends import BOMB_PROCESSES, alive, killed_at_last
from trust.ways import WAYS, launch, program, running

from wattfold.v1 import node_agent_pb2 as pb

__all__ = ["program", "running"]
pytestmark = pytest.mark.system
KINDS = ("bomb", "hop", "storm", "threads", "traced", "stopped", "daemon", "cling")
MANY = int(os.environ.get("WATTFOLD_ENDS", "60")) // len(WAYS)
"""Number of jobs per way of ending; scripts/trial_ends runs more."""


def says_up(running: AgentProcess, job: str) -> bool:
    return (running.work() / f"wattfold-{job}.out").read_text() == "up\n"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_alive_when_the_end_is_told(running, program, kind):
    launch(running, "b", CPUS[0], program, kind, str(BOMB_PROCESSES))
    with killed_at_last(running, "b"):
        if kind == "cling":
            until(lambda: says_up(running, "b"))
            running.signal("b", signal.SIGTERM, grace_s=0.2)
        end = running.ended("b")
        assert alive(running, "b") == []
    assert end.exit_code == (137 if kind == "cling" else 3)


@pytest.mark.timeout(120 + 5 * MANY)
def test_no_core_is_given_away_while_its_last_owner_lives(running, program):
    """Many jobs, two at a time: each reported end is checked independently."""
    kinds = random.Random(7).choices(KINDS, k=MANY)
    waiting = [(f"j{number}", kind) for number, kind in enumerate(kinds)]
    on: dict[str, int] = {}
    free = list(CPUS)
    late: list[str] = []
    stream = running.stub.StreamTelemetry(pb.StreamTelemetryRequest(interval_ns=50_000_000))
    try:
        for message in stream:
            for job in [end.job_id for end in message.ended if end.job_id in on]:
                late += [f"{job}: {pid}" for pid in alive(running, job)]
                free.append(on.pop(job))
                forget(running, job)
            while free and waiting:
                job, kind = waiting.pop()
                on[job] = free.pop()
                launch(running, job, on[job], program, kind, "100")
                if kind == "cling":
                    running.signal(job, signal.SIGTERM, grace_s=0.1)
            if not on:
                break
    finally:
        stream.cancel()
    assert late == []


def forget(running: AgentProcess, job: str) -> None:
    running.stub.ForgetProcess(pb.ForgetProcessRequest(header=running.header(), job_id=job))


def keeper_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def daemon_of(running: AgentProcess, job: str, first: int, keeper: int) -> int:
    """Return the daemon of the first process once it belongs to the keeper; else 0."""
    others = set(alive(running, job)) - {first}
    try:
        return next(iter(others)) if [keeper_of(pid) for pid in others] == [keeper] else 0
    except FileNotFoundError:
        return 0  # A process has ended since: programs that fork a daemon do.


def test_a_job_whose_keeper_is_killed_is_ended_all_the_same(running, program):
    launch(running, "k", CPUS[0], program, "cling", "100")
    until(lambda: says_up(running, "k"))
    with killed_at_last(running, "k"):
        # Its daemon left its session and its parent long ago.
        assert len(alive(running, "k")) == 2
        os.kill(keeper_of(running.processes()["k"].pid), signal.SIGKILL)
        until(lambda: "event=keeper_lost" in running.log())
        assert len(alive(running, "k")) == 2
        running.signal("k", signal.SIGKILL)
        end = running.ended("k")
        assert alive(running, "k") == []
    assert end.state == pb.PROCESS_STATE_LOST


def test_what_is_still_alive_is_told_and_keeps_its_cores(running, program):
    launch(running, "d", CPUS[0], "/bin/sh", "-c", f"{program} daemon 100; exec sleep 1000")
    first = running.processes()["d"].pid
    keeper = keeper_of(first)
    until(lambda: daemon_of(running, "d", first, keeper) != 0)
    daemon = daemon_of(running, "d", first, keeper)
    # Nothing kills the daemon while its keeper is stopped.
    os.kill(keeper, signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)
    told = running.telemetry(lambda m: any(job.processes_left == 1 for job in m.jobs), 50)
    assert [(job.job_id, job.processes_left) for job in told.jobs] == [("d", 1)]
    assert running.processes()["d"].state == pb.PROCESS_STATE_RUNNING
    assert list(told.ended) == []
    assert "event=job_processes_remaining job=d alive=1" in running.log()
    os.kill(keeper, signal.SIGCONT)
    assert running.ended("d").exit_code == 137
    assert wait_gone(daemon)


def test_an_agent_that_is_killed_meanwhile_is_not_needed(running, program):
    gate = running.work() / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    launch(running, "a", CPUS[0], "/bin/sh", "-c", f"{program} bomb 100; read x < gate; exit 3")
    keeper = keeper_of(running.processes()["a"].pid)
    until(lambda: says_up(running, "a"))
    running.kill()
    with killed_at_last(running, "a"):
        gate.write_text("\n")
        assert wait_gone(keeper)
        assert alive(running, "a") == []
    running.start()
    assert running.ended("a").exit_code == 3
