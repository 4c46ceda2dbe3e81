"""Start processes of the product as copies of a process that has its modules imported.

Most tests with real processes wait for Python to import gRPC, numpy and the product again. This
module replaces ``subprocess.Popen`` by :class:`Popen`. For the commands of the product it sends a
request to a *source*: one child per test process, single-threaded, with all modules imported. The
source clones itself (``CLONE_PARENT``, so that the clone is a child of the caller), and the clone
becomes the requested command: its arguments, environment, descriptors, session, signal mask, CPU
affinity, and what ``/proc/PID/cmdline`` and ``environ`` show. A coordinator gets a source of its
own for its solver worker and its view process. Commands whose calendar is set get a source that
has the library for that loaded.

Everything else starts in the ordinary way: other programs, other accounts, calls with options that
a clone could not honour, and every command in a test marked ``cold_start``. On a kernel without
``PR_SET_MM_MAP`` every start is an ordinary one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import inspect
import os
import pickle
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from warm.commands import COMMANDS, DEMO, SOURCE_NAME, entry, is_trial

MESSAGE_BYTES_MAX = 100_000
"""Larger requests start in the ordinary way: a datagram has to hold them."""
READY_S = 60.0
ORDINARY = subprocess.Popen
PRELOADED, SET_FOR_PRELOADED = "faketime", ("LD_PRELOAD", "FAKETIME", "NO_FAKE")
"""In the name of the library that a source may have loaded in addition, and how the names of its
variables begin. It reads the name of the calendar's file with the clock, so a clone has its own."""
SET_BY_COMMANDS = ("GRPC_VERBOSITY",)
"""Variables that commands set for themselves when they start; what they start inherits them."""
MODULES = (
    "wattfold.commands",
    "wattfold.nodeagent.app",
    "wattfold.coordinator.app.main",
    "wattfold.coordinator.adapters.copies.pictures",
    "wattfold.coordinator.cli.main",
    "wattfold.coordinator.solvers.worker",
    "wattfold.coordinator.solvers.allocator.lagrangian",
    "wattfold.coordinator.solvers.allocator.glpk",
)
_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_MAP = 15, 35, 14
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A process to become. Its descriptors travel with it, in the order of ``numbers``."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    numbers: Sequence[int]
    new_session: bool
    signals: frozenset[int]
    cpus: frozenset[int]
    limits: Sequence[tuple[int, int]]


class Source:
    """A process to clone, and the socket to ask it on."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def clone(self, request: Request, fds: Sequence[int]) -> int | None:
        """Returns the process id of the clone; None if the request is too large."""
        message = pickle.dumps(request)
        if len(message) > MESSAGE_BYTES_MAX:
            return None
        with self._lock:
            socket.send_fds(self._end, [message], list(fds))
            answer = self._end.recv(64)
        if not answer:
            raise OSError(errno.ECHILD, "the source of clones has ended; its output says why")
        return int(answer)


_sources: dict[str, Source] = {}
"""By what is loaded before the interpreter."""
_source_environment = dict(os.environ)
"""The variables that a source sees when it starts, without the library that is loaded before."""
_enabled = False
_cold = 0


def enable() -> None:
    """Replace ``subprocess.Popen`` in this process, where clones are possible."""
    global _enabled
    if not _enabled and _possible():
        _enabled = True
        subprocess.Popen = Popen  # type: ignore[misc]


@contextlib.contextmanager
def cold_starts() -> Any:
    """Start every process in the ordinary way meanwhile."""
    global _cold
    _cold += 1
    try:
        yield
    finally:
        _cold -= 1


def _possible() -> bool:
    """Whether this process knows how to clone here, and may change what ``/proc`` shows of it."""
    if os.uname().machine not in _SYS_CLONE:
        return False
    arguments_start, arguments_end, variables_start, variables_end = _stat_fields(48, 49, 50, 51)
    same = (arguments_start, arguments_end, variables_start, variables_end)
    return _point_proc_at(*same) == 0


class Popen(ORDINARY):  # type: ignore[type-arg]
    """``subprocess.Popen`` that clones the source for the commands of the product."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        given = dict(zip(_NAMES, rest, strict=True))
        argv = _argv(args, executable, given)
        if argv is None or not self._clone(argv, given):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]

    def _clone(self, argv: list[str], given: dict[str, Any]) -> bool:
        ends = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        fds = [own if end == -1 else end for own, end in enumerate(ends)]
        passed = sorted(given["pass_fds"])
        try:
            for fd in fds:
                os.fstat(fd)
        except OSError:
            return False
        request = Request(
            argv=argv,
            cwd=os.path.abspath(os.fsdecode(given["cwd"] or ".")),
            env=_environment(given["env"]),
            numbers=[0, 1, 2, *passed],
            new_session=bool(given["start_new_session"]),
            signals=frozenset(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
            cpus=frozenset(os.sched_getaffinity(0)),
            limits=[resource.getrlimit(number) for number in _LIMITS],
        )
        if not os.path.isdir(request.cwd):
            return False
        pid = _own_source(request.env).clone(request, [*fds, *passed])
        if pid is None:
            return False
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))  # type: ignore[attr-defined]
        return True


