"""The example programs give the same result after any number of resizes."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system

RESIZES = 80
# About 0.4 s of one core each: much longer than the resizes take.
EXAMPLES = {
    "jacobi": ("512", "1000"),
    "md": ("300", "600"),
    "stream": ("8", "80"),
    "compute": ("400",),
    "progress": ("320",),
}


def result_line(output: str) -> str:
    """The last line; `stream` also prints its bandwidth before, which is not a result."""
    return output.splitlines()[-1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_result_is_the_same_under_random_resizes(
    built_shims: Path, launch: Launcher, agent: AgentEnd, name: str
) -> None:
    command = [built_shims / "examples" / name, *EXAMPLES[name]]
    program = launch.start(*command)
    agent.expect(ShimMessageType.HELLO)
    chance = random.Random(20)
    for _ in range(RESIZES):
        cores = chance.randint(1, 4)
        assert agent.resize(cores).cores == cores
    assert program.process.poll() is None, "the run is too short for this test"
    agent.resize(2)
    output, _ = program.process.communicate(timeout=100)
    alone = subprocess.run(
        [str(part) for part in command],
        env=os.environ | {"OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result_line(output) == result_line(alone.stdout)
    assert agent.expect(ShimMessageType.BYE).regions > RESIZES


def test_the_program_of_three_phases_asks_for_cores_in_each(
    built_shims: Path, launch: Launcher, agent: AgentEnd
) -> None:
    program = launch.start(built_shims / "examples/evolving", "2", "400")
    agent.expect(ShimMessageType.BYE)
    told = [message.text for message in agent.heard if message.type is ShimMessageType.STATUS]
    wishes = ["request=1 phase=setup", "request=2 phase=solve", "request=1 phase=write"]
    assert [text for text in dict.fromkeys(told) if text in wishes] == wishes, told
    output, _ = program.process.communicate(timeout=100)
    assert output.startswith("evolving iterations=400 sum=")


@pytest.mark.parametrize(
    "arguments",
    [
        ("jacobi",),
        ("jacobi", "2"),
        ("jacobi", "ten"),
        ("jacobi", "10", "0"),
        ("jacobi", "10", "1", "1"),
        ("md", "10"),
        ("md", "10", "-1"),
        ("stream", "8"),
        ("stream", "", "1"),
        ("compute",),
        ("compute", "1e3"),
        ("progress", "99999999999999999999"),
    ],
)
def test_usage_errors_exit_with_2(built_shims: Path, arguments: tuple[str, ...]) -> None:
    name, *rest = arguments
    done = subprocess.run(
        [built_shims / "examples" / name, *rest], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert done.stdout == ""
