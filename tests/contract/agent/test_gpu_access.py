"""The kernel denies jobs access to devices that are not their own, in both cgroup versions.

Harmless devices that every kernel has replace the GPUs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.jobs.device_filter import instructions
from wattfold.nodeagent.adapters.jobs.gpu_access import (
    AccessMechanism,
    HeldAccess,
    NamedGpus,
    access_roots,
    choose_access,
    held_access,
)
from wattfold.nodeagent.core.gpus import DeviceNode, NodeGpu

CGROUPS = Path("/sys/fs/cgroup")
A, B, JOB = "GPU-a", "GPU-b", JobId("j")
GPUS = (
    NodeGpu(id=A, devices=(DeviceNode(major=1, minor=5, path="/dev/zero"),)),
    NodeGpu(id=B, devices=(DeviceNode(major=1, minor=7, path="/dev/full"),)),
)
OPENS = """
import errno, os, sys
for path in sys.argv[1:]:
    with open(path, "w") as file:
        file.write("0")
for path in ("/dev/zero", "/dev/full", "/dev/null"):
    try:
        os.close(os.open(path, os.O_RDONLY))
        print("yes", end=" ")
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
"""


@pytest.fixture(params=list(AccessMechanism)[:2], ids=lambda mechanism: mechanism.name)
def access(request: pytest.FixtureRequest) -> Iterator[HeldAccess]:
    roots = [root for root, mechanism in access_roots(CGROUPS) if mechanism is request.param]
    if not roots:
        pytest.skip(f"no {request.param.value} here")
    try:
        made = held_access(roots[0], f"test-{uuid.uuid4().hex[:8]}", request.param, GPUS)
    except OSError as error:
        pytest.skip(f"{request.param.value} cannot be used here: {error}")
    yield made
    made.remove(JOB)
    made.close()


def opened(procs: tuple[Path, ...]) -> list[str]:
    """Return the devices among /dev/zero, /dev/full and /dev/null that a process in these groups
    may open.
    """
    command = [sys.executable, "-I", "-S", "-c", OPENS, *map(str, procs)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("own", "answers"),
    [
        ((A,), ["yes", "EPERM", "yes"]),
        ((B,), ["EPERM", "yes", "yes"]),
        ((A, B), ["yes", "yes", "yes"]),
        ((), ["EPERM", "EPERM", "yes"]),
    ],
)
def test_a_job_opens_its_own_and_no_others(
    access: HeldAccess, own: tuple[str, ...], answers: list[str]
) -> None:
    assert opened(access.prepare(JOB, own)) == answers


def test_a_group_left_over_by_an_earlier_attempt_holds_the_new_one(access: HeldAccess) -> None:
    assert opened(access.prepare(JOB, (A,)))[:2] == ["yes", "EPERM"]
    assert opened(access.prepare(JOB, (B,)))[:2] == ["EPERM", "yes"]
    assert opened(access.prepare(JOB, (A, B)))[:2] == ["yes", "yes"]


def test_this_process_is_not_held(access: HeldAccess) -> None:
    access.prepare(JOB, ())
    os.close(os.open("/dev/zero", os.O_RDONLY))


def test_without_groups_or_devices_jobs_are_told_only(tmp_path: Path) -> None:
    for gpus in (GPUS, (NodeGpu(id=A),)):
        told = choose_access(tmp_path, "n", "auto", gpus)
        assert isinstance(told, NamedGpus)
        assert told.prepare(JOB, (A,)) == ()
    with pytest.raises(OSError, match="no control group can deny devices"):
        choose_access(tmp_path, "n", "cgroup", GPUS)
    with pytest.raises(OSError, match="gpu_devices"):
        choose_access(tmp_path, "n", "cgroup", (NodeGpu(id=A),))
    assert isinstance(choose_access(CGROUPS, "n", "off", GPUS), NamedGpus)


def verdict(program: bytes, kind: int, major: int, minor: int) -> int:
    """Run a BPF program of these few instructions as the kernel would."""
    registers, at = {1: (2 << 16 | kind, major, minor)}, 0
    while True:
        opcode, both = program[8 * at], program[8 * at + 1]
        offset = int.from_bytes(program[8 * at + 2 : 8 * at + 4], "little", signed=True)
        number = int.from_bytes(program[8 * at + 4 : 8 * at + 8], "little", signed=True)
        to, source, at = both & 15, both >> 4, at + 1
        match opcode:
            case 0x61:
                registers[to] = registers[source][offset // 4]  # type: ignore[index]
            case 0x54:
                registers[to] &= number  # type: ignore[operator]
            case 0x55 | 0x15:
                at += offset if (registers[to] == number) is (opcode == 0x15) else 0
            case 0xB7:
                registers[to] = number  # type: ignore[assignment]
            case 0x95:
                return registers[0]  # type: ignore[return-value]
            case _:
                raise AssertionError(opcode)


@pytest.mark.parametrize("count", [0, 1, 2, 16])
def test_the_program_denies_what_is_listed_and_nothing_else(count: int) -> None:
    listed = [DeviceNode(major=195 + i % 2, minor=i) for i in range(count)]
    program = instructions(listed)
    for major in (194, 195, 196, 197):
        for minor in range(18):
            denied = DeviceNode(major=major, minor=minor) in listed
            assert verdict(program, 2, major, minor) == (0 if denied else 1)
            assert verdict(program, 1, major, minor) == 1
