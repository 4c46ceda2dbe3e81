"""Notices of the shim server for its peers, and the time at which it sends the message."""

import asyncio
import os
import stat
import struct

import pytest
from contract.agent.shim_peer import JOB, NEXT, play, until

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.shim_protocol import ShimFlags, ShimMessageType
from wattfold.nodeagent.adapters.shims import shim_socket
from wattfold.nodeagent.adapters.shims.shim_server import MaskOrder

LAST = MaskOrder(seq=3, cpus=CpuSet.parse("5"), team_must_follow=True)
HOUR_S = 3600.0


def written(path):
    """Team size and seq in a notice."""
    word = struct.unpack("=Q", path.read_bytes()[:8])[0]
    return word & 0xFFFFFFFF, word >> 32


def file_of(tmp_path, mask):
    return tmp_path / "shims" / JOB / f"notice.{mask.notice}"


async def greet(server, shim, regions=5, flags=ShimFlags.READS_NOTICES):
    """Send HELLO and, if any, the number of started regions. Return the first mask."""
    await shim.say(ShimMessageType.HELLO, flags=flags)
    mask = await shim.hear()
    await shim.say(ShimMessageType.STATUS, regions=regions, done=1.0)
    await until(lambda: server.view(JOB).done == 1.0)
    return mask


def tell(server, order):
    return asyncio.create_task(server.tell(JOB, order.seq, lambda _: order, 10))


def test_the_first_mask_is_sent_and_names_the_file(tmp_path):
    async def scene(server, shim):
        file = file_of(tmp_path, await greet(server, shim))
        assert written(file) == (4, 1)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    play(tmp_path, scene)


def test_who_starts_regions_answers_before_it_is_sent_the_mask(tmp_path, monkeypatch):
    monkeypatch.setattr(shim_socket, "NOTICE_S", HOUR_S)

    async def scene(server, shim):
        file = file_of(tmp_path, await greet(server, shim))
        telling = tell(server, NEXT)
        await until(lambda: written(file) == (2, 2))
        assert not await shim.socket.poll(50)
        await shim.say(ShimMessageType.ACK, seq=1, cores=4)  # not of this mask
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling
        mask = await shim.hear()
        assert (mask.seq, mask.text, mask.notice) == (2, "0-1", int(file.suffix[1:]))
        assert not await shim.socket.poll(50)

    play(tmp_path, scene)


def test_who_does_not_answer_is_sent_the_mask_soon(tmp_path):
    async def scene(server, shim):
        await greet(server, shim)
        telling = tell(server, NEXT)
        assert (await shim.hear()).seq == 2
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "known", [{"regions": 0}, {"flags": ShimFlags.NONE}], ids=["serial", "reads none"]
)
def test_others_are_sent_it_at_once(tmp_path, monkeypatch, known):
    monkeypatch.setattr(shim_socket, "NOTICE_S", HOUR_S)

    async def scene(server, shim):
        file = file_of(tmp_path, await greet(server, shim, **known))
        telling = tell(server, NEXT)
        assert (await shim.hear()).seq == 2
        assert written(file) == (2, 2)
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling

    play(tmp_path, scene)


def test_of_masks_in_a_row_the_last_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(shim_socket, "NOTICE_S", 0.02)

    async def scene(server, shim):
        file = file_of(tmp_path, await greet(server, shim))
        telling = tell(server, NEXT), tell(server, LAST)
        assert (await shim.hear()).seq == 3
        assert written(file) == (1, 3)
        await shim.say(ShimMessageType.ACK, seq=3, cores=1)
        assert await asyncio.gather(*telling) == [True, True]

    play(tmp_path, scene)


def test_a_mask_that_teams_need_not_follow_takes_the_notice_back(tmp_path):
    async def scene(server, shim):
        file = file_of(tmp_path, await greet(server, shim))
        free = MaskOrder(seq=2, cpus=CpuSet.parse("0-1"), team_must_follow=False)
        telling = tell(server, free)
        mask = await shim.hear()
        assert (mask.seq, mask.notice) == (2, 0)
        assert written(file) == (0, 2)
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling

    play(tmp_path, scene)


def test_the_file_goes_with_its_process(tmp_path):
    async def scene(server, shim):
        first = await greet(server, shim)
        assert file_of(tmp_path, first).exists()
        await shim.say(ShimMessageType.BYE)
        await until(lambda: not server.attached(JOB))
        assert not file_of(tmp_path, first).exists()
        second = await greet(server, shim)
        assert second.notice not in (0, first.notice)

    play(tmp_path, scene)
    assert not list(tmp_path.iterdir())


def test_files_of_an_agent_that_was_killed_are_removed(tmp_path):
    left = tmp_path / "shims" / JOB / "notice.5"

    async def scene(server, shim):
        assert not left.exists()

    left.parent.mkdir(parents=True, mode=0o700)
    left.parent.parent.chmod(0o700)
    left.write_bytes(b"")
    play(tmp_path, scene)


def test_where_no_file_can_be_had_the_message_is_sent_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(shim_socket, "NOTICE_S", HOUR_S)

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)

    async def scene(server, shim):
        assert (await greet(server, shim)).notice == 0
        assert not list((tmp_path / "shims" / JOB).glob("notice.*"))
        telling = tell(server, NEXT)
        mask = await shim.hear()
        assert (mask.seq, mask.notice) == (2, 0)
        await shim.say(ShimMessageType.ACK, seq=2, cores=2)
        assert await telling

    play(tmp_path, scene)
