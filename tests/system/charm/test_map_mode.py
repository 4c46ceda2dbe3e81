"""A real Charm++ program of mode map under a real agent: its map follows its cores."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import grpc
import psutil
import pytest
from system.agent.agent_process import agent, allowed_cpus, until
from system.agent.test_agent_jobs import refused

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

CPUS = sorted(os.sched_getaffinity(0))[:2]
BLOCKS = Path(__file__).with_name("blocks.py")
ONE, BOTH = str(CPUS[0]), ",".join(map(str, CPUS))
DEADLINE_S = 50
START_S = 80.0
TOTAL = 16

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]


@pytest.fixture
def node():
    flags = ("--emulate", "--cpus", BOTH, "--masks", "affinity", "--throttle", "signals")
    with agent(*flags) as running:
        yield running


class MapJob:
    """blocks.py as a job of mode map; its output is its own count of objects on every PE."""

    def __init__(self, node, cpus=BOTH, extra=(), **fields):
        self.node = node
        start = [sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py", *extra]
        values = {
            "mode": common.RESIZE_MODE_MAP,
            "launch_cpus": 2,
            "env": {"PYTHONPATH": ":".join(p for p in sys.path if p), "PATH": os.environ["PATH"]},
        } | fields
        node.launch("blocks", [*start, str(BLOCKS), str(node.work() / "stop")], cpus, **values)

    def text(self):
        return (self.node.work() / "wattfold-blocks.out").read_text()

    def last(self):
        """The program's own last count on every PE."""
        lines = re.findall(r"^(?:start|moved) \d+ \[(.*)\]$", self.text(), re.MULTILINE)
        return [int(count) for count in lines[-1].split(",")] if lines else []

    def usage(self, condition, deadline_s=START_S):
        found = []

        def look(message):
            found[:] = [usage for usage in message.jobs if condition(usage)]
            return bool(found)

        self.node.telemetry(look, deadline_s=deadline_s)
        return found[0]

    def applied(self, digits):
        wanted = bytes(int(digit) for digit in digits)
        return self.usage(lambda job: job.map_applied and job.processor_map == wanted)

    def mask(self, cpus, pe_map=b"", deadline_s=DEADLINE_S):
        request = pb.SetMaskRequest(
            header=self.node.header(),
            job_id="blocks",
            cpus=cpus,
            processor_map=pe_map,
            deadline_ns=int(deadline_s * 1e9),
        )
        return self.node.stub.SetMask(request, timeout=deadline_s + 10)

    def hold(self):
        """Wait until the program neither answers nor reaches a step; a signal could be undone."""
        gate = self.node.work() / "stop.hold"
        gate.touch()
        until(lambda: "held\n" in self.text(), START_S)
        return gate

    def end(self):
        (self.node.work() / "stop").touch()
        assert self.node.ended("blocks").exit_code == 0, self.text()
        found = re.search(r"^end (\d+) (\d+)$", self.text(), re.MULTILINE)
        steps = int(found[1])
        assert int(found[2]) == TOTAL * sum(sum(range(2000)) + step for step in range(steps))


def test_one_command_changes_cores_and_map_in_the_safe_order(node):
    job = MapJob(node)
    usage = job.applied("11")
    assert usage.shim == pb.SHIM_STATE_ATTACHED
    assert [pe.objects for pe in usage.processors] == [8, 8]
    pids = {pe.pid for pe in usage.processors}
    assert len(pids - {0}) == 2
    for cpus, pe_map, counts in ((ONE, b"\1\0", [16, 0]), (BOTH, b"", [8, 8])):
        answer = job.mask(cpus, pe_map)
        assert answer.shim == pb.SHIM_STATE_ATTACHED
        assert answer.map_applied
        assert answer.acknowledged_in_ns > 0
        assert sum(answer.processor_map) == len(cpus.split(","))
        # The map was in force when the answer came: the program itself reports it.
        until(lambda wanted=counts: job.last() == wanted)
        pid = node.processes()["blocks"].pid
        until(lambda wanted=cpus, root=pid: allowed_cpus(root) == {CpusText(wanted)})
        usage = job.applied("10" if pe_map else "11")
        assert [pe.objects for pe in usage.processors] == counts
        # The residual PE exists, is accounted for, and has the priority of the others.
        assert {pe.pid for pe in usage.processors} == pids
        assert all(pe.cpu_ns and pe.memory_bytes for pe in usage.processors)
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {
            os.getpriority(os.PRIO_PROCESS, 0)
        }
        assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_OTHER}
    job.end()


