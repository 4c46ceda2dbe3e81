"""Protocol between a remote shell (`wattfold rsh`) and the step host of a job, as bytes.

The remote shell sends one line with the job ID to the agent of a node. The agent hands the
connection to the step host of that job. From then on both sides send frames: one byte of kind, a
little-endian u32 of length, and the body. The host sends a challenge, the shell proves that it has
the key of the job, and the host proves the same. Only then the shell sends its request:

    shell                      host
    job line ->
                               <- CHALLENGE  nonce
    PROOF  nonce, mac ->
                               <- WELCOME  mac
    WINDOW? REQUEST ->
    STDIN*, STDIN_END ->       <- STDOUT*, STDERR*, CREDIT*
    SIGNAL*, WINDOW* ->        <- EXIT
                               or at any time <- ERROR

A WINDOW before the request asks for a terminal of this size. Later ones resize it.

The socket itself limits the rate of output. Input has its own window, which CREDIT extends by the
bytes that the program has read. So signals and the end of the connection never wait behind input.
This module opens no sockets. Invalid bytes raise StepProtocolError, and the connection is closed.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from wattfold.contract.ids import JobId, valid_name

NONCE_BYTES = 32
MAC_BYTES = 32
KEY_BYTES = 32
DATA_BYTES_MAX = 65_536
REQUEST_BYTES_MAX = 2 * 1024 * 1024
CONTROL_BYTES_MAX = 1024
INPUT_WINDOW_BYTES = 256 * 1024
"""Maximum input that a shell has sent and the program has not yet read."""
JOB_LINE_BYTES_MAX = 80

_JOB_LINE = b"WFSTEP1 "
_HEADER = struct.Struct("<BI")
_EXIT = struct.Struct("<II")
_CREDIT = struct.Struct("<I")
_WINDOW = struct.Struct("<HH")


class StepProtocolError(ValueError):
    """Bytes that the other side may not send, or values that cannot be encoded."""


class FrameKind(IntEnum):
    """Kind of a frame."""

    CHALLENGE = 1
    PROOF = 2
    WELCOME = 3
    REQUEST = 4
    STDIN = 5
    STDIN_END = 6
    SIGNAL = 7
    STDOUT = 8
    STDERR = 9
    CREDIT = 10
    EXIT = 11
    ERROR = 12
    WINDOW = 13


FROM_SHELL_PROVEN = frozenset({FrameKind.REQUEST, FrameKind.WINDOW})
FROM_SHELL_RUNNING = frozenset(
    {FrameKind.STDIN, FrameKind.STDIN_END, FrameKind.SIGNAL, FrameKind.WINDOW}
)
FROM_HOST_RUNNING = frozenset(
    {FrameKind.STDOUT, FrameKind.STDERR, FrameKind.CREDIT, FrameKind.EXIT, FrameKind.ERROR}
)
_BYTES_MAX = {
    FrameKind.REQUEST: REQUEST_BYTES_MAX,
    FrameKind.STDIN: DATA_BYTES_MAX,
    FrameKind.STDOUT: DATA_BYTES_MAX,
    FrameKind.STDERR: DATA_BYTES_MAX,
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its kind and body."""

    kind: FrameKind
    body: bytes = b""

    def pack(self) -> bytes:
        """Return its bytes. Raises StepProtocolError for a body that is too long."""
        limit = _BYTES_MAX.get(self.kind, CONTROL_BYTES_MAX)
        if len(self.body) > limit:
            raise StepProtocolError(f"{self.kind.name} of {len(self.body)} bytes, at most {limit}")
        return _HEADER.pack(self.kind, len(self.body)) + self.body


class FrameReader:
    """Parser of a stream of frames. It rejects kinds outside ``expected`` at their header."""

    def __init__(self, expected: Iterable[FrameKind]) -> None:
        self.expected = frozenset(expected)
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._data += data

    def frames(self) -> Iterator[Frame]:
        """Yield complete frames; ``expected`` may change between two. Raises StepProtocolError."""
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if len(self._data) < _HEADER.size:
            return None
        number, length = _HEADER.unpack_from(self._data)
        try:
            kind = FrameKind(number)
        except ValueError:
            raise StepProtocolError(f"frame of unknown kind {number}") from None
        if kind not in self.expected:
            raise StepProtocolError(f"unexpected {kind.name}")
        limit = _BYTES_MAX.get(kind, CONTROL_BYTES_MAX)
        if length > limit:
            raise StepProtocolError(f"{kind.name} of {length} bytes, at most {limit}")
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        body = bytes(memoryview(self._data)[_HEADER.size : end])
        del self._data[:end]
        return Frame(kind, body)


def job_line(job: JobId) -> bytes:
    """Return the first line of a connection."""
    return _JOB_LINE + job.encode("ascii") + b"\n"


