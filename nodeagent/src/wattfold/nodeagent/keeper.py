"""The parent of one job: prepares and starts it, waits for it, writes down how it ended.

A process of its own with nothing but the standard library, so that it outlives an
agent that is killed and the exit status is not lost. It adopts the job's orphans (subreaper), so
that all processes of a job are its descendants whatever sessions they make, and kills what is left
when the job's first process has ended. It goes when it has no child any more, never before: as it
adopts orphans, nothing of the job is alive then, whatever that did to hide. It uses next to no CPU
time and is outside the job's mask.

Talks on stdin/stdout until the job runs: in one line of JSON (the order), out
``{"pid": ...}`` or ``{"error": ...}``; in ``go``; out ``{"running": true}`` or an error. End of
input before ``go`` means that the agent is gone: the job is not started.
SIGUSR1: another agent has adopted the job. When the agent dies, what it had stopped of the job is
continued; what the user has stopped is not.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import sys
import time
from typing import Any, NamedTuple, NoReturn

from wattfold.nodeagent import guard
from wattfold.nodeagent.ending import descendants, end_round

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_WALL = 0x40000000
"""Also children that do not tell by SIGCHLD."""
_PAUSE_MS_MIN = 20
_PAUSE_MS_MAX = 5000
_NICE = -10
_RETRY_MS = 1000


class _Failed(Exception):  # noqa: N818
    def __init__(self, what: str, path: str, number: int) -> None:
        super().__init__(what)
        self.report = {"what": what, "path": path, "errno": number}


def main() -> None:
    """Runs one job from order to end."""
    sys.excepthook = lambda _kind, error, _trace: os._exit(70 if error else 71)
    lines = _Lines(0)
    order = json.loads(lines.next())
    _become_keeper()
    wake = _wakeups()
    from_child, to_keeper = os.pipe()
    go_reader, go_writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(from_child)
        os.close(go_writer)
        _child(order, to_keeper, go_reader)
    os.close(to_keeper)
    os.close(go_reader)
    if not _start(pid, _Lines(from_child), lines, go_writer):
        os.waitpid(pid, 0)
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
            chunk = os.read(self._fd, 65536)
            if not chunk:
                return ""
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "surrogateescape")


def _become_keeper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, b"wattfold-keeper", 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _wakeups() -> int:
    """A descriptor that becomes readable when a child changes or an agent announces itself."""
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
    """The handshake; True when the program runs."""
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
    """Waits for the job, reaping its orphans; (exit code, signal) of its first process."""
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
            # Its throttle may have stopped the job; nobody else would continue it.
            _continue_all(stopped_path)
            _close(agent)
            agent, guarding = None, _guarded(agent_pid_path)
        elif guarding in ready:
            _close(guarding)
            guarding = _guarded(agent_pid_path)
    _close(agent)
    _close(guarding)
    return ended


def _guarded(agent_pid_path: str) -> int | None:
    """Of a node without its agent: a descriptor that becomes readable when its guard ends.

    None where there is no guard: then the node is brought to its floor, if that is to be done yet.
    """
    state_dir = os.path.dirname(agent_pid_path)
    guarding = guard.in_charge(state_dir)
    if guarding is None and os.fork() == 0:
        # In a child, as a device that hangs may take it along.
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(Exception):
            guard.stand_in(state_dir)
        os._exit(0)
    return guarding


def _agent_fd(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
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
    """(How this child has ended, if it has; whether there are children)."""
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


def _continue_all(stopped_path: str) -> None:
    """Continues what the agent has stopped; once, the file goes."""
    if not stopped_path:
        return
    with contextlib.suppress(OSError, ValueError):
        with open(stopped_path, encoding="ascii") as file:
            for line in file:
                pid, ticks = line.split()
                continue_stopped(int(pid), int(ticks))
        os.unlink(stopped_path)


def continue_stopped(pid: int, start_ticks: int) -> None:
    """Continues a process that the throttle has stopped, if nobody else wants it stopped."""
    found = read_stop(pid)
    if found is None or found.start_ticks != start_ticks or (found.stopped and found.waits):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGCONT)
        if found.terminal_waits:
            # The kernel drops it with SIGCONT; the program may have its own way to take it.
            os.kill(pid, signal.SIGTSTP)


class Stop(NamedTuple):
    """Whether a process is stopped, and which stops wait for it to go on."""

    start_ticks: int
    stopped: bool
    waits: bool
    """A SIGSTOP. One that finds a process stopped waits, as nothing is delivered to it."""
    terminal_waits: bool
    """A SIGTSTP."""


def read_stop(pid: int) -> Stop | None:
    """How a process is stopped; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except OSError:
        return None
    waiting = 0
    for line in status.splitlines():
        if line.startswith((b"ShdPnd:", b"SigPnd:")):
            waiting |= int(line.split()[1], 16)
    return Stop(
        start_ticks=int(fields[19]),
        stopped=fields[0] in (b"T", b"t"),
        waits=bool(waiting >> (signal.SIGSTOP - 1) & 1),
        terminal_waits=bool(waiting >> (signal.SIGTSTP - 1) & 1),
    )


def _end_leftovers(groups: list[str], wake: int) -> None:
    """Kills what the job left behind; returns when nothing of it is alive, if ever."""
    if not _reap(0)[1]:
        return
    with contextlib.suppress(OSError):
        # Who makes processes without end must not take the time from who ends them.
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    pause_ms = _PAUSE_MS_MIN
    while True:
        end_round(groups, lambda: descendants(os.getpid()))
        if _childless_within(pause_ms, wake):
            return
        pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)


