"""Port to the files of a powercap tree: read and write one attribute of one zone.

A zone is named by its folder, ``intel-rapl:0:1``, at any depth. Errors are those of the system
calls.
"""

from __future__ import annotations

import os
import re
import time
import weakref
from pathlib import Path
from typing import Protocol

_ATTRIBUTE_BYTES_MAX = 4096
"""An attribute of sysfs is at most one page."""
EMULATED_GPU = "emulated-gpu:"
"""Name of emulated GPU zones, which no kernel uses."""
_FOLDER = re.compile(rf"(intel-rapl(-mmio)?:[0-9a-f]+(:[0-9a-f]+)?|{EMULATED_GPU}[0-9]+)\Z")


class ZoneFiles(Protocol):
    """Attributes of zones."""

    def folders(self) -> list[str]:
        """Return the zones of all interfaces, those of the main interface first."""
        ...

    def read(self, folder: str, file: str) -> str:
        """Return the text without its newline. Raises OSError."""
        ...

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the text and its age in nanoseconds. Raises OSError."""
        ...

    def write(self, folder: str, file: str, text: str) -> None:
        """Replace the value. Raises OSError."""
        ...

    def may(self, folder: str, file: str, mode: int) -> bool:
        """Whether this account has this access (os.R_OK, os.W_OK), determined without a write."""
        ...

    def path(self, folder: str, file: str = "") -> Path:
        """Return the path, for other processes and for people."""
        ...


class RealFiles:
    """A tree on disk: sysfs, or a tree of that shape.

    ``stamped``: counters move in steps, and their files carry the monotonic time of the last step,
    as in an emulated tree. Hardware counters move continuously and are as new as the reading.
    """

    def __init__(self, root: Path, *, stamped: bool = False) -> None:
        self.root = root
        self._stamped = stamped
        self._paths: dict[str, Path] = {}
        self._found: dict[tuple[str, str], Path] = {}
        self._kept: dict[tuple[str, str], int] = {}
        weakref.finalize(self, _close, self._kept)

    def folders(self) -> list[str]:
        """The zones of all interfaces, those of the main one first."""
        # Children are links beside their parents in sysfs; a copied tree may have them inside only.
        patterns = ("intel-rapl*:*", "intel-rapl*:*/intel-rapl*:*", f"{EMULATED_GPU}*")
        for pattern in patterns:
            for path in sorted(self.root.glob(pattern)):
                if _FOLDER.match(path.name):
                    self._paths.setdefault(path.name, path)
        self._found.clear()
        present = [name for name, path in self._paths.items() if path.is_dir()]
        return sorted(present, key=lambda name: (name.startswith("intel-rapl-mmio"), name))

    def read(self, folder: str, file: str) -> str:
        """Return the text without its newline. Raises OSError."""
        if not self._stamped:
            return self._read_kept(folder, file)
        fd = os.open(self._name(folder, file), os.O_RDONLY)
        try:
            return _text(fd)
        finally:
            os.close(fd)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the text and its age in nanoseconds. Raises OSError."""
        if not self._stamped:
            return self._read_kept(folder, file), 0
        fd = os.open(self._name(folder, file), os.O_RDONLY)
        try:
            text = _text(fd)
            return text, max(time.monotonic_ns() - os.fstat(fd).st_mtime_ns, 0)
        finally:
            os.close(fd)

    def _read_kept(self, folder: str, file: str) -> str:
        """Read a file that stays open while it exists. To open it takes most of a reading."""
        fd = self._kept.get((folder, file))
        if fd is not None:
            try:
                data = os.pread(fd, _ATTRIBUTE_BYTES_MAX, 0)
                # sysfs refuses to read what is gone; other trees do not.
                if os.fstat(fd).st_nlink:
                    return data.decode("ascii", "replace").strip()
            except OSError:
                # The zone may be back under another descriptor.
                pass
            os.close(self._kept.pop((folder, file)))
        fd = self._kept[folder, file] = os.open(self._name(folder, file), os.O_RDONLY)
        return _decoded(os.pread(fd, _ATTRIBUTE_BYTES_MAX, 0))

    def write(self, folder: str, file: str, text: str) -> None:
        """Replace the value. Raises OSError."""
        fd = os.open(self._name(folder, file), os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        try:
            os.write(fd, text.encode("ascii"))
        finally:
            os.close(fd)

    def may(self, folder: str, file: str, mode: int) -> bool:
        """Whether this account may use the file so (os.R_OK, os.W_OK), told without trying."""
        return may(self.path(folder, file), mode)

    def path(self, folder: str, file: str = "") -> Path:
        """Where it is."""
        # Put together once, as ten times a second is often; opened anew, as a zone may come back.
        found = self._found.get((folder, file))
        if found is None:
            zone = self._paths.get(folder, self.root / folder)
            found = self._found[folder, file] = zone / file
        return found

    def _name(self, folder: str, file: str) -> str:
        return str(self.path(folder, file))


def _text(fd: int) -> str:
    return _decoded(os.read(fd, _ATTRIBUTE_BYTES_MAX))


def _decoded(data: bytes) -> str:
    return data.decode("ascii", "replace").strip()


def _close(files: dict[tuple[str, str], int]) -> None:
    while files:
        os.close(files.popitem()[1])


def may(path: Path, mode: int) -> bool:
    """Whether this account has this access (os.R_OK, os.W_OK) to a file.

    In sysfs the permission bits apply to root as well, which access(2) does not report.
    """
    try:
        bits = path.stat().st_mode
    except OSError:
        return False
    anyone = 0o222 if mode == os.W_OK else 0o444
    return bool(bits & anyone) and os.access(path, mode, effective_ids=True)