_NAMES = tuple(inspect.signature(ORDINARY._execute_child).parameters)[3:]  # type: ignore[attr-defined]
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _argv(args: Any, executable: Any, given: Mapping[str, Any]) -> list[str] | None:
    """The words of a command that a clone can become; None for every other call."""
    plain = (
        given["preexec_fn"] is None
        and given["close_fds"]
        and not given["shell"]
        and (given["gid"], given["gids"], given["uid"]) == (None, None, None)
        and given["umask"] < 0
        and given["process_group"] in (None, -1)
    )
    if _cold or not plain or isinstance(args, str | bytes | os.PathLike):
        return None
    argv = [os.fsdecode(word) for word in args]
    if executable is not None and os.fsdecode(executable) != argv[0]:
        return None
    if entry(argv) is None or not _like_ours(_environment(given["env"])):
        return None
    return argv


def _environment(env: Any) -> dict[str, str]:
    source = os.environ if env is None else env
    return {os.fsdecode(name): os.fsdecode(value) for name, value in source.items()}


def _like_ours(env: Mapping[str, str]) -> bool:
    """Whether the variables that an interpreter reads at its start are those of this process."""

    def read(values: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in values.items()
            if name.startswith(("PYTHON", "LC_", "LD_", "LANG", "MALLOC_", "GRPC_"))
            and name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", *SET_BY_COMMANDS)
            and not (name == "LD_PRELOAD" and PRELOADED in value)
        }

    # An interpreter keeps the entries as absolute paths.
    paths = map(os.path.abspath, filter(None, env.get("PYTHONPATH", "").split(os.pathsep)))
    return read(env) == read(_source_environment) and set(paths) <= set(sys.path)


# ---- the source ----------------------------------------------------------------------------------


def _preloaded(env: Mapping[str, str]) -> str:
    return env.get("LD_PRELOAD", "")


