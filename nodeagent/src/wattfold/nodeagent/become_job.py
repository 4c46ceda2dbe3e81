"""Steps of the child of a keeper until it executes the program of the job.

The child enters its control group, sets limits, changes to the account of the user and opens the
output files. The keeper sends ``go`` before the program starts. If a step fails, the child removes
the files that it created, and reports the step. It uses only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import stat
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None)


class JobStartError(Exception):
    """A step that failed. ``report`` is the message for the agent."""

    def __init__(self, what: str, path: str, number: int) -> None:
        super().__init__(what)
        self.report = {"what": what, "path": path, "errno": number}


def become_job(order: dict[str, Any], to_keeper: int, go_reader: int) -> NoReturn:
    """Become the job. It is confined before its first instruction."""
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
        _store_script(order)
        program = _find_program(order)
        os.write(to_keeper, b'{"ready": true}\n')
        if os.read(go_reader, 1) != b"g":
            raise JobStartError("start", "", 0)
        for fd in outputs:
            if stat.S_ISREG(os.fstat(fd).st_mode) and not order["keep_output"]:
                os.ftruncate(fd, 0)
        for target, fd in enumerate((os.open("/dev/null", os.O_RDONLY), *outputs)):
            os.dup2(fd, target)
        try:
            os.execve(program, order["argv"], order["env"])  # noqa: S606 - this is the job
        except OSError as error:
            raise JobStartError("execute", program, error.errno or 0) from None
    except JobStartError as failure:
        report = failure.report
    except BaseException as error:  # noqa: BLE001 - the agent reports any error
        report = {"what": f"prepare ({error})", "path": "", "errno": getattr(error, "errno", 0)}
    for path in made:
        os.unlink(path)
    os.write(to_keeper, json.dumps(report).encode() + b"\n")
    os._exit(127)


def _default_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        # The module `signal` needs more time for all signals than a fork.
        _LIBC.signal(number, None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _confine(order: dict[str, Any]) -> None:
    # The affinity comes first: inside a cpuset a mask outside it would be refused.
    try:
        os.sched_setaffinity(0, order["affinity"])
    except OSError as error:
        raise JobStartError("set the affinity", str(order["affinity"]), error.errno or 0) from None
    for path in order["procs_paths"]:
        try:
            _write_file(path, b"0")
        except OSError as error:
            raise JobStartError("enter the cgroup", path, error.errno or 0) from None


def _write_file(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def _limit(order: dict[str, Any]) -> None:
    # The agent has raised its own limit. Jobs get the usual limit, or the limit of their shell.
    _set_soft(resource.RLIMIT_NOFILE, order["files_soft_max"])
    for name, soft in order["limits"]:
        _set_soft(getattr(resource, f"RLIMIT_{name.upper()}"), soft)
    most: int = order["processes_max"]
    if most:
        soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = _least(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (_least(most, soft), most))


def _set_soft(which: int, soft: int | None) -> None:
    """Set a soft limit, at most the hard limit here; None = no limit."""
    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (hard if soft is None else _least(soft, hard), hard))


def _least(value: int, limit: int) -> int:
    return value if limit == resource.RLIM_INFINITY else min(value, limit)


def _be_killable() -> None:
    # A service manager may protect the agent from the out-of-memory killer, but not its jobs.
    path = "/proc/self/oom_score_adj"
    with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
        if int(file.read()) < 0:
            _write_file(path, b"0")


def _become_user(order: dict[str, Any]) -> None:
    os.umask(order["umask"])
    if order["uid"] is None:
        return
    try:
        os.initgroups(order["user"], order["gid"])
        os.setgid(order["gid"])
        os.setuid(order["uid"])
    except OSError as error:
        raise JobStartError("become the user", order["user"], error.errno or 0) from None


def _open_files(order: dict[str, Any], made: list[str]) -> list[int]:
    try:
        os.chdir(order["cwd"])
    except OSError as error:
        raise JobStartError("enter the directory", order["cwd"], error.errno or 0) from None
    fds = []
    for path in (order["stdout_path"], order["stderr_path"]):
        try:
            fds.append(_open_output(path, made))
        except OSError as error:
            for other in made:
                os.unlink(other)
            made.clear()
            raise JobStartError("open the output", path, error.errno or 0) from None
    return fds


def _make_folder(path: str) -> None:
    if not path:
        return
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
        raise JobStartError("make the snapshot folder", path, error.errno or 0) from None


def _store_script(order: dict[str, Any]) -> None:
    """Store the script of the job in memory, and let the program of its first line run it."""
    text: str = order["script"]
    if not text:
        return
    try:
        # Inherited by the job: only its own account can open it through /proc.
        fd = os.memfd_create("wattfold-script", 0)
        with open(fd, "wb", closefd=False) as file:
            file.write(text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise JobStartError("store the script", "", error.errno or 0) from None
    interpreter = text.partition("\n")[0].removeprefix("#!").split(maxsplit=1)
    order["argv"] = [*interpreter, f"/proc/self/fd/{fd}", *order["argv"][1:]]


def _open_output(path: str, made: list[str]) -> int:
    # Append mode, so that two descriptors of one file do not overwrite each other.
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
    raise JobStartError("find the command", name, worst)
