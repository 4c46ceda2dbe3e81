"""Digest of a snapshot folder (names, sizes and times), which shows whether a job writes to it.

No file is opened. The folder may be on a server that does not answer, so a thread examines it for a
limited time.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator

ENTRIES_MAX = 20_000
DEPTH_MAX = 16
LOOK_S_MAX = 1.0
NOTHING = "nothing"
"""Digest of a missing or empty folder."""
UNKNOWN = ""


async def look(path: str, *, elsewhere: bool = False) -> str:
    """Return a digest of a folder's contents; `UNKNOWN` if it is not available in time.

    ``elsewhere``: the folder was created on another node, so a missing folder is `UNKNOWN`.
    """
    if not path:
        return NOTHING
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            return await asyncio.to_thread(_digest_elsewhere if elsewhere else digest, path)
    except TimeoutError:
        return UNKNOWN


def _digest_elsewhere(path: str) -> str:
    found = digest(path)
    return UNKNOWN if found == NOTHING and not os.path.isdir(path) else found


async def size_bytes(path: str) -> int:
    """Return the total size of the files in a folder; 0 if unknown."""
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            return await asyncio.to_thread(_total_bytes, path)
    except (TimeoutError, OSError):
        return 0


def _total_bytes(path: str) -> int:
    entries = itertools.islice(_entries(path, "", DEPTH_MAX), ENTRIES_MAX)
    return sum(found.st_size for _, found in entries if stat.S_ISREG(found.st_mode))


def digest(path: str) -> str:
    """Return a digest of a folder's contents. Blocks the caller."""
    found = hashlib.sha256()
    count = 0
    try:
        for name, seen in _entries(path, "", DEPTH_MAX):
            count += 1
            if count > ENTRIES_MAX:
                return UNKNOWN
            # A rename changes st_ctime_ns; a replaced file has another st_ino.
            text = f"{name}\0{seen.st_ino} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns}\0"
            found.update(text.encode("utf-8", "surrogateescape"))
    except FileNotFoundError:
        # The folder is missing, or a file disappeared during the examination.
        return UNKNOWN if count or os.path.isdir(path) else NOTHING
    except OSError:
        return UNKNOWN
    return found.hexdigest() if count else NOTHING


def _entries(path: str, inside: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(path) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{inside}/{entry.name}"
        yield name, entry.stat(follow_symlinks=False)
        if depth and entry.is_dir(follow_symlinks=False):
            yield from _entries(entry.path, name, depth - 1)