def _own_source(env: Mapping[str, str]) -> Source:
    """A source for a command with these variables, which are like ours."""
    preloaded = _preloaded(env)
    if preloaded not in _sources:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            environment = _source_environment | {
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                # A thread of a library would not be in a clone.
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
            }
            if preloaded:
                set_for = (name for name in env if name.startswith(SET_FOR_PRELOADED))
                environment |= {name: env[name] for name in set_for}
            ORDINARY(
                [sys.executable, "-m", "warm.source", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env=environment,
            )
        if not select.select([ours], [], [], READY_S)[0] or ours.recv(16) != b"ready":
            raise OSError(errno.ETIMEDOUT, f"the source of clones was not ready in {READY_S:.0f} s")
        _sources[preloaded] = Source(ours)
    return _sources[preloaded]


def serve(end: socket.socket) -> Callable[[], object]:
    """Clone on request. Returns only in clones, with what they are to run. Ends with the caller."""
    while True:
        message, fds, _, _ = socket.recv_fds(end, MESSAGE_BYTES_MAX + 1, 64)
        if not message:
            os._exit(0)
        request: Request = pickle.loads(message)
        pid = _cloned()
        if pid == 0:
            return _become(request, fds, end)
        for fd in fds:
            os.close(fd)
        end.send(str(pid).encode())


_libc = ctypes.PyDLL(None, use_errno=True)


def _cloned() -> int:
    """Like ``os.fork()``, but the clone is a sibling: a child of this process's parent."""
    number = _SYS_CLONE[os.uname().machine]
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(_libc.syscall(number, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid


def _become(request: Request, fds: Sequence[int], end: socket.socket) -> Callable[[], object]:
    """Turn a fresh clone into the requested process, up to its first own instruction."""
    end.close()
    if request.new_session:
        os.setsid()
    _place(fds, request.numbers)
    os.chdir(request.cwd)
    os.sched_setaffinity(0, request.cpus)
    for number, limit in zip(_LIMITS, request.limits, strict=True):
        resource.setrlimit(number, limit)
    # As in a console script; multiprocessing would import the program of the source again.
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.clear()
    os.environ.update(request.env)
    _show(request.argv, request.env)
    for stream, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        # As an interpreter makes them: line by line to terminals, errors without delay.
        errors = "backslashreplace" if fd == 2 else "strict"
        lines = fd == 2 or os.isatty(fd) or "PYTHONUNBUFFERED" in request.env
        made = open(fd, mode, buffering=1 if lines else -1, errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, stream, made)
        setattr(sys, f"__{stream}__", made)
    run = entry(request.argv)
    assert run is not None
    if _starts_commands(request.argv):
        _add_source()
    signal.pthread_sigmask(signal.SIG_SETMASK, request.signals)
    return run


def _starts_commands(argv: Sequence[str]) -> bool:
    """Whether a command starts other commands of the product: workers, or a whole site."""
    coordinator = Path(argv[0]).name == "wattfold-coordinator"
    demo = list(argv[1:5]) == DEMO or is_trial(argv)
    return coordinator or "reproduce" in argv[1:4] or demo


def _place(fds: Sequence[int], numbers: Sequence[int]) -> None:
    """Give descriptors the numbers that the caller asked for, and close all others."""
    highest = max(*numbers, *fds) + 1
    high = []
    for offset, fd in enumerate(fds):
        os.dup2(fd, highest + offset, inheritable=False)
        high.append(highest + offset)
    kept = sorted(numbers)
    for low, up in zip([-1, *kept], [*kept, highest], strict=True):
        if low + 1 < up:
            # An empty range closes everything: CPython hands close_range(2) its last as unsigned.
            os.closerange(low + 1, up)
    for fd, number in zip(high, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
    os.closerange(highest, highest + len(fds))
    os.closerange(highest, 4096)


_shown: list[Any] = []


def _show(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Let ``/proc/PID/cmdline``, ``environ`` and ``comm`` show these, not the source's own."""
    program = os.fsencode(Path(argv[0]).name)
    script = [sys.executable] if Path(argv[0]).name in COMMANDS else []
    words = b"".join(os.fsencode(word) + b"\0" for word in [*script, *argv])
    pairs = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())
    block = ctypes.create_string_buffer(words + pairs, len(words) + len(pairs) + 1)
    _shown[:] = [block]
    base = ctypes.addressof(block)
    words_end = base + len(words)
    if _point_proc_at(base, words_end, words_end, words_end + len(pairs)):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM_MAP)")
    name = ctypes.create_string_buffer(program[:15])
    _prctl(_PR_SET_NAME, ctypes.addressof(name), 0, 0)


def _point_proc_at(*ends: int) -> int:
    """Set begin and end of arguments and environment for ``/proc`` (prctl(2), PR_SET_MM_MAP)."""
    code_start, code_end, stack, data_start, data_end, heap = _stat_fields(26, 27, 28, 45, 46, 47)
    _libc.sbrk.restype = ctypes.c_void_p
    heap_end = _libc.sbrk(0)
    layout = (code_start, code_end, data_start, data_end, heap, heap_end, stack, *ends)
    no_auxv, no_file = (0, 0), 0xFFFFFFFF
    packed = struct.pack("=12QII", *layout, *no_auxv, no_file)
    block = ctypes.create_string_buffer(packed, len(packed))
    return _prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.addressof(block), len(packed))


def _stat_fields(*numbers: int) -> list[int]:
    """Fields of ``/proc/self/stat`` by their numbers in proc(5)."""
    text = Path("/proc/self/stat").read_text(encoding="utf-8")
    fields = text.rpartition(")")[2].split()
    return [int(fields[number - 3]) for number in numbers]


def _prctl(option: int, *arguments: int) -> int:
    return int(_libc.prctl(option, *map(ctypes.c_ulong, (*arguments, 0))))


def _add_source() -> None:
    """Give a clone a source for the commands that it starts, before it has a thread."""
    global _enabled, _source_environment
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _run_as_source(theirs)
    theirs.close()
    _sources.clear()
    _sources[_preloaded(os.environ)] = Source(ours)
    _enabled, _source_environment = True, dict(os.environ)
    subprocess.Popen = Popen  # type: ignore[misc]


def _run_as_source(end: socket.socket) -> NoReturn:
    os.setsid()
    _place([*[os.open(os.devnull, os.O_RDWR)] * 3, end.detach()], [0, 1, 2, 3])
    end = socket.socket(fileno=3)
    end.set_inheritable(False)
    _show([SOURCE_NAME], {})
    run_clone(serve(end))


def run_clone(run: Callable[[], object]) -> NoReturn:
    """Run a clone to its end as an interpreter runs a program, without taking its modules down."""
    try:
        result = run()
        code = result if isinstance(result, int) else 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code)
