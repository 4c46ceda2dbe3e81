"""Looks whether a job writes to its snapshot folder: a digest of names, sizes and times in it.

No file is opened. The folder may be on a server that does not answer, so it is looked at in a
thread, for a limited time.
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
"""Of a folder that is not there, or has nothing in it."""
UNKNOWN = ""


async def look(path: str, *, elsewhere: bool = False) -> str:
    """What is in a folder, as a digest; `UNKNOWN` if that cannot be said.

    ``elsewhere``: it was made on another node, so that of one that is not here nothing is known.
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
    """How much there is in the files of a folder; 0 if that cannot be said."""
    try:
        async with asyncio.timeout(LOOK_S_MAX):
            return await asyncio.to_thread(_total_bytes, path)
    except (TimeoutError, OSError):
        return 0


def _total_bytes(path: str) -> int:
    entries = itertools.islice(_entries(path, "", DEPTH_MAX), ENTRIES_MAX)
    return sum(found.st_size for _, found in entries if stat.S_ISREG(found.st_mode))


def digest(path: str) -> str:
    """The same, waiting for it."""
    found = hashlib.sha256()
    count = 0
    try:
        for name, seen in _entries(path, "", DEPTH_MAX):
            count += 1
            if count > ENTRIES_MAX:
                return UNKNOWN
            # A rename changes st_ctime_ns, a new file in place of an old one its st_ino.
            text = f"{name}\0{seen.st_ino} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns}\0"
            found.update(text.encode("utf-8", "surrogateescape"))
    except FileNotFoundError:
        # The folder, or a file that went while it was looked at.
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
