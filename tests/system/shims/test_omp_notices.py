"""Regions obey what the agent writes to their notice, before the mask itself arrives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from system.shims.agent_end import AgentEnd
from system.shims.puppet import Launcher, Puppet

from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType

pytestmark = pytest.mark.system
ABSENT = 77
"""Number of a notice that this test creates itself, or leaves absent."""


@pytest.fixture(params=["gcc_puppet", "clang_puppet"])
def puppet(request: pytest.FixtureRequest) -> Path:
    """The program, on each runtime."""
    path = request.getfixturevalue(request.param)
    assert isinstance(path, Path)
    return path


@pytest.fixture
def team(launch: Launcher, agent: AgentEnd, puppet: Path) -> Puppet:
    """The puppet, launched for 4 threads, after a first mask that names its notice."""
    program = launch.start(puppet)
    hello = agent.expect(ShimMessageType.HELLO)
    assert hello.flags is ShimFlags.READS_NOTICES
    agent.take_notes()
    agent.resize(3)
    assert program.team() == 3
    return program


def write(agent: AgentEnd, cores: int) -> int:
    assert agent.notice is not None
    agent.seq += 1
    agent.notice.write(cores, agent.seq)
    return agent.seq


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_a_region_obeys_and_the_shim_answers_before_any_message(
    team: Puppet, agent: AgentEnd, cores: int
) -> None:
    seq = write(agent, cores)
    assert team.team() == cores
    ack = agent.expect(ShimMessageType.ACK)
    assert (ack.seq, ack.cores) == (seq, cores)


def test_the_mask_itself_comes_by_message_and_is_not_answered_twice(
    team: Puppet, agent: AgentEnd
) -> None:
    seq = write(agent, 2)
    assert team.team() == 2
    agent.expect(ShimMessageType.ACK)
    assert team.ask("mask") == "1 1 3"
    agent.send_mask(2, seq=seq)
    agent.wait_until(lambda: team.ask("mask") == "1 2 2")
    assert agent.resize(1).cores == 1  # answered after the earlier messages
    assert [m.seq for m in agent.heard if m.type is ShimMessageType.ACK] == [1, 2, 3]
    # The answer may have been to the notice.
    agent.wait_until(lambda: team.ask("mask") == "1 3 1")


def test_a_program_in_a_serial_phase_answers_the_message(team: Puppet, agent: AgentEnd) -> None:
    seq = write(agent, 2)
    agent.send_mask(2, seq=seq)
    assert agent.expect(ShimMessageType.ACK).seq == seq
    assert team.team() == 2


def test_of_several_notices_the_last_counts(team: Puppet, agent: AgentEnd) -> None:
    for cores in (4, 1, 2):
        seq = write(agent, cores)
    assert team.team() == 2
    assert agent.expect(ShimMessageType.ACK).seq == seq
    # Masks in flight that are older than the notice change nothing.
    agent.send_raw(
        ShimMessage(
            type=ShimMessageType.MASK,
            flags=ShimFlags.TEAM_FOLLOWS,
            seq=seq - 1,
            cores=1,
            text="0",
            notice=0 if agent.notice is None else agent.notice.number,
        ).pack()
    )
    agent.wait_until(lambda: team.ask("mask") == f"1 {seq - 1} 1")
    assert team.team() == 2


def test_a_notice_of_an_agent_that_is_gone_counts_until_the_next_mask(
    team: Puppet, agent: AgentEnd
) -> None:
    old, agent.notice = agent.notice, None
    assert old is not None
    try:
        agent.restart()
        agent.expect(ShimMessageType.HELLO)
        old.write(2, agent.seq + 1)
        assert team.team() == 2
        agent.seq += 1
        assert agent.resize(4).cores == 4
        old.write(1, agent.seq + 1)
        assert team.team() == 4
    finally:
        old.close()


def test_a_new_agent_repeats_the_mask_with_its_own_notice(team: Puppet, agent: AgentEnd) -> None:
    agent.restart()
    agent.expect(ShimMessageType.HELLO)
    agent.take_notes()
    agent.send_mask(3, seq=agent.seq)
    # The new notice is read once the repeated mask has arrived.
    agent.wait_until(lambda: mapped(team, agent))
    seq = write(agent, 1)
    assert team.team() == 1
    assert agent.expect(ShimMessageType.ACK).seq == seq


def mapped(team: Puppet, agent: AgentEnd) -> bool:
    assert agent.notice is not None
    maps = Path(f"/proc/{team.process.pid}/maps").read_text()
    return f"notice.{agent.notice.number}\n" in maps


def short(path: Path) -> None:
    path.write_bytes(b"\2" * 100)


def link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(b"\2" * 65_536)
    path.symlink_to(target)


@pytest.mark.parametrize("make", [lambda _: None, short, link, Path.mkdir, os.mkfifo])
def test_without_a_good_file_the_message_alone_counts(
    team: Puppet, agent: AgentEnd, make: Callable[[Path], object]
) -> None:
    path = agent.path.with_name(f"notice.{ABSENT}")
    make(path)
    seq = agent.seq + 1
    agent.send_raw(
        ShimMessage(
            type=ShimMessageType.MASK,
            flags=ShimFlags.TEAM_FOLLOWS,
            seq=seq,
            cores=4,
            text="0-3",
            notice=ABSENT,
        ).pack()
    )
    while agent.expect(ShimMessageType.ACK).seq != seq:
        pass
    assert team.team() == 4
    write(agent, 1)  # no longer read
    assert team.team() == 4
    assert team.finish() == (0, "")


def test_a_forked_child_reads_no_notice(launch: Launcher, agent: AgentEnd, puppet: Path) -> None:
    # Before its first region, because GNU's runtime does not support a fork after it.
    team = launch.start(puppet)
    agent.expect(ShimMessageType.HELLO)
    agent.take_notes()
    agent.resize(3)
    write(agent, 1)
    team.send("fork")
    assert team.answer().startswith("child 4 ")
    assert team.answer() == "status 0"
    assert team.team() == 1


@pytest.mark.parametrize("mode", ["mask", "fixed"])
def test_other_modes_read_none(launch: Launcher, agent: AgentEnd, puppet: Path, mode: str) -> None:
    program = launch.start(puppet, mode=mode)
    assert agent.expect(ShimMessageType.HELLO).flags is ShimFlags.NONE
    agent.take_notes()
    agent.resize(3)
    write(agent, 1)
    assert program.team() == 4
    assert not mapped(program, agent)
