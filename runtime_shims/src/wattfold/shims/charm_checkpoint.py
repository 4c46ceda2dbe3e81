"""Where a Charm++ program that restarts itself at another size puts its objects meanwhile.

By itself it takes ``/dev/shm``, with names that are the same for all programs: two of them on a
node would restart with each other's objects. Here each gets a folder there, which is removed
when the program ends, by a shell that waits for it. Where that was killed as well, the next program
of the account does it: the name of a folder says whose it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - no name in it is known before
_PREFIX = "wattfold-rebuild-"
# A signal to the job reaches the program too, whose end decides; how it ended is passed on.
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
    """Makes the folder of what this process becomes. Raises OSError."""
    folder = memory / f"{_PREFIX}{_name(os.getpid())}"
    folder.mkdir(mode=0o700)
    return folder


def remove_left(memory: Path = MEMORY) -> None:
    """Removes folders of this account whose program is gone."""
    for folder in memory.glob(f"{_PREFIX}*"):
        number = folder.name.removeprefix(_PREFIX)
        pid = number.partition("-")[0]
        if not pid.isdecimal() or _name(int(pid)) == number:
            continue
        # Another one may remove it at the same time; those of other accounts are theirs.
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)


def arguments(folder: Path) -> list[str]:
    """What the program has to be told."""
    return ["+shrinkexpand_basedir", str(folder)]


def removing(folder: Path, command: Sequence[str]) -> list[str]:
    """The command, and what removes its folder when it has ended."""
    return ["/bin/sh", "-c", _SCRIPT, "wattfold", str(folder), *command]


def _name(pid: int) -> str:
    """A process and when it was started: its number may be another one's later; empty = none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name of its command, in brackets, may hold spaces.
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"
