"""Ends the lease of an agent that cannot: brings the node to its floor after the agent was killed.

A process of its own, run as a script with nothing but the standard library, that an agent starts
before it takes a lease. It holds the read end of a pipe and sleeps; the end of input without a
goodbye means that the agent was killed. It then waits for the end of the lease, takes the lock on
the state folder, performs the writes it was told last, notes what it did for the next agent, and
exits. It writes nothing when another agent holds the lock or has been in charge since.

An agent that lives but does not end its lease (stopped, hung) is helped half a second later. The
open pipe then says that it holds the lock, so that no other agent is in charge.

Where it is killed as well, the keepers of the jobs stand in (`in_charge`, `stand_in`): a node has
caps above its floors only while jobs run there, and each of them has a keeper. They go by what the
agent has left on disk, and at once: a floor before the end of the lease is in nobody's way.

Called as ``guard.py STATE_DIR INSTANCE``. Says ``ready`` when it listens. In, one JSON object a
line, a key replaces what was said before: ``deadline_ns`` (monotonic clock), ``writes`` (pairs of
path and text), ``bye``. Does not decide anything: what is written is the agent's reckoning.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any

NAME = "wattfold-guard"
LOCK_FILE = "lock"
GUARD_RECORD = "guard.json"
WRITES_RECORD = "guard-writes.json"
LAPSE_RECORD = "guard-lapse.json"
_ATTEMPTS = 10
_RETRY_MS = 500
_PATIENCE_NS = 500_000_000
_STUCK_S = 10
"""A device that does not take a write must not keep the lock from a new agent."""
_HSMP = "/dev/hsmp"
_HSMP_MESSAGE = struct.Struct("=IHH8IHxx")
_HSMP_COMMAND = 3 << 30 | _HSMP_MESSAGE.size << 16 | 0xF8 << 8
"""As in adapters/hsmp.py, which this script cannot import."""
_GPUS = "/dev/nvidiactl/"
"""As in adapters/nvml.py."""
GPU_LIBRARY = "libnvidia-ml.so.1"
_GPU_S = 6
_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def main() -> None:
    """Guards one agent until it says goodbye or is dead and its lease has ended."""
    state_dir, instance = sys.argv[1:3]
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(NAME)
    os.write(1, b"ready\n")
    _leave_output()
    told = _follow(0, state_dir, instance)
    if told.get("bye"):
        return
    due_ns = max(told.get("deadline_ns", 0), time.monotonic_ns())
    while _since(due_ns) < 0:
        select.poll().poll(_milliseconds_to(due_ns))
    _lapse(state_dir, instance, told.get("writes", []), due_ns)


def _leave_output() -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)


def _follow(fd: int, state_dir: str, instance: str) -> dict[str, Any]:
    """What was said last, at the end of input. A line that was cut off does not count."""
    told: dict[str, Any] = {}
    rest = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while True:
        due_ns = told.get("deadline_ns", 0)
        if not poll.poll(_milliseconds_to(due_ns + _PATIENCE_NS) if due_ns else None):
            record = {"cause": "the agent did not end its lease", "late_ns": _since(due_ns)}
            _note(state_dir, instance, record, _attempt(told.get("writes", [])))
            told["deadline_ns"] = 0
            continue
        chunk = os.read(fd, 65536)
        if not chunk:
            return told
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            told.update(json.loads(line))


def _since(time_ns: int) -> int:
    return time.monotonic_ns() - time_ns


def _milliseconds_to(time_ns: int) -> int:
    return max(-_since(time_ns) // 1_000_000 + 1, 0)


def in_charge(state_dir: str) -> int | None:
    """A descriptor that becomes readable when the guard on record ends; None if there is none."""
    record = _read(state_dir, GUARD_RECORD)
    try:
        fd = os.pidfd_open(record["pid"])
        # Opened first: the number cannot become another process's meanwhile.
        with open(f"/proc/{record['pid']}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, KeyError, TypeError):
        return None
    if ticks == record.get("start_ticks"):
        return fd
    os.close(fd)
    return None


def stand_in(state_dir: str) -> None:
    """Does what the guard on record was to do, where that was killed before it did."""
    instance = _read(state_dir, GUARD_RECORD).get("instance", "")
    done = _read(state_dir, LAPSE_RECORD)
    if instance and (done.get("instance") != instance or done.get("failed")):
        writes = _read(state_dir, WRITES_RECORD).get("writes", [])
        cause = "the agent and its guard were killed"
        _lapse(state_dir, instance, writes, time.monotonic_ns(), cause)


def _read(state_dir: str, name: str) -> dict[str, Any]:
    """A record, empty where there is none or it is none."""
    try:
        with open(os.path.join(state_dir, name), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lapse(
    state_dir: str,
    instance: str,
    writes: list[list[str]],
    due_ns: int,
    cause: str = "the agent was killed",
) -> None:
    """Performs the writes; those that fail again for a while, each time under the lock."""
    record: dict[str, Any] = {"cause": cause}
    left = writes
    for attempt in range(_ATTEMPTS):
        if attempt:
            select.poll().poll(_RETRY_MS)
        lock = _claim(state_dir, instance)
        if lock is None:
            return
        try:
            failed = _attempt(left)
            left = [write for write, _ in failed]
            record.setdefault("late_ns", _since(due_ns))
            _note(state_dir, instance, record, failed)
        finally:
            os.close(lock)
        if not left:
            return


def _attempt(writes: list[list[str]]) -> list[tuple[list[str], str]]:
    """Performs writes, each on its own; those that failed, and why."""
    signal.alarm(_STUCK_S)
    gpus = [write for write in writes if write[0].startswith(_GPUS)]
    others = [write for write in writes if write not in gpus]
    failed = [(write, why) for write in others if (why := _write(*write))]
    if gpus:
        failed += _attempt_gpus(gpus)
    signal.alarm(0)
    return failed


def _attempt_gpus(
    writes: list[list[str]], library: str = GPU_LIBRARY
) -> list[tuple[list[str], str]]:
    """The same for GPUs: in a child, as a driver that hangs or crashes takes its caller along."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        # With what it inherited, a child that hangs would hold the lock.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        with contextlib.suppress(Exception):
            os.write(1, json.dumps(_set_gpus(writes, library)).encode())
        os._exit(0)
    os.close(writer)
    try:
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        said = os.read(reader, 1 << 20) if poll.poll(_GPU_S * 1000) else b""
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0 if said else os.WNOHANG)
    whys = json.loads(said) if said else ["the driver did not answer"] * len(writes)
    return [(write, why) for write, why in zip(writes, whys, strict=True) if why]


