"""Memory limits and GPUs of jobs under a real agent."""

import os
import sys
from pathlib import Path

import grpc
import pytest
from system.agent.agent_process import agent
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus
from system.agent.test_agent_jobs import refused

from wattfold.v1 import node_agent_pb2 as pb

ONE, OTHER = map(str, (CPUS[0], CPUS[-1]))
MIB = 1 << 20
EATER = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    eaten = [bytearray(b'x' * (1 << 20)) for _ in range(300)]\n"
    "time.sleep(1000)\n"
)
"""The first process stays small; its child allocates memory."""
SEEN = (
    'printf "%s|%s|%s" "${CUDA_VISIBLE_DEVICES-all}" "${ROCR_VISIBLE_DEVICES-all}" "$WATTFOLD_GPUS"'
)


@pytest.fixture(params=["cgroup", "watch"])
def limiting_agent(request, tmp_path):
    need_two_cpus()
    if request.param == "cgroup" and not (
        os.geteuid() == 0 and Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
    ):
        pytest.skip("needs root and the memory controller of version 1")
    flags = ("--masks", "affinity", "--throttle", "signals", "--memory-limits", request.param)
    with agent("--config", emulation_file(tmp_path), *flags, *EMULATE) as running:
        yield running


def inventory(running) -> pb.Inventory:
    return running.stub.GetInventory(pb.GetInventoryRequest(), timeout=240)


def test_a_job_over_its_memory_is_ended_wholly_and_says_why(limiting_agent):
    eater = [sys.executable, "-c", EATER]
    limiting_agent.launch("big", eater, ONE, memory_bytes=100 * MIB)
    end = limiting_agent.ended("big")
    assert end.message == "over its memory limit of 100 MiB"
    assert end.exit_code != 0


def test_a_job_within_its_memory_is_left_alone(limiting_agent):
    small = "x = bytearray(b'x' * (20 << 20)); print(len(x))"
    limiting_agent.launch("s", [sys.executable, "-c", small], ONE, memory_bytes=200 * MIB)
    end = limiting_agent.ended("s")
    assert (end.exit_code, end.message) == (0, "")


def test_the_reason_survives_the_agent(limiting_agent):
    limiting_agent.launch("big", [sys.executable, "-c", EATER], ONE, memory_bytes=100 * MIB)
    limiting_agent.ended("big")
    limiting_agent.kill()
    limiting_agent.start()
    assert limiting_agent.processes()["big"].message == "over its memory limit of 100 MiB"


def test_the_inventory_tells_how_memory_is_held(limiting_agent):
    told = inventory(limiting_agent)
    watched = "watch" in limiting_agent.flags
    cgroup, watch = pb.MEMORY_MECHANISM_CGROUP_V1, pb.MEMORY_MECHANISM_WATCHED
    assert told.memory_mechanism == (watch if watched else cgroup)


@pytest.fixture
def gpu_agent(tmp_path):
    need_two_cpus()
    config = Path(emulation_file(tmp_path))
    top = 'gpus = ["0", "1"]\nfeatures = ["bigmem", "gpu-a100"]\nmemory_mib = 512\n'
    config.write_text(top + config.read_text())
    flags = ("--masks", "affinity", "--throttle", "signals")
    with agent("--config", str(config), *flags, *EMULATE) as running:
        yield running


def shown(running, job: str) -> str:
    assert running.ended(job).exit_code == 0
    return (running.work() / f"wattfold-{job}.out").read_text()


def test_the_inventory_has_what_the_configuration_says(gpu_agent):
    told = inventory(gpu_agent)
    assert list(told.gpus) == ["0", "1"]
    assert list(told.features) == ["bigmem", "gpu-a100"]
    assert told.memory_bytes == 512 * MIB


def test_a_job_sees_its_gpus_and_no_others(gpu_agent):
    env = {"CUDA_VISIBLE_DEVICES": "0,1,2"}
    gpu_agent.launch("both", ["sh", "-c", SEEN], ONE, gpus=["1", "0"], env=env)
    assert shown(gpu_agent, "both") == "1,0|all|1,0"
    gpu_agent.launch("none", ["sh", "-c", SEEN], ONE, env=env)
    assert shown(gpu_agent, "none") == "|all|"


def test_where_there_are_no_gpus_nothing_is_said_of_them(plain_agent):
    plain_agent.launch("n", ["sh", "-c", SEEN], ONE, env={"CUDA_VISIBLE_DEVICES": "7"})
    assert shown(plain_agent, "n") == "7|all|"


def test_a_gpu_has_one_owner_until_that_has_ended(gpu_agent):
    gpu_agent.launch("a", ["sleep", "1000"], ONE, gpus=["1"])
    taken = refused(
        lambda: gpu_agent.launch("b", ["true"], OTHER, gpus=["1"]),
        grpc.StatusCode.FAILED_PRECONDITION,
    )
    assert taken == "job b: GPU 1 is held by job a"
    strange = refused(
        lambda: gpu_agent.launch("b", ["true"], OTHER, gpus=["2"]),
        grpc.StatusCode.INVALID_ARGUMENT,
    )
    assert strange == "job b: this node has no GPU '2'; it has: 0, 1"
    gpu_agent.kill()
    gpu_agent.start()
    refused(
        lambda: gpu_agent.launch("b", ["true"], OTHER, gpus=["1"]),
        grpc.StatusCode.FAILED_PRECONDITION,
    )
    gpu_agent.signal("a", 9)
    gpu_agent.ended("a")
    gpu_agent.launch("b", ["true"], OTHER, gpus=["1"])
    assert gpu_agent.ended("b").exit_code == 0