def parse_job_line(line: bytes) -> JobId:
    """Return the job of a complete first line. Raises StepProtocolError."""
    text = line.removeprefix(_JOB_LINE).removesuffix(b"\n").decode("ascii", "replace")
    whole = line.startswith(_JOB_LINE) and line.endswith(b"\n")
    if not whole or not valid_name(text):
        raise StepProtocolError("not the first line of a remote shell")
    return JobId(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Handshake values. Both sides prove that they hold the key of one job on one node."""

    key: bytes
    job: str
    node: str
    host_nonce: bytes
    shell_nonce: bytes

    def shell_mac(self) -> bytes:
        """Return the proof of the remote shell."""
        return self._mac(b"shell")

    def host_mac(self) -> bytes:
        """Return the proof of the step host."""
        return self._mac(b"host")

    def _mac(self, role: bytes) -> bytes:
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        parts = (role, self.job.encode(), self.node.encode(), self.host_nonce, self.shell_nonce)
        for part in parts:
            mac.update(len(part).to_bytes(4, "little") + part)
        return mac.digest()


def same_mac(one: bytes, other: bytes) -> bool:
    """Compare two proofs in constant time."""
    return hmac.compare_digest(one, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """Request to run a command: a line for the account's shell, its folder and added variables.

    Without a command, the shell itself runs. An empty folder stands for the folder of the job.
    """

    command: bytes
    cwd: bytes
    env: tuple[tuple[bytes, bytes], ...] = ()

    def pack(self) -> bytes:
        """Return the fields, each terminated by NUL. Raises StepProtocolError."""
        fields = [self.command, self.cwd, *(name + b"=" + value for name, value in self.env)]
        for name, _ in self.env:
            if not name or b"=" in name:
                raise StepProtocolError(f"{name!r} is not a valid variable name")
        if any(b"\0" in field for field in fields):
            raise StepProtocolError("a NUL byte in the command, the folder or a variable")
        return b"".join(field + b"\0" for field in fields)

    @classmethod
    def unpack(cls, body: bytes) -> StepRequest:
        """Return the request in a body. Raises StepProtocolError."""
        fields = body.split(b"\0")
        if len(fields) < 3 or fields[-1]:
            raise StepProtocolError("the request is truncated")
        pairs = [field.partition(b"=") for field in fields[2:-1]]
        if any(not name or not equals for name, equals, _ in pairs):
            raise StepProtocolError("a variable without a name or a value")
        env = tuple((name, value) for name, _, value in pairs)
        return cls(command=fields[0], cwd=fields[1], env=env)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """Size of a terminal in characters; 0 = unknown."""

    rows: int
    columns: int

    def pack(self) -> bytes:
        """Return its bytes."""
        return _WINDOW.pack(min(self.rows, 0xFFFF), min(self.columns, 0xFFFF))

    @classmethod
    def unpack(cls, body: bytes) -> TerminalSize:
        """Return the size in a body. Raises StepProtocolError."""
        if len(body) != _WINDOW.size:
            raise StepProtocolError(f"WINDOW has {len(body)} bytes, which is not a valid length")
        rows, columns = _WINDOW.unpack(body)
        return cls(rows=rows, columns=columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExit:
    """End of the command: its exit code, or the signal that killed it."""

    code: int = 0
    signal: int = 0

    @property
    def status(self) -> int:
        """Status as in a shell: 128 + the signal, or else the code."""
        return 128 + self.signal if self.signal else self.code

    def pack(self) -> bytes:
        """Return its bytes."""
        return _EXIT.pack(self.code & 0xFF, self.signal & 0x7F)

    @classmethod
    def unpack(cls, body: bytes) -> StepExit:
        """Return the exit in a body. Raises StepProtocolError."""
        if len(body) != _EXIT.size:
            raise StepProtocolError(f"EXIT has {len(body)} bytes, which is not a valid length")
        code, signal = _EXIT.unpack(body)
        if code > 255 or signal > 127:
            raise StepProtocolError(f"exit code {code}, signal {signal}")
        return cls(code=code, signal=signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """Error that prevents a step. ``not_yet``: the same call may work a moment later."""

    text: str
    not_yet: bool = False

    def frame(self) -> Frame:
        """Return the frame of this error; a long text is truncated."""
        text = self.text.encode("utf-8", "replace")[: CONTROL_BYTES_MAX - 1]
        return Frame(FrameKind.ERROR, bytes([self.not_yet]) + text)

    @classmethod
    def unpack(cls, body: bytes) -> StepError:
        """Return the error in a body, without characters that would control a terminal."""
        text = body[1:].decode("utf-8", "replace")
        return cls(
            text="".join(c if c.isprintable() else "?" for c in text), not_yet=body[:1] == b"\1"
        )


def pack_credit(taken_bytes: int) -> bytes:
    """Return the body of a CREDIT."""
    return _CREDIT.pack(taken_bytes)


def unpack_credit(body: bytes) -> int:
    """Return the number of input bytes that were read. Raises StepProtocolError."""
    if len(body) != _CREDIT.size:
        raise StepProtocolError(f"CREDIT has {len(body)} bytes, which is not a valid length")
    (taken_bytes,) = _CREDIT.unpack(body)
    return int(taken_bytes)


_OF_A_NODE = frozenset(
    b"DBUS_SESSION_BUS_ADDRESS DISPLAY HOME HOST HOSTNAME LD_PRELOAD LOGNAME MAIL OLDPWD PWD SHELL"
    b" SHLVL TEMP TMP TMPDIR USER XAUTHORITY XDG_RUNTIME_DIR _ ZE_AFFINITY_MASK".split()
)


def of_a_node(name: bytes) -> bool:
    """Whether a variable is meaningful only on its own node, so it is not carried to others."""
    return (
        name in _OF_A_NODE
        or name.startswith((b"WATTFOLD_", b"SSH_", b"XDG_SESSION_"))
        or name.endswith(b"_VISIBLE_DEVICES")
    )


def carried(env: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the variables that a remote shell carries to the other node.

    It leaves out variables that belong to their own node: by name, because the agent there set them
    (the number of threads), or because they point into the job's folder there (host files).
    """
    folder = env.get(b"WATTFOLD_STEPS", b"")
    threads = env.get(b"WATTFOLD_LAUNCH_CPUS", b"")
    return tuple(
        (name, value)
        for name, value in env.items()
        if name
        and not of_a_node(name)
        and not (folder and value.startswith(folder))
        and not (name == b"OMP_NUM_THREADS" and value == threads)
    )
