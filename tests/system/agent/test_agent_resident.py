"""A job that holds no core of a node any more, but still has processes there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import grpc
import pytest
from system.agent.agent_process import AgentProcess, agent, allowed_cpus, until
from system.agent.test_agent_jobs import refused

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb

CPUS = sorted(os.sched_getaffinity(0))[:2]
BOTH, LAST = str(CpuSet.of(CPUS)), str(CPUS[-1])
STEPS = {
    "mode": common.RESIZE_MODE_MAP,
    "rank": 1,
    "ranks": 2,
    "pes": 4,
    "steps_only": True,
    "step_key": bytes(32),
    "step_nodes": [
        pb.StepNode(node_id="n0", address="unix:a", cpus=2),
        pb.StepNode(node_id="n1", address="unix:b", cpus=2),
    ],
}

pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


@pytest.fixture
def node() -> Iterator[AgentProcess]:
    with agent("--emulate", "--cpus", BOTH, "--masks", "affinity") as running:
        yield running


def mask(node: AgentProcess, cpus: str, *, resident: bool, job: str = "j") -> pb.SetMaskResponse:
    request = pb.SetMaskRequest(header=node.header(), job_id=job, cpus=cpus, resident=resident)
    return node.stub.SetMask(request, timeout=240)


def test_it_leaves_its_cores_to_others_and_takes_them_again(node: AgentProcess) -> None:
    node.launch("j", ["ignored"], BOTH, **STEPS)
    pid = node.processes()["j"].pid
    assert mask(node, LAST, resident=True).cpus == ""
    info = node.processes()["j"]
    assert (info.resident, info.cpus, info.pid) == (True, "", pid)
    until(lambda: allowed_cpus(pid) == {LAST})
    # Another job now has the core it may run on; its use of this core is residual.
    node.launch("other", ["sleep", "100"], BOTH)
    usage = node.telemetry(lambda m: any(u.job_id == "j" and u.resident for u in m.jobs))
    mine = next(u for u in usage.jobs if u.job_id == "j")
    assert mine.cpus == ""
    why = refused(lambda: mask(node, BOTH, resident=False), grpc.StatusCode.FAILED_PRECONDITION)
    assert "held by job other" in why
    node.signal("other", 9)
    node.ended("other")
    assert mask(node, BOTH, resident=False).cpus == BOTH
    until(lambda: allowed_cpus(pid) == {BOTH})
    assert not node.processes()["j"].resident


def test_it_may_be_started_without_cores_and_is_so_for_the_next_agent(node: AgentProcess) -> None:
    node.launch("other", ["sleep", "100"], BOTH)
    node.launch("j", ["ignored"], LAST, resident=True, **STEPS)
    pid = node.processes()["j"].pid
    assert allowed_cpus(pid) == {LAST}
    node.kill()
    node.start()
    info = node.processes()["j"]
    assert (info.resident, info.cpus, info.pid) == (True, "", pid)
    assert node.processes()["other"].cpus == BOTH
    usage = node.telemetry(lambda m: any(u.job_id == "j" for u in m.jobs))
    assert next(u for u in usage.jobs if u.job_id == "j").core_ns == 0


def test_where_its_program_was_started_it_holds_cores(node: AgentProcess) -> None:
    fields = {"mode": common.RESIZE_MODE_MAP}
    why = refused(
        lambda: node.launch("k", ["sleep", "9"], LAST, resident=True, **fields),
        grpc.StatusCode.INVALID_ARGUMENT,
    )
    assert "the node that starts its program must hold cores" in why
    node.launch("k", ["sleep", "100"], BOTH, **fields)
    why = refused(
        lambda: mask(node, LAST, resident=True, job="k"), grpc.StatusCode.FAILED_PRECONDITION
    )
    assert "must keep cores on this node" in why
    assert node.processes()["k"].cpus == BOTH
