"""wattfold.h for Python: the shim of this process, if there is one.

The agent preloads the shim into the interpreter. This module finds it by the name of its table of
functions, and calls it through ctypes. Without a shim, every answer is that of an unmanaged
program. No Python function is registered as a callback: a thread of the shim would have to enter
the interpreter, even while it ends.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.cpuset import CpuSet

ABI_VERSION = 2
_WORDS = 8192 // 64


class _Mask(ctypes.Structure):
    _fields_ = (
        ("seq", ctypes.c_uint64),
        ("cores", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("bits", ctypes.c_uint64 * _WORDS),
    )


class _Table(ctypes.Structure):
    """``struct wattfold_interface`` of csrc/interface.h."""

    _fields_ = (
        ("bytes", ctypes.c_uint32),
        ("changes", ctypes.POINTER(ctypes.c_uint32)),
        ("take", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_mask", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Mask))),
        ("cores", ctypes.CFUNCTYPE(ctypes.c_uint)),
        ("on_change", ctypes.c_void_p),
        ("off_change", ctypes.c_void_p),
        ("progress", ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_double)),
        ("phase", ctypes.CFUNCTYPE(None, ctypes.c_char_p)),
        ("request", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)),
        ("version", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Cores that the job may use on this node."""

    seq: int
    cpus: CpuSet


class Shim(Protocol):
    """Calls and reports of a Python program to its shim."""

    def changes(self) -> int:
        """Return a number that grows with every change of the mask."""
        ...

    def cores(self) -> int:
        """Return the number of cores to use now, at least 1."""
        ...

    def mask(self) -> Mask | None:
        """Return the mask in force, None if none was received."""
        ...

    def progress(self, done: float, total: float) -> None:
        """Report done and total work, in any unit; total 0 means unknown."""
        ...

    def phase(self, name: str) -> None:
        """Report the phase of the program; empty for none."""
        ...

    def request(self, cores: int) -> bool:
        """Request cores, 0 withdraws the request; return whether an agent may receive it."""
        ...

    def version(self) -> str:
        """Return the version of the active shim, empty without a shim."""
        ...


class NoShim:
    """Answers of an unmanaged program."""

    def changes(self) -> int:
        return 0

    def cores(self) -> int:
        return max(1, len(os.sched_getaffinity(0)))

    def mask(self) -> Mask | None:
        return None

    def progress(self, done: float, total: float) -> None:
        """Do nothing: there is no agent."""

    def phase(self, name: str) -> None:
        """Do nothing: there is no agent."""

    def request(self, cores: int) -> bool:  # noqa: ARG002 - it is part of the interface
        return False

    def version(self) -> str:
        return ""


class PreloadedShim:
    """The preloaded shim in this process."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        # The first request for a mask starts the helper thread.
        self.mask()

    def changes(self) -> int:
        return int(self._table.changes[0])

    def cores(self) -> int:
        return int(self._table.cores())

    def mask(self) -> Mask | None:
        mask = _Mask()
        if not self._table.get_mask(ctypes.byref(mask)):
            return None
        cpus = (
            64 * word + bit
            for word, bits in enumerate(mask.bits)
            if bits
            for bit in range(64)
            if bits >> bit & 1
        )
        return Mask(seq=mask.seq, cpus=CpuSet.of(cpus))

    def progress(self, done: float, total: float) -> None:
        self._table.progress(done, total)

    def phase(self, name: str) -> None:
        self._table.phase(name.encode("ascii", "replace"))

    def request(self, cores: int) -> bool:
        if not 0 <= cores < 2**32:
            raise ValueError(f"cores must be from 0 to 2^32 - 1, got {cores}")
        return bool(self._table.request(cores))

    def version(self) -> str:
        return bytes(self._table.version()).decode()


def connect() -> Shim:
    """Return the shim of this process, or the answers of an unmanaged program."""
    try:
        ask = ctypes.CDLL(None).wattfold_interface
    except AttributeError:
        return NoShim()
    ask.restype = ctypes.POINTER(_Table)
    ask.argtypes = [ctypes.c_uint32]
    table = ask(ABI_VERSION)
    if not table or table.contents.bytes < ctypes.sizeof(_Table):
        return NoShim()
    return PreloadedShim(table.contents)
