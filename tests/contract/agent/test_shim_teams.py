"""The file of the shim server for programs of a job that have not received their mask."""

import errno
import mmap
import os
import stat
import struct

from contract.agent.shim_peer import FIRST, JOB, play

from wattfold.contract.ids import JobId
from wattfold.nodeagent.adapters.shims.shim_server import ShimServer


def file_of(tmp_path):
    return tmp_path / "shims" / JOB / "teams"


def words(path, count):
    """Return the number of tasks, followed by (team, seq) of each task."""
    tasks, *limits = struct.unpack(f"={count}Q", path.read_bytes()[: 8 * count])
    return tasks, *((word & 0xFFFFFFFF, word >> 32) for word in limits)


def server_on(tmp_path):
    server = ShimServer(tmp_path / "shims", lambda pid: JOB, lambda job, pid: FIRST)
    server.start()
    return server


def test_teams_of_a_job_and_its_tasks_are_there_and_change(tmp_path):
    async def scene(server, shim):
        server.publish(JOB, os.geteuid(), [5, 2, 3], 1)
        assert words(file_of(tmp_path), 4) == (2, (5, 1), (2, 1), (3, 1))
        assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
        held = file_of(tmp_path).open("rb")
        with held, mmap.mmap(held.fileno(), 0, prot=mmap.PROT_READ) as seen:
            server.publish(JOB, os.geteuid(), [4, 2, 2], 2**32 + 7)
            # A process that has mapped the file sees the change, because the file stays the same.
            assert struct.unpack_from("=4Q", seen)[3] == 7 << 32 | 2
        server.close_job(JOB)
        assert not file_of(tmp_path).parent.exists()

    play(tmp_path, scene)


def test_more_tasks_than_a_page_has_words_get_more_pages(tmp_path):
    async def scene(server, shim):
        server.publish(JOB, os.geteuid(), [1] * 4097, 1)
        assert file_of(tmp_path).stat().st_size == 9 * mmap.PAGESIZE

    play(tmp_path, scene)


def test_it_stays_while_there_is_no_agent_and_the_next_one_writes_another(tmp_path):
    async def scene(server, shim):
        server.publish(JOB, os.geteuid(), [2], 1)

    play(tmp_path, scene)
    assert [path.name for path in file_of(tmp_path).parent.iterdir()] == ["teams"]
    left = file_of(tmp_path).stat().st_ino

    async def later(server, shim):
        # Not before the server has a newer value.
        assert words(file_of(tmp_path), 2) == (0, (2, 1))
        server.publish(JOB, os.geteuid(), [3], 1001)
        assert words(file_of(tmp_path), 2) == (0, (3, 1001))
        assert file_of(tmp_path).stat().st_ino != left
        server.close_job(JOB)

    play(tmp_path, later)
    assert not list(tmp_path.iterdir())


def test_what_is_left_of_other_jobs_is_removed(tmp_path):
    async def scene(server, shim):
        server.publish(JOB, os.geteuid(), [2], 1)

    play(tmp_path, scene)
    server = server_on(tmp_path)
    server.keep_only([JOB])
    assert file_of(tmp_path).exists()
    server.keep_only([JobId("other")])
    assert not file_of(tmp_path).parent.exists()
    server.close()


def test_where_no_file_can_be_had_jobs_run_without(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")

    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)

    async def scene(server, shim):
        for seq in (1, 2):
            server.publish(JOB, os.geteuid(), [2], seq)
        assert [path.name for path in file_of(tmp_path).parent.iterdir()] == ["sock"]
        assert caplog.text.count("shim_teams_disabled") == 1

    play(tmp_path, scene)