def _childless_within(pause_ms: int, wake: int) -> bool:
    """Reaps for so long, or until there is no child."""
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


def _write_end(path: str, code: int, killer: int, wake: int) -> None:
    """Writes the end atomically; tries until there is room, the result must not be lost."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    end = {
        "exit_code": code,
        "signal": killer,
        "ended_ns": time.monotonic_ns(),
        "cpu_ns": int((used.ru_utime + used.ru_stime) * 1e9),
        # Read by agents of before: there were some that gave up.
        "left": 0,
    }
    poll = select.poll()
    poll.register(wake, 0)
    while os.path.isdir(os.path.dirname(path)):
        try:
            fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                os.write(fd, json.dumps(end).encode())
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(path + ".tmp", path)
            return
        except OSError:
            poll.poll(_RETRY_MS)


def _child(order: dict[str, Any], to_keeper: int, go_reader: int) -> NoReturn:
    """Becomes the job. Everything that confines it happens before its first instruction."""
    made: list[str] = []
    try:
        os.setsid()
        _default_signals()
        _confine(order)
        _limit(order)
        _be_killable()
        _become_user(order)
        outputs = _open_files(order, made)
        _make_folder(order["snapshot_path"])
        program = _find_program(order)
        os.write(to_keeper, b'{"ready": true}\n')
        if os.read(go_reader, 1) != b"g":
            raise _Failed("start", "", 0)
        for fd in outputs:
            if stat.S_ISREG(os.fstat(fd).st_mode) and not order["keep_output"]:
                os.ftruncate(fd, 0)
        for target, fd in enumerate((os.open("/dev/null", os.O_RDONLY), *outputs)):
            os.dup2(fd, target)
        try:
            os.execve(program, order["argv"], order["env"])  # noqa: S606 - that is the job
        except OSError as error:
            raise _Failed("execute", program, error.errno or 0) from None
    except _Failed as failure:
        report = failure.report
    except BaseException as error:  # noqa: BLE001 - the agent is told whatever it is
        report = {"what": f"prepare ({error})", "path": "", "errno": getattr(error, "errno", 0)}
    for path in made:
        os.unlink(path)
    os.write(to_keeper, json.dumps(report).encode() + b"\n")
    os._exit(127)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _confine(order: dict[str, Any]) -> None:
    # The affinity comes first: inside a cpuset a mask outside it would be refused.
    try:
        os.sched_setaffinity(0, order["affinity"])
    except OSError as error:
        raise _Failed("set the affinity", str(order["affinity"]), error.errno or 0) from None
    for path in order["procs_paths"]:
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write("0")
        except OSError as error:
            raise _Failed("enter the cgroup", path, error.errno or 0) from None


def _limit(order: dict[str, Any]) -> None:
    # The agent has raised its own limit; jobs get the usual one, or that of their shell.
    _set_soft(resource.RLIMIT_NOFILE, order["files_soft_max"])
    for name, soft in order["limits"]:
        _set_soft(getattr(resource, f"RLIMIT_{name.upper()}"), soft)
    most: int = order["processes_max"]
    if most:
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = _least(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (_least(most, soft), most))


def _set_soft(which: int, soft: int | None) -> None:
    """As much of it as the hard limit here permits; None = no limit."""
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (hard if soft is None else _least(soft, hard), hard))


def _least(value: int, limit: int) -> int:
    return value if limit == resource.RLIM_INFINITY else min(value, limit)


def _be_killable() -> None:
    # A service manager may have spared the agent; a node short of memory must take the job.
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "r+", encoding="ascii") as f,
    ):
        if int(f.read()) < 0:
            f.seek(0)
            f.write("0")


def _become_user(order: dict[str, Any]) -> None:
    os.umask(order["umask"])
    if order["uid"] is None:
        return
    try:
        os.initgroups(order["user"], order["gid"])
        os.setgid(order["gid"])
        os.setuid(order["uid"])
    except OSError as error:
        raise _Failed("become the user", order["user"], error.errno or 0) from None


def _open_files(order: dict[str, Any], made: list[str]) -> list[int]:
    try:
        os.chdir(order["cwd"])
    except OSError as error:
        raise _Failed("enter the directory", order["cwd"], error.errno or 0) from None
    fds = []
    for path in (order["stdout_path"], order["stderr_path"]):
        try:
            fds.append(_open_output(path, made))
        except OSError as error:
            for other in made:
                os.unlink(other)
            made.clear()
            raise _Failed("open the output", path, error.errno or 0) from None
    return fds


def _make_folder(path: str) -> None:
    if not path:
        return
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
        raise _Failed("make the snapshot folder", path, error.errno or 0) from None


def _open_output(path: str, made: list[str]) -> int:
    # Appending, so that two descriptors of one file do not overwrite each other.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        made.append(path)
    except FileExistsError:
        fd = os.open(path, flags)
    os.set_blocking(fd, True)
    return fd


def _find_program(order: dict[str, Any]) -> str:
    name: str = order["argv"][0]
    folders = [""] if "/" in name else order["env"].get("PATH", "").split(":")
    worst = 2
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path
            worst = 13
    raise _Failed("find the command", name, worst)
