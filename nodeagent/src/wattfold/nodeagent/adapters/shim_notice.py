"""A page in which the agent writes the team size of a mask just before it sends the mask.

A shim maps it read-only, and its next parallel region obeys it, also while the thread that hears
messages waits for a core; the shim then acknowledges it. The mask itself still comes by message.
The C side is ``runtime_shims/csrc/notice.c``.
"""

from __future__ import annotations

import mmap
import os
import secrets
from pathlib import Path

from wattfold.nodeagent.adapters.access_list import READ, WRITE, grant

PREFIX = "notice."
_U32 = 0xFFFF_FFFF


class NoticeFile:
    """One peer's. Raises OSError (of which NoAccessListsError is one) where it cannot be had."""

    def __init__(self, folder: Path, uid: int) -> None:
        # Drawn: a number of an agent that is gone must not mean another peer's file.
        self.number = secrets.randbelow(_U32) + 1
        self._path = folder / f"{PREFIX}{self.number}"
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # A page that is not there when it is written to would be a signal.
            os.posix_fallocate(descriptor, 0, mmap.PAGESIZE)
            if uid != os.geteuid():
                # Never the account's own file: it could be cut short under the agent.
                grant(self._path, uid, own=READ | WRITE, rights=READ)
            self._page = mmap.mmap(descriptor, mmap.PAGESIZE)
        except BaseException:
            self._path.unlink()
            raise
        finally:
            os.close(descriptor)
        self._word = memoryview(self._page).cast("Q")

    def write(self, team: int, seq: int) -> None:
        """Tells regions that start from now on how large teams may be; 0 = nothing is told."""
        # One aligned store of eight bytes: no reader sees half of it.
        self._word[0] = (seq & _U32) << 32 | team

    def close(self) -> None:
        """Removes the file. A shim that still has it mapped reads what was written last."""
        self._word.release()
        self._page.close()
        self._path.unlink(missing_ok=True)
