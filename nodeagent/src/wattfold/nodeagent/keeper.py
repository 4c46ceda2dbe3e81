"""Keeper: the parent of one job. It starts the job, waits for it and records its end.

The keeper is a separate process that uses only the standard library, forked by `fork_server`. It
outlives an agent that is killed, so no exit status is lost. It adopts the orphans of the job
(subreaper), so all processes of the job are its descendants, whatever sessions they create. When
the first process of the job has ended, the keeper kills all others. It exits only when it has no
child. No process of the job is alive then. The keeper uses nearly no CPU time and runs outside the
mask of the job.

Until the job runs, the keeper talks with the agent on stdin and stdout. It reads the order, a line
of JSON, and answers ``{"pid": ...}`` or ``{"error": ...}``. It reads ``go`` and answers
``{"running": true}`` or an error. If the input ends before ``go``, the agent was killed, and the
job does not start. SIGUSR1 means that another agent has adopted the job. When the agent dies, the
keeper continues the processes that the agent has stopped, but no process that the user has stopped.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import time
from typing import Any

from wattfold.nodeagent import guard
from wattfold.nodeagent.become_job import become_job
from wattfold.nodeagent.ending import descendants, end_round
from wattfold.nodeagent.stops import continue_all

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_WALL = 0x40000000
"""Also wait for children that do not send SIGCHLD."""
_PAUSE_MS_MIN = 20
_PAUSE_MS_MAX = 5000
_NICE = -10
_RETRY_MS = 1000
_END_BYTES = 512
_LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run one job from its order to its end."""
    lines = _Lines(0)
    order = json.loads(lines.next())
    _become_keeper()
    try:
        _reserve_end(order["exit_path"])
        wake = _wakeups()
        from_child, to_keeper = os.pipe()
        go_reader, go_writer = os.pipe()
        pid = os.fork()
    except OSError as error:
        report = {"what": "set up its keeper", "path": error.filename or "", "errno": error.errno}
        _tell_agent({"error": report})
        return
    if pid == 0:
        os.close(from_child)
        os.close(go_writer)
        become_job(order, to_keeper, go_reader)
    os.close(to_keeper)
    os.close(go_reader)
    if not _start(pid, _Lines(from_child), lines, go_writer):
        os.waitpid(pid, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_unfinished(order["exit_path"]))
        return
    _leave_pipes()
    for fd in order["inherited"]:
        os.close(fd)
    code, killer = _wait(pid, wake, order["agent_pid_path"], order["stopped_path"])
    _end_leftovers(order["groups"], wake)
    _write_end(order["exit_path"], code, killer, wake)


