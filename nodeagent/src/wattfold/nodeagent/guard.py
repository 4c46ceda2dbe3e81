"""Guard of the power caps: brings the node to its floor after its agent was killed.

The guard is a separate process that the agent starts before it accepts a lease. It uses only the
standard library. It holds the read end of a pipe and sleeps. The end of input
without a goodbye means that the agent was killed. It then waits for the end of the lease, locks the
state folder, performs the last writes it received, records them for the next agent, and exits. It
writes nothing if another agent holds the lock or has been in charge since.

If a living agent does not end its lease (stopped, hung), the guard does so half a second later. The
open pipe shows that the agent holds the lock, so no other agent is in charge.

A guard has a *second*, a fork that receives the end of the lease and acts if the guard is killed or
hangs. So two processes besides the agent know when a raised cap must be lowered, whatever runs on
the node. The second also watches the agent, as a guard that hangs passes no lease on. The guard
replaces a second that dies. A second ends when another guard is on record. If all three are killed,
the keepers of the jobs act (`in_charge`, `stand_in`). They use the files of the agent and act
immediately, because an early floor does no harm.

Its last arguments are the state folder and the instance of the agent. It prints ``ready`` when it
listens. Input is one JSON
object per line, and a key replaces its earlier value: ``deadline_ns`` (monotonic clock), ``writes``
(pairs of path and text), ``bye``. The guard decides nothing: the agent computes the writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from wattfold.nodeagent.guard_writes import attempt_writes

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
"""The guard acts first, and the coordinator assumes 1.5 s."""
_LOOK_MS = 1000
_AGENT_FD = 3
"""Descriptor of the agent in a second."""
_HUNG = "the agent did not end its lease"
_BOTH = "the agent and its guard were killed"
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
    """Guard one agent until it says goodbye, or until it is dead and its lease has ended."""
    state_dir, instance = sys.argv[-2:]
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    _be_called(NAME)
    told: dict[str, Any] = {}
    # The agent waits for this guard, so the parent is the agent.
    second = _Second(state_dir, instance, os.pidfd_open(os.getppid()))
    second.keep(told)
    os.write(1, b"ready\n")
    _leave_output()
    _follow(state_dir, instance, told, _PATIENCE_NS, second=second)
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
    """The second, which replaces this guard if it is killed. It exists nearly all the time."""

    def __init__(self, state_dir: str, instance: str, agent_fd: int) -> None:
        self._state_dir, self._instance = state_dir, instance
        self._agent_fd = agent_fd
        self._pid = 0
        self._begun_ns = 0
        self._pipe = -1
        self.fd: int | None = None
        """Becomes readable when the second ends; None = no second."""

    def keep(self, told: dict[str, Any]) -> None:
        """Replace a second that has ended or did not start, with a limit on the rate."""
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
                _be_second(reader, self._agent_fd, self._state_dir, self._instance, told)
            self.fd, self._pipe = os.pidfd_open(self._pid), writer
        finally:
            os.close(reader)
            os.close(begins)
            if self.fd is None:
                os.close(writer)
            else:
                # While the second still holds the guard's input, the agent could not detect the
                # guard's end.
                _wait_for_end(begun)
            os.close(begun)
        os.set_blocking(writer, False)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a short message to the second. A second that does not read is killed."""
        if self.fd is None:
            return
        try:
            os.write(self._pipe, json.dumps(message).encode() + b"\n")
        except BlockingIOError:
            os.kill(self._pid, signal.SIGKILL)
        except BrokenPipeError:
            # It has ended. The next second receives everything at its start.
            return


