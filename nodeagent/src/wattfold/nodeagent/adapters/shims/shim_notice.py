"""Memory pages in which the agent announces team sizes, just before it sends a mask.

A shim maps them read-only, and its next parallel region obeys, even while the thread that receives
messages waits for a core. The shim then acknowledges. The mask itself still comes by message.
``teams`` exists once per job, before its first instruction, for programs that have not received a
mask yet. ``notice.NUMBER`` is for one process. The C side is ``runtime_shims/csrc/notice.c``.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from wattfold.nodeagent.adapters.jobs.access_list import READ, WRITE, grant

PREFIX = "notice."
TEAMS = "teams"
_TEAMS_NEW = "teams.new"
_U32 = 0xFFFF_FFFF
_WORD_BYTES = 8


class NoticeFile:
    """The page of one peer. Raises OSError (also NoAccessListsError) if it is not possible."""

    def __init__(self, folder: Path, uid: int) -> None:
        # Random, because a number from an earlier agent must not mean another peer's file.
        self.number = secrets.randbelow(_U32) + 1
        self._path = folder / f"{PREFIX}{self.number}"
        self._page = _new_page(self._path, uid, words=1)
        self._word = memoryview(self._page).cast("Q")

    def write(self, team: int, seq: int) -> None:
        """Announce the team size for parallel regions that start from now on; 0 = none."""
        self._word[0] = _limit(team, seq)

    def close(self) -> None:
        """Remove the file. A shim that still has it mapped reads the last value."""
        self._word.release()
        self._page.close()
        self._path.unlink(missing_ok=True)


class TeamsFile:
    """The page of one job. ``teams``: for processes without a task, and then for each task.

    Replaces the file of an earlier agent. Raises OSError like a notice.
    """

    def __init__(self, folder: Path, uid: int, teams: Sequence[int], seq: int) -> None:
        path = folder / _TEAMS_NEW
        path.unlink(missing_ok=True)
        self._page = _new_page(path, uid, words=1 + len(teams))
        self._words = memoryview(self._page).cast("Q")
        self._words[0] = len(teams) - 1
        self.write(teams, seq)
        # A program that starts now finds a complete file.
        path.rename(folder / TEAMS)

    def write(self, teams: Sequence[int], seq: int) -> None:
        """Announce team sizes to programs without a mask. The number of values must not change."""
        for place, team in enumerate(teams, start=1):
            self._words[place] = _limit(team, seq)

    def close(self) -> None:
        """Close the page but keep the file, whose values stay valid."""
        self._words.release()
        self._page.close()


def _limit(team: int, seq: int) -> int:
    # One aligned store of eight bytes, so that no reader sees half of it.
    return (seq & _U32) << 32 | team


def _new_page(path: Path, uid: int, words: int) -> mmap.mmap:
    """Return a file of zeros in whole pages that this account may read."""
    size = -(-words * _WORD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # Allocated now: a write to a missing page would raise a signal.
        os.posix_fallocate(descriptor, 0, size)
        if uid != os.geteuid():
            # Never owned by the account, which could truncate it while the agent uses it.
            grant(path, uid, own=READ | WRITE, rights=READ)
        return mmap.mmap(descriptor, size)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