class _Lines:
    """Lines of a descriptor, read unbuffered; an empty text is the end of input."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def next(self) -> str:
        while b"\n" not in self._rest:
            chunk = b""
            with contextlib.suppress(ConnectionResetError):
                # The agent has ended without reading its messages.
                chunk = os.read(self._fd, 65536)
            if not chunk:
                return ""
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "surrogateescape")


def _become_keeper() -> None:
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    be_called("wattfold-keeper")
    ignore_ends()


def be_called(name: str) -> None:
    """Set the name of this process."""
    _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def ignore_ends() -> None:
    """Ignore the signals that end the agent, its terminal or its session."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _wakeups() -> int:
    """Return a descriptor that is readable when a child changes or an agent announces itself."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    return reader


def _tell_agent(message: dict[str, Any]) -> bool:
    try:
        os.write(1, json.dumps(message).encode() + b"\n")
    except OSError:
        return False
    return True


def _start(pid: int, child: _Lines, agent: _Lines, go_writer: int) -> bool:
    """Perform the handshake. Returns whether the program runs."""
    answer = json.loads(child.next() or '{"what": "start", "path": "", "errno": 5}')
    if "ready" not in answer:
        _tell_agent({"error": answer})
        return False
    _tell_agent({"pid": pid})
    if agent.next() != "go":
        os.close(go_writer)
        return False
    os.write(go_writer, b"g")
    os.close(go_writer)
    failure = child.next()
    if failure:
        _tell_agent({"error": json.loads(failure)})
        return False
    _tell_agent({"running": True})
    return True


def _leave_pipes() -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")


def _wait(pid: int, wake: int, agent_pid_path: str, stopped_path: str) -> tuple[int, int]:
    """Wait for the job and reap its orphans. Returns exit code and signal of its first process."""
    agent, guarding = _agent_fd(agent_pid_path), None
    while True:
        if (ended := _reap(pid)[0]) is not None:
            break
        poll = select.poll()
        for fd in (wake, agent, guarding):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        if wake in ready and signal.SIGUSR1 in _drain(wake):
            _close(agent)
            _close(guarding)
            agent, guarding = _agent_fd(agent_pid_path), None
        elif agent in ready:
            # Its throttle may have stopped the job, and no other process would continue it.
            continue_all(stopped_path)
            _close(agent)
            agent, guarding = None, _guarded(agent_pid_path)
        elif guarding in ready:
            _close(guarding)
            guarding = _guarded(agent_pid_path)
    _close(agent)
    _close(guarding)
    return ended


def _guarded(agent_pid_path: str) -> int | None:
    """Return a descriptor that becomes readable when the guard of a node without agent ends.

    None without a guard. In that case the node is brought to its floor, unless this is done.
    """
    state_dir = os.path.dirname(agent_pid_path)
    guarding = guard.in_charge(state_dir)
    if guarding is None and os.fork() == 0:
        # In a child, because a device that hangs may block it.
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(Exception):
            guard.stand_in(state_dir)
        os._exit(0)
    return guarding


def _agent_fd(path: str) -> int | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return os.pidfd_open(int(file.read()))
    except (OSError, ValueError):
        return None


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


def _drain(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except BlockingIOError:
        return b""


def _reap(pid: int) -> tuple[tuple[int, int] | None, bool]:
    """Return the end of this child, if it has ended, and whether there are children."""
    ended = None
    while True:
        try:
            found, status = os.waitpid(-1, os.WNOHANG | _WALL)
        except ChildProcessError:
            return ended, False
        if found == 0:
            return ended, True
        if found == pid:
            killer = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            ended = (128 + killer if killer else os.WEXITSTATUS(status), killer)


def _end_leftovers(groups: list[str], wake: int) -> None:
    """Kill all remaining processes of the job, and return when none is alive."""
    if not _reap(0)[1]:
        return
    with contextlib.suppress(OSError):
        # Processes that fork without end must not starve the keeper.
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    pause_ms = _PAUSE_MS_MIN
    while True:
        end_round(groups, lambda: descendants(os.getpid()))
        if _childless_within(pause_ms, wake):
            return
        pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)


def _childless_within(pause_ms: int, wake: int) -> bool:
    """Reap children. Returns whether none is left within this time."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    deadline = time.monotonic() + pause_ms / 1000
    while _reap(0)[1]:
        left_ms = (deadline - time.monotonic()) * 1000
        if left_ms <= 0:
            return False
        poll.poll(left_ms)
        _drain(wake)
    return True


def _unfinished(path: str) -> str:
    return path + ".tmp"


def _reserve_end(path: str) -> None:
    """Reserve the space for `_write_end`, so that a full disk does not delay the end of the job."""
    fd = os.open(_unfinished(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _END_BYTES)
    except OSError as error:
        os.unlink(_unfinished(path))
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(fd)


def _write_end(path: str, code: int, killer: int, wake: int) -> None:
    """Write the end atomically. Retries until there is space, so that the result is not lost."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {
        "exit_code": code,
        "signal": killer,
        "ended_ns": time.monotonic_ns(),
        "cpu_ns": int((used.ru_utime + used.ru_stime) * 1e9),
        # Read by earlier versions of the agent, whose keepers could give up.
        "left": 0,
    }
    poll = select.poll()
    poll.register(wake, 0)
    while os.path.isdir(os.path.dirname(path)):
        try:
            fd = os.open(_unfinished(path), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.ftruncate(fd, os.write(fd, json.dumps(end).encode()))
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(_unfinished(path), path)
            return
        except OSError:
            poll.poll(_RETRY_MS)