def _wait_for_end(pipe: int) -> None:
    """Wait briefly until no process holds the other end of a pipe."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    poll.poll(_LOOK_MS)


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _be_second(
    reader: int, agent_fd: int, state_dir: str, instance: str, told: dict[str, Any]
) -> NoReturn:
    """Run as a second."""
    try:
        os.dup2(reader, 0)
        if agent_fd != _AGENT_FD:
            os.dup2(agent_fd, _AGENT_FD)
        # An inherited pipe end would hide the end of another process.
        os.closerange(_AGENT_FD + 1, os.sysconf("SC_OPEN_MAX"))
        _leave_output()
        _be_called(SECOND_NAME)
        _follow(state_dir, instance, told, _SECOND_PATIENCE_NS, agent_fd=_AGENT_FD)
        if not told.get("bye"):
            _take_over(state_dir, instance, told)
    finally:
        os._exit(0)


def _take_over(state_dir: str, instance: str, told: dict[str, Any]) -> None:
    """Do the work of an ended guard until another guard is on record.

    A living agent soon starts another guard, or hangs. A lease that was not passed on ends now.
    """
    due_ns = told.get("deadline_ns", 0) or time.monotonic_ns()
    hung_ns = due_ns + _SECOND_PATIENCE_NS
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
    *,
    second: _Second | None = None,
    agent_fd: int | None = None,
) -> None:
    """Process messages until the end of input. An incomplete line is ignored.

    ``agent_fd`` is a PID descriptor of the agent, for a second.
    """
    rest, killed = b"", False
    while True:
        due_ns = told.get("deadline_ns", 0)
        if agent_fd is not None and not due_ns and _ended(agent_fd):
            # A guard that hangs may have had a lease of this agent, and not passed it on.
            agent_fd, killed = None, True
            told["deadline_ns"] = due_ns = time.monotonic_ns()
        if due_ns and _since(due_ns + patience_ns) >= 0:
            writes = _writes(told, state_dir)
            if not killed:
                _help(state_dir, instance, writes, due_ns)
            elif not _done(state_dir, instance):
                _lapse(state_dir, instance, writes, due_ns, _BOTH)
            told["deadline_ns"] = due_ns = 0
            if second:
                second.tell({"deadline_ns": 0})
        wait_ms = _milliseconds_to(due_ns + patience_ns) if due_ns else None
        if not _readable(wait_ms, told, second, None if due_ns else agent_fd):
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            told.update(json.loads(line))
        if second and told.get("deadline_ns", 0) != due_ns:
            second.tell({"deadline_ns": told["deadline_ns"]})


def _readable(
    milliseconds: int | None, told: dict[str, Any], second: _Second | None, agent_fd: int | None
) -> bool:
    """Wait for input. Returns False at a timeout, or if the second or the agent has ended."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if agent_fd is not None:
        poll.register(agent_fd, select.POLLIN)
    if second:
        second.keep(told)
        if second.fd is None:
            milliseconds = min(_RETRY_MS, _RETRY_MS if milliseconds is None else milliseconds)
        else:
            poll.register(second.fd, select.POLLIN)
    return any(fd == 0 for fd, _ in poll.poll(milliseconds))


def _help(state_dir: str, instance: str, writes: list[list[str]], due_ns: int) -> None:
    """End the lease of a living agent that does not end it itself."""
    record = {"cause": _HUNG, "late_ns": _since(due_ns)}
    _note(state_dir, instance, record, attempt_writes(writes))


def _writes(told: dict[str, Any], state_dir: str) -> list[list[str]]:
    """Return the writes that bring the node to its floor: as received, or else as on disk."""
    if "writes" not in told:
        told = _read(state_dir, WRITES_RECORD)
    found = told.get("writes")
    pairs = found if isinstance(found, list) else []
    return [p for p in pairs if isinstance(p, list) and len(p) == 2 and all(map(_is_text, p))]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _since(time_ns: int) -> int:
    return time.monotonic_ns() - time_ns


def _milliseconds_to(time_ns: int) -> int:
    return max(-_since(time_ns) // 1_000_000 + 1, 0)


def in_charge(state_dir: str) -> int | None:
    """Return a descriptor that becomes readable when the guard on record ends; None without one."""
    record = _read(state_dir, GUARD_RECORD)
    try:
        fd = os.pidfd_open(record["pid"])
        # Opened first, so that the PID cannot pass to another process meanwhile.
        with open(f"/proc/{record['pid']}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, KeyError, TypeError, OverflowError):
        return None
    # An unreaped guard has ended too, as in a container without an init.
    if ticks == record.get("start_ticks") and not _ended(fd):
        return fd
    os.close(fd)
    return None


def stand_in(state_dir: str) -> None:
    """Do the remaining work of the guard on record if it was killed before."""
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
    """Return a record; empty if the file is absent or invalid."""
    try:
        with open(os.path.join(state_dir, name), "rb") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lapse(
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
            select.poll().poll(_RETRY_MS)
        lock = _claim(state_dir, instance)
        if lock is None:
            return False
        try:
            failed = attempt_writes(left)
            left = [write for write, _ in failed]
            record.setdefault("late_ns", _since(due_ns))
            _note(state_dir, instance, record, failed)
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


def _note(
    state_dir: str, instance: str, record: dict[str, Any], failed: list[tuple[list[str], str]]
) -> None:
    record.setdefault("at_unix_ns", time.time_ns())
    record |= {"instance": instance, "failed": [f"{path}: {why}" for (path, _), why in failed]}
    path = os.path.join(state_dir, LAPSE_RECORD)
    # A failure cannot be reported, and the writes matter more.
    with contextlib.suppress(OSError):
        with open(path + ".tmp", "w", encoding="ascii") as file:
            json.dump(record, file)
        os.rename(path + ".tmp", path)
