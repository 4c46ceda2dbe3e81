"""Programs that set their own affinity without cgroups: reported cores are those really used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import grpc
import pytest
from system.agent.agent_process import AgentProcess, allowed_cpus, until
from system.agent.conftest import CPUS, plain_agent

from wattfold.v1 import node_agent_pb2 as pb

__all__ = ["plain_agent"]
pytestmark = pytest.mark.system
ONE, OTHER = str(CPUS[0]), str(CPUS[-1])
BOTH = f"{CPUS[0]},{CPUS[-1]}"
# Binds itself as runtimes of OpenMP and MPI do: repeatedly while "bind" exists, or once.
BINDS = """
import os, sys, time
cpus = {int(word) for word in sys.argv[1].split(",")}
print("up", flush=True)
while True:
    if os.path.exists("bind"):
        os.sched_setaffinity(0, cpus)
        if os.path.exists("once"):
            os.rename("bind", "bound")
    time.sleep(0.001)
"""


@pytest.fixture
def binding(plain_agent: AgentProcess) -> AgentProcess:
    """An agent with a job on both cores that binds itself on request of the test."""
    argv = [sys.executable, "-c", BINDS, BOTH]
    plain_agent.launch("b", argv, BOTH)
    until(lambda: (plain_agent.work() / "wattfold-b.out").read_text() == "up\n")
    return plain_agent


def usage(running: AgentProcess, wanted: Callable[[pb.JobUsage], bool]) -> pb.JobUsage:
    message = running.telemetry(lambda m: any(wanted(job) for job in m.jobs), 50)
    return next(job for job in message.jobs if wanted(job))


def test_a_core_that_a_job_does_not_leave_stays_its_own(binding):
    work = binding.work()
    (work / "bind").touch()
    until(lambda: allowed_cpus(binding.processes()["b"].pid) == {f"{ONE}-{OTHER}"})
    # If it had no CPU time since the order, it may appear to have left: then the order is repeated.
    until(lambda: bool(binding.mask("b", BOTH)) and len(cpus_of(binding.mask("b", ONE).cpus)) == 2)
    with pytest.raises(grpc.RpcError) as refused:
        binding.launch("c", ["true"], OTHER)
    assert f"CPUs {OTHER} are held by job b" in refused.value.details()
    # It is reported for as long as it stays there, not only by the check of the order. A job that
    # had no CPU time lately may appear to have left.
    seen = usage(binding, lambda job: bool(job.stray_cpus))
    assert (seen.cpus, seen.stray_cpus) == (ONE, OTHER)
    usage(binding, lambda job: job.stray_repairs > seen.stray_repairs and bool(job.stray_cpus))
    # It stops binding: then it leaves the core, which another job can use.
    (work / "bind").unlink()
    until(lambda: binding.mask("b", ONE).cpus == ONE)
    binding.launch("c", ["true"], OTHER)
    assert binding.ended("c").exit_code == 0


def test_a_thread_that_has_gone_back_is_found_and_brought_back(binding):
    assert binding.mask("b", ONE).cpus == ONE
    (binding.work() / "once").touch()
    (binding.work() / "bind").touch()
    seen = usage(binding, lambda job: job.stray_repairs > 0 and bool(job.stray_cpus))
    assert (seen.cpus, seen.stray_cpus) == (ONE, OTHER)
    until(lambda: allowed_cpus(binding.processes()["b"].pid) == {ONE})
    # The end of the conflict is reported.
    usage(binding, lambda job: job.stray_repairs > 0 and not job.stray_cpus)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_binding_within_the_mask_is_left_alone(binding):
    pid = binding.processes()["b"].pid
    os.sched_setaffinity(pid, {CPUS[0]})
    message = binding.telemetry(lambda m: bool(m.jobs))
    goal_ns = message.uptime_ns + 2_500_000_000
    last = binding.telemetry(lambda m: m.uptime_ns >= goal_ns)
    assert allowed_cpus(pid) == {ONE}
    assert last.jobs[0].stray_repairs == 0


def cpus_of(text: str) -> set[int]:
    first, _, last = text.partition("-")
    return {int(first), int(last)} if last else {int(word) for word in text.split(",")}
