"""Checkpoint folders of Charm++ programs that restart themselves at another size.

By default such a program uses ``/dev/shm``, with the same names for all programs: two of them on a
node would restart with each other's objects. Here each program gets its own folder there. A shell
that waits for the program removes the folder at its end. If the shell was killed too, the next
program of the account removes it: the name of a folder identifies its owner.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - no name in it is known before
_PREFIX = "wattfold-rebuild-"
# A signal to the job reaches the program too, whose end decides; its exit status is passed on.
_SCRIPT = """folder=$1; shift
trap : HUP INT TERM
"$@"
status=$?
rm -rf "$folder"
trap - HUP INT TERM
[ "$status" -le 128 ] || kill -$((status - 128)) $$
exit "$status"
"""


def own_folder(memory: Path = MEMORY) -> Path:
    """Create the folder for the program that this process becomes. Raises OSError."""
    folder = memory / f"{_PREFIX}{_name(os.getpid())}"
    folder.mkdir(mode=0o700)
    return folder


def remove_left(memory: Path = MEMORY) -> None:
    """Remove folders of this account whose program has ended."""
    for folder in memory.glob(f"{_PREFIX}*"):
        number = folder.name.removeprefix(_PREFIX)
        pid = number.partition("-")[0]
        if not pid.isdecimal() or _name(int(pid)) == number:
            continue
        # Another process may remove it at the same time; folders of other accounts stay.
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)


def arguments(folder: Path) -> list[str]:
    """Return the program's arguments for the folder."""
    return ["+shrinkexpand_basedir", str(folder)]


def removing(folder: Path, command: Sequence[str]) -> list[str]:
    """Return the command, followed by the removal of its folder."""
    return ["/bin/sh", "-c", _SCRIPT, "wattfold", str(folder), *command]


def _name(pid: int) -> str:
    """Return a process number with its start time, which stays unique; empty = no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name of its command, in brackets, may hold spaces.
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"
