"""Ends the lease of an agent that cannot: brings the node to its floor after the agent was killed.

A process of its own, run as a script with nothing but the standard library, that an agent starts
before it takes a lease. It holds the read end of a pipe and sleeps; the end of input without a
goodbye means that the agent was killed. It then waits for the end of the lease, takes the lock on
the state folder, performs the writes it was told last, notes what it did for the next agent, and
exits. It writes nothing when another agent holds the lock or has been in charge since.

An agent that lives but does not end its lease (stopped, hung) is helped half a second later. The
open pipe then says that it holds the lock, so that no other agent is in charge.

A guard has a *second*, a fork of its own that is told when the lease ends and does the same for a
guard that is killed or hangs: while a cap may be above its floor, two processes beside the agent
know when it must fall, whatever runs on the node. It is replaced when it dies, and goes when
another guard is on record.

Where all three are killed, the keepers of the jobs stand in (`in_charge`, `stand_in`). They go by
what the agent has left on disk, and at once: a floor before the end of the lease is in nobody's
way.

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
from typing import Any, NoReturn

NAME = "wattfold-guard"
SECOND_NAME = "wattfold-second"
LOCK_FILE = "lock"
GUARD_RECORD = "guard.json"
WRITES_RECORD = "guard-writes.json"
LAPSE_RECORD = "guard-lapse.json"
_ATTEMPTS = 10
_RETRY_MS = 500
_PATIENCE_NS = 500_000_000
_SECOND_PATIENCE_NS = 1_000_000_000
"""The guard comes first, and the coordinator counts on 1.5 s."""
_LOOK_MS = 1000
_HUNG = "the agent did not end its lease"
_BOTH = "the agent and its guard were killed"
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
    _be_called(NAME)
    told: dict[str, Any] = {}
    second = _Second(state_dir, instance)
    second.keep(told)
    os.write(1, b"ready\n")
    _leave_output()
    _follow(state_dir, instance, told, _PATIENCE_NS, second)
    if told.get("bye"):
        second.tell({"bye": True})
        return
    due_ns = max(told.get("deadline_ns", 0), time.monotonic_ns())
    while _since(due_ns) < 0:
        select.poll().poll(_milliseconds_to(due_ns))
    _lapse(state_dir, instance, _writes(told, state_dir), due_ns)
    if _done(state_dir, instance):
        second.tell({"bye": True})


def _be_called(name: str) -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


class _Second:
    """Who takes the place of this guard should it be killed; there is one nearly always."""

    def __init__(self, state_dir: str, instance: str) -> None:
        self._state_dir, self._instance = state_dir, instance
        self._pid = 0
        self._begun_ns = 0
        self._pipe = -1
        self.fd: int | None = None
        """Becomes readable when it ends; None: there is none."""

    def keep(self, told: dict[str, Any]) -> None:
        """Replaces one that has ended, or could not be started, but not all the time."""
        if self.fd is not None and _ended(self.fd):
            os.waitpid(self._pid, 0)
            os.close(self.fd)
            os.close(self._pipe)
            self.fd = None
        if self.fd is None and _since(self._begun_ns) >= _RETRY_MS * 1_000_000:
            self._begun_ns = time.monotonic_ns()
            with contextlib.suppress(OSError):
                self._start(told)

    def _start(self, told: dict[str, Any]) -> None:
        reader, writer = os.pipe()
        begun, begins = os.pipe()
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _be_second(reader, self._state_dir, self._instance, told)
            self.fd, self._pipe = os.pidfd_open(self._pid), writer
        finally:
            os.close(reader)
            os.close(begins)
            if self.fd is None:
                os.close(writer)
            else:
                # Until it lets go of the guard's input, the agent could not tell the guard's end.
                _wait_for_end(begun)
            os.close(begun)
        os.set_blocking(writer, False)

    def tell(self, message: dict[str, Any]) -> None:
        """Tells it something short; one that does not read is ended."""
        if self.fd is None:
            return
        try:
            os.write(self._pipe, json.dumps(message).encode() + b"\n")
        except BlockingIOError:
            os.kill(self._pid, signal.SIGKILL)
        except BrokenPipeError:
            # It has ended; the next one is told at its start.
            return


def _wait_for_end(pipe: int) -> None:
    """Until nobody holds the other end of a pipe, or for a moment."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.poll(_LOOK_MS)


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _be_second(reader: int, state_dir: str, instance: str, told: dict[str, Any]) -> NoReturn:
    """The life of a second."""
    try:
        os.dup2(reader, 0)
        # With the end of a pipe that is not its own it would hide the end of another process.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        _leave_output()
        _be_called(SECOND_NAME)
        _follow(state_dir, instance, told, _SECOND_PATIENCE_NS, None)
        if not told.get("bye"):
            _take_over(state_dir, instance, told)
    finally:
        os._exit(0)


