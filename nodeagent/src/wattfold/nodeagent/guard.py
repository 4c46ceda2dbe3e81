"""Guard of the power caps: brings the node to its floor after its agent was killed.

The guard is a separate process that the agent starts before it accepts a lease. It uses only the
standard library. It holds the read end of a pipe and sleeps. The end of input
without a goodbye means that the agent was killed. It then waits for the end of the lease, locks the
state folder, performs the last writes it received, records them for the next agent, and exits. It
writes nothing if another agent holds the lock or has been in charge since.

If a living agent does not end its lease (stopped, hung), the guard does so half a second later. The
open pipe shows that the agent holds the lock, so no other agent is in charge.

A guard has a *second*, a fork that receives all messages and acts if the guard is killed or hangs.
So two processes besides the agent know when a raised cap must be lowered, whatever runs on the
node. The second confirms each end of a lease, and the guard passes this on to the agent, which
begins a lease only then. The guard replaces a second that dies or is late. The second also watches
the agent. It ends when another guard is on record. If all three are killed, the keepers of the
jobs act: each executes `stand_in`. They use the files of the agent and act immediately, because an
early floor does no harm.

Its last arguments are the state folder and the instance of the agent. Input is one JSON object per
line, and a key replaces its earlier value: ``deadline_ns`` (monotonic clock), ``writes`` (pairs of
path and text), ``bye``. Output is one number per line: a ``deadline_ns`` that guard and second
hold, with all earlier messages; first 0, when both listen. The guard decides nothing: the agent
computes the writes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from wattfold.nodeagent.guard_records import (
    GUARD_RECORD,
    HUNG,
    RETRY_MS,
    WRITES_RECORD,
    done,
    lapse,
    note,
    on_record,
    read,
    since,
)
from wattfold.nodeagent.guard_writes import attempt_writes

NAME = "wattfold-guard"
SECOND_NAME = "wattfold-second"
_PATIENCE_NS = 500_000_000
_SECOND_PATIENCE_NS = 1_000_000_000
"""The guard acts first, and the coordinator assumes 1.5 s."""
_CONFIRM_NS = 500_000_000
"""A second that does not confirm in this time is replaced."""
_LOOK_MS = 1000
_AGENT_FD = 3
"""Descriptor of the agent in a second."""
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
    os.set_blocking(1, False)
    _follow(state_dir, instance, told, _PATIENCE_NS, second=second)
    if told.get("bye"):
        return
    due_ns = max(told.get("deadline_ns", 0), time.monotonic_ns())
    while since(due_ns) < 0:
        select.poll().poll(_milliseconds_to(due_ns))
    lapse(state_dir, instance, _writes(told, state_dir), due_ns)
    if done(state_dir, instance):
        second.tell(b'{"bye": true}\n', 0)


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
        self._asked_ns: int | None = None
        """Time of the first lease that it has not confirmed yet; None = it has confirmed all."""
        self._deadline_ns = 0
        self.fd: int | None = None
        """Becomes readable when the second confirms or ends; None = no second."""

    def keep(self, told: dict[str, Any]) -> None:
        """Replace a second that has ended or is late, with a limit on the rate."""
        if self.fd is not None and self.milliseconds() == 0:
            os.kill(self._pid, signal.SIGKILL)
            # Its end comes later, or never while a device blocks it.
            self._asked_ns = None
        if self.fd is None and since(self._begun_ns) >= RETRY_MS * 1_000_000:
            self._begun_ns = time.monotonic_ns()
            self._start(told)

    def milliseconds(self) -> int | None:
        """Return the time until `keep` has to be called; None = no limit."""
        if self.fd is None:
            return RETRY_MS
        if self._asked_ns is None:
            return None
        return _milliseconds_to(self._asked_ns + _CONFIRM_NS)

    def _start(self, told: dict[str, Any]) -> None:
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            self._pid = os.fork()
        except OSError:
            for end in ends:
                os.close(end)
            return
        reader, self._pipe, self.fd, answers = ends
        if self._pid == 0:
            fds = (reader, answers, self._agent_fd)
            _be_second(fds, self._state_dir, self._instance, told)
        os.close(reader)
        os.close(answers)
        os.set_blocking(self._pipe, False)
        self._deadline_ns, self._asked_ns = told.get("deadline_ns", 0), time.monotonic_ns()

    def tell(self, line: bytes, deadline_ns: int) -> None:
        """Send a message to the second. A second that does not read is killed."""
        if self.fd is None:
            return
        if self._deadline_ns != deadline_ns:
            self._deadline_ns = deadline_ns
            self._asked_ns = self._asked_ns or time.monotonic_ns()
        try:
            whole = os.write(self._pipe, line) == len(line)
        except BlockingIOError:
            whole = False
        except BrokenPipeError:
            # It has ended. The next second receives everything at its start.
            return
        if not whole:
            os.kill(self._pid, signal.SIGKILL)

    def hear(self) -> None:
        """Pass on what the second confirms, or take notice of its end."""
        assert self.fd is not None
        said = os.read(self.fd, 65536)
        if not said:
            os.waitpid(self._pid, 0)
            os.close(self.fd)
            os.close(self._pipe)
            self.fd = None
        elif int(said.split()[-1]) == self._deadline_ns:
            self._asked_ns = None
            _confirm(self._deadline_ns)


def _confirm(deadline_ns: int) -> None:
    # Nobody listens after the end of the agent, or of the guard.
    with contextlib.suppress(OSError):
        os.write(1, b"%d\n" % deadline_ns)


def _ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _be_second(
    fds: tuple[int, int, int], state_dir: str, instance: str, told: dict[str, Any]
) -> NoReturn:
    """Run as a second, with pipes from and to the guard and a PID descriptor of the agent."""
    try:
        reader, answers, agent_fd = fds
        os.dup2(reader, 0)
        os.dup2(answers, 1)
        if agent_fd != _AGENT_FD:
            os.dup2(agent_fd, _AGENT_FD)
        # An inherited pipe end would hide the end of another process.
        os.closerange(_AGENT_FD + 1, os.sysconf("SC_OPEN_MAX"))
        _be_called(SECOND_NAME)
        _confirm(told.get("deadline_ns", 0))
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
    while on_record(state_dir, instance) and not done(state_dir, instance):
        writes = _newest_writes(told, state_dir)
        if since(due_ns) >= 0 and lapse(state_dir, instance, writes, due_ns, _BOTH):
            return
        if hung_ns and since(hung_ns) >= 0:
            _help(state_dir, instance, writes, due_ns)
            hung_ns = 0
        next_ns = due_ns if since(due_ns) < 0 else hung_ns
        select.poll().poll(min(_LOOK_MS, _milliseconds_to(next_ns) or _LOOK_MS))


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

    ``second`` belongs to a guard. ``agent_fd`` is a PID descriptor of the agent, for a second.
    """
    rest, killed = b"", False
    while True:
        due_ns = told.get("deadline_ns", 0)
        if agent_fd is not None and not due_ns and _ended(agent_fd):
            # A guard that hangs may have had a lease of this agent, and not passed it on.
            agent_fd, killed = None, True
            told["deadline_ns"] = due_ns = time.monotonic_ns()
        if due_ns and since(due_ns + patience_ns) >= 0:
            writes = _writes(told, state_dir) if second else _newest_writes(told, state_dir)
            if not killed:
                _help(state_dir, instance, writes, due_ns)
            elif not done(state_dir, instance):
                lapse(state_dir, instance, writes, due_ns, _BOTH)
            told["deadline_ns"] = due_ns = 0
            if second:
                second.tell(b'{"deadline_ns": 0}\n', 0)
        wait_ms = _milliseconds_to(due_ns + patience_ns) if due_ns else None
        if second:
            second.keep(told)
        if not _readable(wait_ms, second, None if due_ns else agent_fd):
            continue
        chunk = os.read(0, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            told.update(message)
            if second:
                second.tell(line + b"\n", told.get("deadline_ns", 0))
            elif "deadline_ns" in message:
                _confirm(message["deadline_ns"])


def _readable(milliseconds: int | None, second: _Second | None, agent_fd: int | None) -> bool:
    """Wait for input. Returns False at a timeout, or if the second or the agent did something."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    if agent_fd is not None:
        poll.register(agent_fd, select.POLLIN)
    if second:
        limits = [ms for ms in (milliseconds, second.milliseconds()) if ms is not None]
        milliseconds = min(limits, default=None)
        if second.fd is not None:
            poll.register(second.fd, select.POLLIN)
    ready = {fd for fd, _ in poll.poll(milliseconds)}
    if second and second.fd in ready:
        second.hear()
    return 0 in ready


def _help(state_dir: str, instance: str, writes: list[list[str]], due_ns: int) -> None:
    """End the lease of a living agent that does not end it itself."""
    record = {"cause": HUNG, "late_ns": since(due_ns)}
    note(state_dir, instance, record, attempt_writes(writes))


def _writes(told: dict[str, Any], state_dir: str) -> list[list[str]]:
    """Return the writes that bring the node to its floor: as received, or else as on disk."""
    if "writes" not in told:
        told = read(state_dir, WRITES_RECORD)
    found = told.get("writes")
    pairs = found if isinstance(found, list) else []
    return [p for p in pairs if isinstance(p, list) and len(p) == 2 and all(map(_is_text, p))]


def _newest_writes(told: dict[str, Any], state_dir: str) -> list[list[str]]:
    """Return the writes as on disk, or else as received. A guard that hangs passes none on."""
    return _writes(read(state_dir, WRITES_RECORD) or told, state_dir)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _milliseconds_to(time_ns: int) -> int:
    return max(-since(time_ns) // 1_000_000 + 1, 0)


def stand_in(state_dir: str) -> None:
    """Do the remaining work of the guard on record, which was killed. Keepers call this."""
    instance = read(state_dir, GUARD_RECORD).get("instance", "")
    if instance and not done(state_dir, instance):
        lapse(state_dir, instance, _writes({}, state_dir), time.monotonic_ns(), _BOTH)
