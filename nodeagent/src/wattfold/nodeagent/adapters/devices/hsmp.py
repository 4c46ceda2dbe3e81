"""Socket power limits of AMD EPYC processors, through the Host System Management Port.

AMD packages have only energy in powercap. Their limit is set by a message to /dev/hsmp (driver
amd_hsmp, root only). It is shown here as another interface of the package, ``hsmp:N``, with a
long-term limit and no ``enabled``, because the limit always holds. Limits are in milliwatts. The
port reports no minimum and no averaging window. Socket N of the port counts as package-N.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from wattfold.nodeagent.adapters.devices.powercap_files import ZoneFiles

DEVICE = Path("/dev/hsmp")
# Documentation/arch/x86/amd_hsmp.rst and the processor programming references of AMD.
SET_LIMIT = 5
GET_LIMIT = 6
GET_LIMIT_MAX = 7
_MESSAGE = struct.Struct("=IHH8IHxx")
_COMMAND = 3 << 30 | _MESSAGE.size << 16 | 0xF8 << 8
_SOCKETS_MAX = 8
_UW_PER_MW = 1000
_VALUES = {"constraint_0_power_limit_uw": GET_LIMIT, "constraint_0_max_power_uw": GET_LIMIT_MAX}


class Hsmp(Protocol):
    """The port: sends a message to a socket."""

    def ask(self, socket: int, message: int) -> int:
        """Return the word of the answer. Raises OSError."""
        ...

    def tell(self, socket: int, message: int, word: int) -> None:
        """Send a word. Raises OSError."""
        ...


class HsmpDevice:
    """The port of this machine."""

    def __init__(self, device: Path = DEVICE) -> None:
        self._device = device

    def ask(self, socket: int, message: int) -> int:
        """Return the word of the answer. Raises OSError."""
        return self._send(os.O_RDONLY, socket, message, 0, words=1)

    def tell(self, socket: int, message: int, word: int) -> None:
        """Send a word. Needs write access to the device. Raises OSError."""
        self._send(os.O_RDWR, socket, message, 1, word)

    def _send(
        self, mode: int, socket: int, message: int, count: int, word: int = 0, words: int = 0
    ) -> int:
        fd = os.open(self._device, mode)
        try:
            buffer = bytearray(_MESSAGE.pack(message, count, words, word, *[0] * 7, socket))
            fcntl.ioctl(fd, _COMMAND, buffer)
        finally:
            os.close(fd)
        return int(_MESSAGE.unpack(buffer)[3])


class HsmpFiles:
    """The sockets of a port as zones with one limit each."""

    def __init__(self, port: Hsmp, device: Path = DEVICE) -> None:
        self._port = port
        self._device = device

    def folders(self) -> list[str]:
        """Return the sockets that answer."""
        found: list[str] = []
        for socket in range(_SOCKETS_MAX):
            try:
                self._port.ask(socket, GET_LIMIT)
            except OSError:
                break
            found.append(f"hsmp:{socket}")
        return found

    def read(self, folder: str, file: str) -> str:
        """Return the text of a virtual file. Raises OSError."""
        socket = _socket(folder)
        if file == "name":
            self._port.ask(socket, GET_LIMIT)
            return f"package-{socket}"
        if file == "constraint_0_name":
            return "long_term"
        if file not in _VALUES:
            raise FileNotFoundError(
                errno.ENOENT, "the HSMP driver does not provide this value", file
            )
        return str(self._port.ask(socket, _VALUES[file]) * _UW_PER_MW)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """Return the text of a virtual file, with age 0: there is no counter. Raises OSError."""
        return self.read(folder, file), 0

    def write(self, folder: str, file: str, text: str) -> None:
        """Set the limit in microwatts, rounded down to milliwatts. Raises OSError."""
        if _VALUES.get(file) != GET_LIMIT:
            raise PermissionError(errno.EACCES, "only the limit can be set", file)
        self._port.tell(_socket(folder), SET_LIMIT, int(text) // _UW_PER_MW)

    def may(self, folder: str, file: str, mode: int) -> bool:  # noqa: ARG002 - one device for all
        """Whether this account has this access to the port."""
        if file not in _VALUES:
            return False
        return os.access(self._device, mode | (os.R_OK if mode == os.W_OK else 0))

    def path(self, folder: str, file: str = "") -> Path:
        """Return a name below the device, which the guard understands."""
        return self._device / folder / file


class JoinedFiles:
    """Several sources of zones as one. A folder belongs to the first source that contains it."""

    def __init__(self, sources: Sequence[ZoneFiles]) -> None:
        self._sources = sources
        self._owners: dict[str, ZoneFiles] = {}

    def folders(self) -> list[str]:
        """Return the folders of all sources, in order."""
        found: list[str] = []
        for source in self._sources:
            for folder in source.folders():
                self._owners.setdefault(folder, source)
                found.append(folder)
        return found

    def read(self, folder: str, file: str) -> str:
        """See `ZoneFiles`."""
        return self._of(folder).read(folder, file)

    def read_counter(self, folder: str, file: str) -> tuple[str, int]:
        """See `ZoneFiles`."""
        return self._of(folder).read_counter(folder, file)

    def write(self, folder: str, file: str, text: str) -> None:
        """See `ZoneFiles`."""
        self._of(folder).write(folder, file, text)

    def may(self, folder: str, file: str, mode: int) -> bool:
        """See `ZoneFiles`."""
        return self._of(folder).may(folder, file, mode)

    def path(self, folder: str, file: str = "") -> Path:
        """See `ZoneFiles`."""
        return self._of(folder).path(folder, file)

    def _of(self, folder: str) -> ZoneFiles:
        return self._owners.get(folder, self._sources[0])


def with_hsmp(files: ZoneFiles, device: Path = DEVICE) -> ZoneFiles:
    """Return the zones, joined with those of this machine's HSMP if it has one."""
    if not device.exists():
        return files
    return JoinedFiles([files, HsmpFiles(HsmpDevice(device), device)])


def _socket(folder: str) -> int:
    return int(folder.rpartition(":")[2])
