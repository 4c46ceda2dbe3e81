"""A real Charm++ program under a real agent: its objects follow the map, on every PE."""

import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import agent, until
from system.agent.test_agent_jobs import refused

from wattfold.v1 import node_agent_pb2 as pb

CPUS = sorted(os.sched_getaffinity(0))[:2]
BLOCKS = Path(__file__).with_name("blocks.py")
PES = 4
DEADLINE_NS = 50_000_000_000
START_S = 80.0

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


@pytest.fixture
def node():
    cpus = ",".join(map(str, CPUS))
    flags = ("--emulate", "--cpus", cpus, "--masks", "affinity", "--throttle", "signals")
    with agent(*flags) as running:
        yield running


class CharmJob:
    """blocks.py as a job; its output is its own count of objects on every PE."""

    def __init__(self, node, name="blocks"):
        self.node = node
        self.name = name
        program = [sys.executable, "-m", "charmrun.start", "++local", f"+p{PES}", str(BLOCKS)]
        start = [sys.executable, "-m", "wattfold.shims.charm_start", "--"]
        environment = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
        node.launch(
            name,
            [*start, *program, str(node.work() / "stop")],
            ",".join(map(str, CPUS)),
            launch_cpus=len(CPUS),
            env=environment,
        )
        until(lambda: self.counts("start"), START_S)

    def end(self):
        self.node.signal(self.name, signal.SIGKILL)
        self.node.ended(self.name)

    def counts(self, word):
        text = (self.node.work() / f"wattfold-{self.name}.out").read_text()
        lines = re.findall(rf"^{word} \d+ \[(.*)\]$", text, re.MULTILINE)
        return [[int(count) for count in line.split(",")] for line in lines]

    def set_map(self, pe_map, deadline_ns=DEADLINE_NS):
        request = pb.SetProcessorMapRequest(
            header=self.node.header(), job_id=self.name, map=pe_map, deadline_ns=deadline_ns
        )
        return self.node.stub.SetProcessorMap(request, timeout=70)


def test_objects_follow_the_map_from_4_pes_to_2_and_back(node):
    job = CharmJob(node)
    assert job.counts("start") == [[4, 4, 4, 4]]
    for pe_map, expected in (
        (b"\1\1\0\0", [8, 8, 0, 0]),
        (b"\1\1\1\1", [4, 4, 4, 4]),
        (b"\0\0\1\1", [0, 0, 8, 8]),
    ):
        answer = job.set_map(pe_map)
        assert answer.applied
        assert answer.applied_in_ns > 0
        assert answer.map == pe_map
        assert [element.objects for element in answer.elements] == expected
        assert [element.enabled for element in answer.elements] == [bool(use) for use in pe_map]
        # All processes exist and are accounted for, residual or not.
        assert len({element.pid for element in answer.elements} - {0}) == PES
        assert all(element.cpu_ns and element.memory_bytes for element in answer.elements)
        assert answer.surplus_processes == 0
        # The program's own counts on every PE.
        until(lambda wanted=expected: job.counts("moved")[-1:] == [wanted])
    job.end()


def test_the_result_does_not_depend_on_the_map(node):
    job = CharmJob(node)
    assert job.set_map(b"\0\1\0\1").applied
    assert job.set_map(b"\1\0\1\0").applied
    (node.work() / "stop").touch()
    assert node.ended("blocks").exit_code == 0
    text = (node.work() / "wattfold-blocks.out").read_text()
    found = re.search(r"^end (\d+) (\d+)$", text, re.MULTILINE)
    assert found is not None
    steps = int(found[1])
    assert int(found[2]) == 16 * sum(sum(range(2000)) + step for step in range(steps))
    assert len(job.counts("moved")) == 2


def test_maps_that_make_no_sense_are_refused_and_change_nothing(node):
    job = CharmJob(node)
    for pe_map in (b"", b"\1\1", b"\0\0\0\0", b"\1\2\1\1"):
        refused(lambda data=pe_map: job.set_map(data), grpc.StatusCode.INVALID_ARGUMENT)
    answer = job.set_map(b"\1\1\1\1")
    assert answer.applied
    assert [element.objects for element in answer.elements] == [4, 4, 4, 4]
    job.end()


def test_a_job_without_ccs_is_refused(node):
    node.launch("plain", ["sleep", "100"], str(CPUS[0]), launch_cpus=1)
    request = pb.SetProcessorMapRequest(header=node.header(), job_id="plain", map=b"\1")
    why = refused(
        lambda: node.stub.SetProcessorMap(request, timeout=240),
        grpc.StatusCode.FAILED_PRECONDITION,
    )
    assert "charm_start" in why


def test_a_job_adopted_by_the_next_agent_still_takes_maps(node):
    job = CharmJob(node)
    node.kill()
    node.start()
    assert job.set_map(b"\0\1\1\0").applied
    until(lambda: job.counts("moved") == [[0, 8, 8, 0]])
    job.end()
