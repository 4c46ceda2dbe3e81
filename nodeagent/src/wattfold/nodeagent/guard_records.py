"""Records of a guard in the state folder, and floors that it sets under the lock of this folder.

It uses only the standard library. See `guard`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import time
from typing import Any

from wattfold.nodeagent.guard_writes import attempt_writes

LOCK_FILE = "lock"
GUARD_RECORD = "guard.json"
WRITES_RECORD = "guard-writes.json"
LAPSE_RECORD = "guard-lapse.json"
RETRY_MS = 500
HUNG = "the agent did not end its lease"
_ATTEMPTS = 10


def on_record(state_dir: str, instance: str) -> bool:
    """Whether the guard of this instance is in charge of the node."""
    return read(state_dir, GUARD_RECORD).get("instance") == instance


def done(state_dir: str, instance: str) -> bool:
    """Whether the node was brought to its floor after the agent of this instance had ended."""
    found = read(state_dir, LAPSE_RECORD)
    # An agent that only hung may have raised the caps again.
    over = found.get("instance") == instance and found.get("cause") != HUNG
    return over and not found.get("failed")


def read(state_dir: str, name: str) -> dict[str, Any]:
    """Return a record; empty if the file is absent or invalid."""
    try:
        with open(os.path.join(state_dir, name), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def lapse(
    state_dir: str,
    instance: str,
    writes: list[list[str]],
    due_ns: int,
    cause: str = "the agent was killed",
) -> bool:
    """Perform the writes. Failed writes are repeated for some time, each time under the lock.

    Returns False if another agent is in charge.
    """
    record: dict[str, Any] = {"cause": cause}
    left = writes
    for attempt in range(_ATTEMPTS):
        if attempt:
            select.poll().poll(RETRY_MS)
        lock = _claim(state_dir, instance)
        if lock is None:
            return False
        try:
            failed = attempt_writes(left)
            left = [write for write, _ in failed]
            record.setdefault("late_ns", since(due_ns))
            note(state_dir, instance, record, failed)
        finally:
            os.close(lock)
        if not left:
            break
    return True


def _claim(state_dir: str, instance: str) -> int | None:
    """Return the held lock; None if another agent is, or has been, in charge of the node."""
    try:
        lock = os.open(os.path.join(state_dir, LOCK_FILE), os.O_RDWR)
    except OSError:
        # Without its folder no agent can run, so the floor is right.
        return os.open("/dev/null", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(os.path.join(state_dir, GUARD_RECORD), "rb") as file:
            if json.load(file)["instance"] == instance:
                return lock
    except (OSError, ValueError, KeyError, TypeError):
        pass
    os.close(lock)
    return None


def note(
    state_dir: str, instance: str, record: dict[str, Any], failed: list[tuple[list[str], str]]
) -> None:
    """Record the writes for the next agent. Failed ones are pairs of the write and the reason."""
    record.setdefault("at_unix_ns", time.time_ns())
    record |= {"instance": instance, "failed": [f"{path}: {why}" for (path, _), why in failed]}
    path = os.path.join(state_dir, LAPSE_RECORD)
    # A failure cannot be reported, and the writes matter more.
    with contextlib.suppress(OSError):
        with open(path + ".tmp", "w", encoding="ascii") as file:
            json.dump(record, file)
        os.rename(path + ".tmp", path)


def since(time_ns: int) -> int:
    """Return the nanoseconds since a time of the monotonic clock."""
    return time.monotonic_ns() - time_ns
