"""Messages between the agent and a keeper; `runtime_shims/keeper/fields.h` is the other side.

A message is ``LENGTH:`` and then fields of this many bytes. A field is ``LENGTH:``, its bytes and a
NUL. A list is a field with its length and a field for each item. Texts are bytes: arguments,
variables and paths need not be UTF-8.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wattfold.nodeagent import guard

VERSION = 1
"""Raised with each change of the messages."""
GO = b"g"
"""Lets a prepared job run."""
_STAND_IN = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from wattfold.nodeagent.guard import stand_in; stand_in(sys.argv[2])"
)
_SOURCES = str(Path(guard.__file__).resolve().parents[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperOrder:
    """The order to a keeper."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdout_path: str
    stderr_path: str
    script: str
    """Text of the script to run instead of the first word of ``argv``; empty = none."""
    snapshot_path: str
    """A folder to create for the job; empty = none."""
    keep_output: bool
    """Whether the output of earlier attempts is kept."""
    affinity: list[int]
    procs_paths: list[str]
    uid: int | None
    gid: int | None
    user: str
    exit_path: str
    agent_pid_path: str
    stopped_path: str
    """Where the agent records the processes it has stopped; empty = it stops none."""
    files_soft_max: int
    processes_max: int
    """Limit of the account, including threads; 0 = a control group limits the job."""
    groups: list[str]
    """Control groups with exactly the processes of this job, which can end them."""
    umask: int
    limits: list[tuple[str, int | None]]
    """Soft limits by name; None = none."""
    inherited: list[int]
    """Descriptors that go to the job, and are closed here once its keeper has them."""

    def message(self) -> bytes:
        """Return the order as a message.

        Raises ValueError for texts that no program can get, such as a text with a NUL inside.
        """
        state_dir = os.path.dirname(self.agent_pid_path)
        limits = [
            text
            for name, soft in self.limits
            for text in (str(getattr(resource, f"RLIMIT_{name.upper()}")), _number(soft))
        ]
        script = self.script.encode("utf-8", "surrogateescape")
        first = self.script.partition("\n")[0].removeprefix("#!")
        texts = [
            str(VERSION),
            *_counted(self.argv),
            *_counted([f"{_name(name)}={value}" for name, value in self.env.items()]),
            self.cwd,
            self.stdout_path,
            self.stderr_path,
            *_counted(first.split(maxsplit=1)),
            self.snapshot_path,
            str(int(self.keep_output)),
            str(self.affinity),
            *_counted(self.procs_paths),
            _number(self.uid),
            _number(self.gid),
            self.user,
            self.exit_path,
            self.agent_pid_path,
            self.stopped_path,
            str(self.files_soft_max),
            str(self.processes_max),
            *_counted(self.groups),
            str(self.umask),
            *_counted(limits),
            *_counted([str(fd) for fd in sorted(self.inherited)]),
            state_dir,
            *_counted([sys.executable, "-I", "-S", "-c", _STAND_IN, _SOURCES, state_dir]),
        ]
        fields = "\0".join(texts).encode("utf-8", "surrogateescape").split(b"\0")
        if len(fields) != len(texts):
            raise ValueError("embedded null byte")
        # The script comes last: it may contain anything.
        body = b"".join([b"%d:%b\0" % (len(field), field) for field in (*fields, script)])
        return b"%d:%b" % (len(body), body)


def fields_of(data: bytes) -> list[bytes] | None:
    """Return the fields of a message; None if it is not complete. Raises ValueError."""
    head, colon, body = data.partition(b":")
    if not colon or len(body) < int(head):
        return None
    found = []
    while body:
        head, _, rest = body.partition(b":")
        end = int(head)
        found.append(rest[:end])
        body = rest[end + 1 :]
    return found


def _counted(texts: Sequence[str]) -> tuple[str, ...]:
    return (str(len(texts)), *texts)


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _name(name: str) -> str:
    if not name or "=" in name:
        raise ValueError("illegal environment variable name")
    return name