def CpusText(cpus):  # noqa: N802 - reads as a type
    numbers = [int(cpu) for cpu in cpus.split(",")]
    adjacent = len(numbers) == 2 and numbers[1] == numbers[0] + 1
    return f"{numbers[0]}-{numbers[1]}" if adjacent else cpus


def test_a_residual_pe_sleeps_until_it_is_needed(node):
    job = MapJob(node)
    job.applied("11")
    assert job.mask(ONE).map_applied
    enabled, residual = (pe.pid for pe in job.applied("10").processors)
    before, slept = (cpu_ns(enabled), cpu_ns(residual)), naps(residual)
    until(lambda: cpu_ns(enabled) - before[0] > 500_000_000, 60)
    # It does its part of every short step and then sleeps. A PE that polls would use half of the
    # core for as long as it may.
    used = cpu_ns(residual) - before[1]
    assert used < 400_000_000
    assert used < 500_000 * (naps(residual) - slept)
    assert job.mask(BOTH).map_applied
    until(lambda: job.last() == [8, 8])
    until(lambda: cpu_ns(residual) - before[1] > 300_000_000, 60)
    job.end()


def naps(pid):
    """How often it went to sleep."""
    return psutil.Process(pid).num_ctx_switches().voluntary


def cpu_ns(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_a_program_launched_small_gets_its_map_as_soon_as_it_is_up(node):
    job = MapJob(node, ONE, processor_map=b"\1\0")
    usage = job.applied("10")
    assert [pe.objects for pe in usage.processors] == [16, 0]
    until(lambda: job.last() == [16, 0])
    job.end()


def test_an_agent_killed_in_between_goes_on_with_the_map_on_record(node):
    job = MapJob(node)
    job.applied("11")
    # It cannot follow before the agent is gone.
    gate = job.hold()
    answer = job.mask(ONE, b"\1\0", deadline_s=0.5)
    assert answer.shim == pb.SHIM_STATE_CONFINED
    assert not answer.map_applied
    node.kill()
    gate.unlink()
    node.start()
    assert [pe.objects for pe in job.applied("10").processors] == [16, 0]
    until(lambda: job.last() == [16, 0])
    assert job.mask(BOTH).map_applied
    until(lambda: job.last() == [8, 8])
    job.end()


def test_a_program_that_does_not_come_to_a_step_is_confined_and_follows_later(node):
    job = MapJob(node)
    job.applied("11")
    gate = job.hold()
    answer = job.mask(ONE, b"\1\0", deadline_s=0.5)
    assert answer.cpus == ONE
    assert answer.shim == pb.SHIM_STATE_CONFINED
    usage = job.usage(lambda seen: seen.shim == pb.SHIM_STATE_CONFINED)
    assert not usage.map_applied
    assert usage.map_message
    gate.unlink()
    usage = job.applied("10")
    assert usage.shim == pb.SHIM_STATE_ATTACHED
    assert usage.map_message == ""
    job.end()


def test_a_program_with_another_number_of_pes_is_told_of_and_left_alone(node):
    job = MapJob(node, extra=("+p1",))
    usage = job.usage(lambda seen: "PEs" in seen.map_message)
    assert usage.map_message == "the program has 1 PEs; it must be started with 2"
    assert usage.shim == pb.SHIM_STATE_CONFINED
    assert job.mask(ONE, b"\1\0").shim == pb.SHIM_STATE_CONFINED
    assert not job.usage(lambda _: True).map_applied
    job.end()


@pytest.mark.parametrize(
    ("pe_map", "why"),
    [(b"\1", "the map has 1 PEs, but the program has 2"), (b"\1\1", "enables 2 PEs on 1 CPUs")],
)
def test_a_map_that_does_not_fit_the_cores_is_refused(node, pe_map, why):
    node.launch("j", ["sleep", "100"], BOTH, mode=common.RESIZE_MODE_MAP)
    request = pb.SetMaskRequest(header=node.header(), job_id="j", cpus=ONE, processor_map=pe_map)
    refusal = refused(
        lambda: node.stub.SetMask(request, timeout=240), grpc.StatusCode.INVALID_ARGUMENT
    )
    assert why in refusal
    assert node.processes()["j"].cpus == CpusText(BOTH)


def test_a_job_that_is_no_charm_program_is_held_by_its_mask_and_told_of(node):
    node.launch("j", ["sleep", "100"], BOTH, mode=common.RESIZE_MODE_MAP)
    answer = node.mask("j", ONE)
    assert answer.shim == pb.SHIM_STATE_ABSENT
    assert not answer.map_applied
    found = node.telemetry(lambda m: any(job.map_message for job in m.jobs))
    assert "charm_start" in found.jobs[0].map_message