def _set_gpus(writes: list[list[str]], library: str) -> list[str]:
    """Sets limits and persistence modes; for each write why it failed, or nothing."""
    import ctypes

    try:
        nvml = ctypes.CDLL(library)
    except OSError as error:
        return [str(error)] * len(writes)
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    begun = nvml.nvmlInit_v2()
    whys = []
    for path, text in writes:
        uuid, file = path.removeprefix(_GPUS).removeprefix("nvml:").split("/")
        gpu = ctypes.c_void_p()
        code = begun or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(gpu))
        if not code and file == "enabled":
            code = nvml.nvmlDeviceSetPersistenceMode(gpu, int(text))
        elif not code:
            code = nvml.nvmlDeviceSetPowerManagementLimit(gpu, int(text) // 1000)
        whys.append(nvml.nvmlErrorString(code).decode() if code else "")
    return whys


def _claim(state_dir: str, instance: str) -> int | None:
    """The lock, held; None if another agent is, or has been, in charge of the node."""
    try:
        lock = os.open(os.path.join(state_dir, LOCK_FILE), os.O_RDWR)
    except OSError:
        # Without its folder no agent can run: the floor is right.
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


def _write(path: str, text: str) -> str:
    """Writes one value unless the file holds it already; why it failed, or nothing."""
    try:
        if path.startswith(_HSMP + "/"):
            _limit_socket(path, int(text) // 1000)
            return ""
        if _holds(path, text):
            return ""
        # Never created: a zone or group that is gone has nothing to limit.
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _limit_socket(path: str, limit_mw: int) -> None:
    """Sends a limit to a socket of an AMD processor, for which there is no file."""
    socket = int(path.split("/")[3].rpartition(":")[2])
    fd = os.open(_HSMP, os.O_RDWR)
    try:
        fcntl.ioctl(fd, _HSMP_COMMAND, _HSMP_MESSAGE.pack(5, 1, 0, limit_mw, *[0] * 7, socket))
    finally:
        os.close(fd)


def _holds(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(fd, 256).strip() == text.encode()
    except OSError:
        return False
    finally:
        os.close(fd)


def _note(
    state_dir: str, instance: str, record: dict[str, Any], failed: list[tuple[list[str], str]]
) -> None:
    record.setdefault("at_unix_ns", time.time_ns())
    record |= {"instance": instance, "failed": [f"{path}: {why}" for (path, _), why in failed]}
    path = os.path.join(state_dir, LAPSE_RECORD)
    # Nobody is there to be told that it failed; the writes matter more.
    with contextlib.suppress(OSError):
        with open(path + ".tmp", "w", encoding="ascii") as file:
            json.dump(record, file)
        os.rename(path + ".tmp", path)


if __name__ == "__main__":
    main()
