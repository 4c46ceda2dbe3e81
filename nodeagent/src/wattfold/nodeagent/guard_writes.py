"""Writes of the guard: limits of zones, sockets and GPUs. It uses only the standard library."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct

_STUCK_S = 10
"""A device that blocks a write must not keep the lock from a new agent."""
_HSMP = "/dev/hsmp"
_HSMP_MESSAGE = struct.Struct("=IHH8IHxx")
_HSMP_COMMAND = 3 << 30 | _HSMP_MESSAGE.size << 16 | 0xF8 << 8
"""As in adapters/devices/hsmp.py, which this module cannot import."""
_GPUS = "/dev/nvidiactl/"
"""As in adapters/devices/nvml.py."""
GPU_LIBRARY = "libnvidia-ml.so.1"
_GPU_S = 6


def attempt_writes(writes: list[list[str]]) -> list[tuple[list[str], str]]:
    """Perform writes, each separately. Returns the failed writes with their reasons."""
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
    """Perform writes to GPUs in a child process, because a driver may hang or crash its caller."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        # A hanging child must not hold the inherited lock.
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
    """Set limits and persistence modes. Returns the error of each write, or an empty text."""
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


def _write(path: str, text: str) -> str:
    """Write one value unless the file already has it. Returns the error, or an empty text."""
    try:
        if path.startswith(_HSMP + "/"):
            _limit_socket(path, int(text) // 1000)
            return ""
        if _holds(path, text):
            return ""
        # Never created: a zone or group that no longer exists has nothing to limit.
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _limit_socket(path: str, limit_mw: int) -> None:
    """Send a limit to a socket of an AMD processor, which has no file for it."""
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
