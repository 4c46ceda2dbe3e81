"""Functions that the worker runs in its tests, in a module that the worker can import."""

import os
import signal
import threading
from pathlib import Path

WARMED: list[int] = []


def warm_up() -> None:
    WARMED.append(os.getpid())


def broken_warm_up() -> None:
    raise RuntimeError("cannot warm up")


def warmed() -> list[int]:
    return WARMED


def add(left: int, right: int) -> int:
    return left + right


def pid() -> int:
    return os.getpid()


def echo(data: bytes) -> bytes:
    return data


def printing() -> str:
    os.write(1, b"noise\n")
    print("more noise", flush=True)
    return "quiet"


def fail() -> None:
    raise ValueError("the reason")


def unpicklable() -> object:
    return threading.Lock()


def abort() -> None:
    os.write(2, b"assertion failed: in the library\n")
    os.abort()


def leave() -> None:
    os._exit(3)


def hang(started: str) -> None:
    """Create a file as a sign of the start, then never return."""
    Path(started).write_text(str(os.getpid()))
    threading.Event().wait()


def interrupt_self() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def eat(size: int) -> int:
    """Allocate this number of bytes."""
    return len(bytearray(size))


def large(size: int) -> bytes:
    return bytes(size)
