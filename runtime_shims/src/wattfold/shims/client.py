"""wattfold.h for Python: the shim of the own process, if there is one.

The shim is preloaded into the interpreter by the agent; it is found here by the name of its table
of functions, and called through ctypes. Without it every answer is that of an unmanaged program. No
function of Python is registered as a callback: a thread of the shim would have to enter the
interpreter, also while it ends.
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
    """The cores the job may use on this node."""

    seq: int
    cpus: CpuSet


class Shim(Protocol):
    """What a Python program may ask and tell."""

    def changes(self) -> int:
        """Grows with every change of the mask."""
        ...

    def cores(self) -> int:
        """Number of cores to use now, at least 1."""
        ...

    def mask(self) -> Mask | None:
        """The mask in force, None when none was received."""
        ...

    def progress(self, done: float, total: float) -> None:
        """Reports work done and work in all, in any unit; 0 in all means unknown."""
        ...

    def phase(self, name: str) -> None:
        """Names the phase the program is in; empty for none."""
        ...

    def request(self, cores: int) -> bool:
        """Asks for a number of cores, 0 takes the wish back. Whether anybody may hear it."""
        ...

    def version(self) -> str:
        """Version of the shim at work, empty without one."""
        ...


class NoShim:
    """The answers of an unmanaged program."""

    def changes(self) -> int:
        return 0

    def cores(self) -> int:
        return max(1, len(os.sched_getaffinity(0)))

    def mask(self) -> Mask | None:
        return None

    def progress(self, done: float, total: float) -> None:
        """Nobody hears it."""

    def phase(self, name: str) -> None:
        """Nobody hears it."""

    def request(self, cores: int) -> bool:  # noqa: ARG002 - it is part of the interface
        return False

    def version(self) -> str:
        return ""


class PreloadedShim:
    """The shim in this process."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        # The first look at a mask starts the helper thread.
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
    """The shim of this process, or the answers of an unmanaged one."""
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
