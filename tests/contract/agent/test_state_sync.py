"""Records are synced beside the event loop, many at once."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from wattfold.nodeagent.adapters.state_sync import StateSync


class SlowDisk:
    """Syncs of files and folders, each of which waits until it is let go."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.fails = False

    def fsync(self, fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        self.begun.release()
        assert self.go.acquire(timeout=240)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    found = SlowDisk()
    monkeypatch.setattr(os, "fsync", found.fsync)
    yield found
    found.go.release(1000)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 240))


async def begun(disk: SlowDisk) -> None:
    assert await asyncio.to_thread(disk.begun.acquire, timeout=240)


async def idle(sync: StateSync) -> None:
    assert sync._task is not None
    await sync._task


def test_records_written_during_a_sync_share_the_next(tmp_path: Path, disk: SlowDisk) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()

    async def go() -> None:
        sync = StateSync(folder)
        for name in ("a", "b", "c"):
            (folder / name).touch()
        sync.soon("a")
        await begun(disk)
        # The loop goes on although the disk does not answer.
        sync.soon("b")
        sync.soon("c")
        sync.soon("b")
        assert disk.synced == []
        disk.go.release(1000)
        await idle(sync)
        assert disk.synced[:2] == ["a", "jobs"]
        assert sorted(disk.synced[2:4]) == ["b", "c"]
        assert disk.synced[4:] == ["jobs"]

    run(go)


def test_records_written_shortly_after_each_other_share_a_sync(
    tmp_path: Path, disk: SlowDisk
) -> None:
    async def go() -> None:
        sync = StateSync(tmp_path)
        disk.go.release(1000)
        for name in ("a", "b"):
            (tmp_path / name).touch()
            sync.soon(name)
            # The sync has been asked for, and goes on with the next turn of the loop at the latest.
            await asyncio.sleep(0)
        await idle(sync)
        assert sorted(disk.synced[:2]) == ["a", "b"]
        assert disk.synced[2:] == [tmp_path.name]

    run(go)


def test_a_record_that_is_gone_costs_nothing(tmp_path: Path, disk: SlowDisk) -> None:
    async def go() -> None:
        sync = StateSync(tmp_path)
        sync.soon("gone")
        await idle(sync)
        assert disk.synced == []

    run(go)


def test_a_sync_that_fails_is_told_and_the_next_is_tried(
    tmp_path: Path, disk: SlowDisk, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> None:
        sync = StateSync(tmp_path)
        (tmp_path / "a").touch()
        disk.fails = True
        disk.go.release(1000)
        sync.soon("a")
        await idle(sync)
        assert "event=state_not_synced" in caplog.text
        disk.fails = False
        sync.soon("a")
        await idle(sync)
        assert disk.synced == ["a", tmp_path.name]

    run(go)


def test_no_link_is_followed(tmp_path: Path, disk: SlowDisk) -> None:
    disk.go.release(1000)

    async def go() -> None:
        (tmp_path / "link").symlink_to("/etc/passwd")
        sync = StateSync(tmp_path)
        sync.soon("link")
        await idle(sync)
        assert disk.synced == []

    run(go)
