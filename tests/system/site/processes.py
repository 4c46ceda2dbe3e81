"""Processes of a site or of a job, found by a text that they inherit."""

from __future__ import annotations

import os
import re
from pathlib import Path


def processes_of(folder: Path) -> list[int]:
    """Processes, except zombies, that name a folder in command line or environment.

    ``site1`` does not mean ``site10``, which another fixture of the same file may use.
    """
    wanted, found = re.compile(re.escape(os.fsencode(folder)) + rb"(?!\w)"), []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if wanted.search(text) and state not in "ZX":
            found.append(int(entry.name))
    return found
