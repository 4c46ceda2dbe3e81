"""Pages in which the agent writes how large teams may be, just before it sends a mask.

A shim maps them read-only, and its next parallel region obeys, also while the thread that hears
messages waits for a core; the shim then acknowledges. The mask itself still comes by message.
``teams`` is one a job, there before its first instruction: for programs that have not been told
anything yet. ``notice.NUMBER`` is of one process. The C side is ``runtime_shims/csrc/notice.c``.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from wattfold.nodeagent.adapters.access_list import READ, WRITE, grant

PREFIX = "notice."
TEAMS = "teams"
_TEAMS_NEW = "teams.new"
_U32 = 0xFFFF_FFFF
_WORD_BYTES = 8


class NoticeFile:
    """One peer's. Raises OSError (of which NoAccessListsError is one) where it cannot be had."""

    def __init__(self, folder: Path, uid: int) -> None:
        # Drawn: a number of an agent that is gone must not mean another peer's file.
        self.number = secrets.randbelow(_U32) + 1
        self._path = folder / f"{PREFIX}{self.number}"
        self._page = _new_page(self._path, uid, words=1)
        self._word = memoryview(self._page).cast("Q")

    def write(self, team: int, seq: int) -> None:
        """Tells regions that start from now on how large teams may be; 0 = nothing is told."""
        self._word[0] = _limit(team, seq)

    def close(self) -> None:
        """Removes the file. A shim that still has it mapped reads what was written last."""
        self._word.release()
        self._page.close()
        self._path.unlink(missing_ok=True)


class TeamsFile:
    """One job's. ``teams``: for processes of no task, and then for each task.

    Takes the place of one that another agent has left. Raises OSError as a notice does.
    """

    def __init__(self, folder: Path, uid: int, teams: Sequence[int], seq: int) -> None:
        path = folder / _TEAMS_NEW
        path.unlink(missing_ok=True)
        self._page = _new_page(path, uid, words=1 + len(teams))
        self._words = memoryview(self._page).cast("Q")
        self._words[0] = len(teams) - 1
        self.write(teams, seq)
        # A program that starts now finds a whole one.
        path.rename(folder / TEAMS)

    def write(self, teams: Sequence[int], seq: int) -> None:
        """Tells all programs that have not been told their mask; as many as at first."""
        for place, team in enumerate(teams, start=1):
            self._words[place] = _limit(team, seq)

    def close(self) -> None:
        """Leaves the file: what is in it holds as long as nobody says otherwise."""
        self._words.release()
        self._page.close()


def _limit(team: int, seq: int) -> int:
    # One aligned store of eight bytes: no reader sees half of it.
    return (seq & _U32) << 32 | team


def _new_page(path: Path, uid: int, words: int) -> mmap.mmap:
    """A file of zeros that this account may read, in whole pages."""
    size = -(-words * _WORD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # A page that is not there when it is written to would be a signal.
        os.posix_fallocate(descriptor, 0, size)
        if uid != os.geteuid():
            # Never the account's own file: it could be cut short under the agent.
            grant(path, uid, own=READ | WRITE, rights=READ)
        return mmap.mmap(descriptor, size)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
