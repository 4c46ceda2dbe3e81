"""Programs written for DLB/DROM, on the library with compatible names."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.programs_build import INCLUDE, compile_program
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimMessageType

pytestmark = pytest.mark.system

NOUPDT, NOTED, SUCCESS = 2, 1, 0
NOINIT, INIT, DISBLD, NOPROC, PERM = -2, -3, -4, -6, -8


@pytest.fixture
def program(built_shims: Path, tmp_path: Path) -> Path:
    library = (f"-L{built_shims}", f"-Wl,-rpath,{built_shims}", "-lwattfold_dlb")
    headers = INCLUDE.parent / "dlb" / "include"
    return compile_program("drom.c", built_shims, tmp_path, f"-I{headers}", libraries=library)


@pytest.fixture
def drom(launch: Launcher, agent: AgentEnd, program: Path) -> Puppet:
    running = launch.start(program)
    assert running.ask("poll") == f"0 0 {NOINIT}"
    assert running.ask("init") == str(SUCCESS)
    assert running.ask("init") == str(INIT)
    # The first poll announces a program without OpenMP.
    assert running.ask("poll") == f"0 0 {NOUPDT}"
    agent.expect(ShimMessageType.HELLO)
    return running


def test_a_change_is_polled_once(drom: Puppet, agent: AgentEnd) -> None:
    agent.resize(3)
    assert drom.ask("poll") == f"3 3 {SUCCESS}"
    assert drom.ask("poll") == f"0 0 {NOUPDT}"
    assert drom.ask("mask") == f"3 {SUCCESS}"
    assert drom.ask("disable") == str(SUCCESS)
    assert drom.ask("disable") == str(NOUPDT)
    agent.resize(1)
    assert drom.ask("poll") == f"0 0 {DISBLD}"
    assert drom.ask("enable") == str(SUCCESS)
    assert drom.ask("poll") == f"1 1 {SUCCESS}"
    assert drom.ask("finalize") == str(SUCCESS)
    assert drom.ask("finalize") == str(NOINIT)


def test_an_update_calls_back(drom: Puppet, agent: AgentEnd) -> None:
    assert drom.ask("callbacks") == str(SUCCESS)
    agent.resize(4)
    assert drom.ask("update").split()[0] == "4"
    agent.resize(1)
    assert drom.ask("update") == f"1 0 3 {SUCCESS}"
    agent.resize(3)
    assert drom.ask("update") == f"3 2 0 {SUCCESS}"
    assert drom.ask("update") == f"3 0 0 {NOUPDT}"


def test_masks_are_the_coordinators(drom: Puppet, agent: AgentEnd) -> None:
    assert drom.ask("pids") == f"1 1 {SUCCESS}"
    assert drom.ask("set other") == str(PERM)
    assert drom.ask("see other") == str(NOPROC)
    assert drom.ask("wish") == str(NOTED)
    assert agent.expect(ShimMessageType.STATUS).text == "request=1"


def test_without_a_manager_nothing_changes(launch: Launcher, program: Path) -> None:
    alone = launch.start(program, LD_PRELOAD=None)
    assert alone.ask("init") == str(SUCCESS)
    assert alone.ask("poll") == f"0 0 {NOUPDT}"
    assert alone.ask("pids") == f"0 0 {SUCCESS}"
    assert alone.ask("wish") == str(PERM)
