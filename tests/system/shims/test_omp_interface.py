"""Queries and reports of a program through wattfold.h."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system


@pytest.fixture
def team(launch: Launcher, agent: AgentEnd, puppet: Path) -> Puppet:
    program = launch.start(puppet)
    agent.expect(ShimMessageType.HELLO)
    return program


def test_the_mask_in_force(team: Puppet, agent: AgentEnd) -> None:
    assert team.ask("mask") == "0 0 0"
    agent.resize(3)
    assert team.ask("mask") == "1 1 3"
    assert team.ask("mask") == "1 1 3"


def test_a_callback_hears_every_change_until_it_is_taken_back(
    team: Puppet, agent: AgentEnd
) -> None:
    assert team.ask("listen") == "1"
    for number, cores in enumerate((3, 1, 2), 1):
        agent.resize(cores)
        # Called before the acknowledgement.
        assert team.ask("called") == f"{number} {cores}"
    assert team.ask("ignore") == "ignored"
    agent.resize(4)
    assert team.ask("called") == "3 2"


def test_a_wish_and_a_phase_are_told_at_once_and_again_to_a_new_agent(
    team: Puppet, agent: AgentEnd
) -> None:
    assert team.ask("phase 2nd assembly; step") == "named"
    assert team.ask("request 6") == "1"

    def told() -> str:
        return agent.expect(ShimMessageType.STATUS).text

    while (text := told()) != "request=6 phase=2nd_assembly__step":
        assert text in ("phase=2nd_assembly__step", "request=6")
    agent.restart()
    agent.expect(ShimMessageType.HELLO)
    assert told() == "request=6 phase=2nd_assembly__step"
    assert team.ask("request 0") == "1"
    while told() != "phase=2nd_assembly__step":
        pass


def test_without_the_shim_every_call_answers(launch: Launcher, puppet: Path) -> None:
    program = launch.start(puppet, LD_PRELOAD=None)
    assert program.ask("mask") == "0 0 0"
    assert program.ask("listen") == "0"
    assert program.ask("ignore") == "ignored"
    assert program.ask("request 3") == "0"
    assert program.ask("grow 8") == "0"
    assert program.ask("phase x") == "named"


FIRST_VERSION = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
struct mask { uint64_t seq; uint32_t cores, reserved; uint64_t bits[128]; };
int main(void)
{
    int (*poll)(struct mask *) = (int (*)(struct mask *))dlsym(RTLD_DEFAULT, "wattfold_poll");
    unsigned (*cores)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "wattfold_cores");
    struct mask mask = {0};
    while (!poll(&mask))
        usleep(1000);
    printf("%u %u %d\\n", mask.cores, cores(), poll(&mask));
    return 0;
}
"""


def test_a_program_of_the_first_version_goes_on_working(
    launch: Launcher, agent: AgentEnd, tmp_path: Path
) -> None:
    source, program = tmp_path / "first.c", tmp_path / "first"
    source.write_text(FIRST_VERSION)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-o", program, source, "-ldl"], check=True)
    running = launch.start(program)
    agent.expect(ShimMessageType.HELLO)
    agent.send_mask(2)
    assert running.answer() == "2 2 0"
    assert running.finish() == (0, "")