def _take_over(state_dir: str, instance: str, told: dict[str, Any]) -> None:
    """Does what a guard was to do that is gone, until another one is on record.

    The agent may live: then it has another guard within moments, or hangs.
    """
    due_ns = told.get("deadline_ns", 0)
    hung_ns = due_ns + _SECOND_PATIENCE_NS if due_ns else 0
    while _on_record(state_dir, instance) and not _done(state_dir, instance):
        writes = _writes(_read(state_dir, WRITES_RECORD) or told, state_dir)
        if _since(due_ns) >= 0 and _lapse(state_dir, instance, writes, due_ns, _BOTH):
            return
        if hung_ns and _since(hung_ns) >= 0:
            _help(state_dir, instance, writes, due_ns)
            hung_ns = 0
        next_ns = due_ns if _since(due_ns) < 0 else hung_ns
        select.poll().poll(min(_LOOK_MS, _milliseconds_to(next_ns) or _LOOK_MS))


def _leave_output() -> None:
    null = os.open("/dev/null", os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(null, fd)
    os.close(null)


def _follow(
    state_dir: str,
    instance: str,
    told: dict[str, Any],
    patience_ns: int,
    second: _Second | None,
) -> None:
    """Takes in what is said, until the end of input. A line that was cut off does not count."""
    rest = b""
    while True:
        due_ns = told.get("deadline_ns", 0)
        if due_ns and _since(due_ns + patience_ns) >= 0:
            _help(state_dir, instance, _writes(told, state_dir), due_ns)
            told["deadline_ns"] = due_ns = 0
            if second:
                second.tell({"deadline_ns": 0})
        if not _readable(_milliseconds_to(due_ns + patience_ns) if due_ns else None, told, second):
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            told.update(json.loads(line))
        if second and told.get("deadline_ns", 0) != due_ns:
            second.tell({"deadline_ns": told["deadline_ns"]})


def _readable(milliseconds: int | None, told: dict[str, Any], second: _Second | None) -> bool:
    """Waits for input; also ends, with False, when that is over or the second has ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if second:
        second.keep(told)
        if second.fd is None:
            milliseconds = min(_RETRY_MS, _RETRY_MS if milliseconds is None else milliseconds)
        else:
            poll.register(second.fd, select.POLLIN)
    return any(fd == 0 for fd, _ in poll.poll(milliseconds))


def _help(state_dir: str, instance: str, writes: list[list[str]], due_ns: int) -> None:
    """Ends the lease of an agent that lives and does not do it."""
    record = {"cause": _HUNG, "late_ns": _since(due_ns)}
    _note(state_dir, instance, record, _attempt(writes))


def _writes(told: dict[str, Any], state_dir: str) -> list[list[str]]:
    """What brings the node to its floor, as it was said, else as it is on disk."""
    if "writes" not in told:
        told = _read(state_dir, WRITES_RECORD)
    found: list[list[str]] = told.get("writes", [])
    return found


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
    # One that nobody has collected yet, as in a container without an init, has ended all the same.
    if ticks == record.get("start_ticks") and not _ended(fd):
        return fd
    os.close(fd)
    return None


def stand_in(state_dir: str) -> None:
    """Does what the guard on record was to do, where that was killed before it did."""
    instance = _read(state_dir, GUARD_RECORD).get("instance", "")
    if instance and not _done(state_dir, instance):
        _lapse(state_dir, instance, _writes({}, state_dir), time.monotonic_ns(), _BOTH)


def _on_record(state_dir: str, instance: str) -> bool:
    return _read(state_dir, GUARD_RECORD).get("instance") == instance


def _done(state_dir: str, instance: str) -> bool:
    """Whether the node was brought to its floor after this guard's agent had ended."""
    found = _read(state_dir, LAPSE_RECORD)
    # An agent that only hung may have raised the caps again.
    over = found.get("instance") == instance and found.get("cause") != _HUNG
    return over and not found.get("failed")


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
) -> bool:
    """Performs the writes; those that fail again for a while, each time under the lock.

    False: somebody else is in charge.
    """
    record: dict[str, Any] = {"cause": cause}
    left = writes
    for attempt in range(_ATTEMPTS):
        if attempt:
            select.poll().poll(_RETRY_MS)
        lock = _claim(state_dir, instance)
        if lock is None:
            return False
        try:
            failed = _attempt(left)
            left = [write for write, _ in failed]
            record.setdefault("late_ns", _since(due_ns))
            _note(state_dir, instance, record, failed)
        finally:
            os.close(lock)
        if not left:
            break
    return True


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
