"""What a remote shell (`wattfold rsh`) and the step host of a job say to each other, as bytes.

The remote shell sends one line that names the job to the agent of a node, which hands the
connection to the step host of that job and is then out of it. From there on there are frames: one
byte of kind, a little-endian u32 of length, the body. The host challenges, the shell proves that it
has the key of the job, the host proves the same, and only then the shell says what to run:

    shell                      host
    job line ->
                               <- CHALLENGE  nonce
    PROOF  nonce, mac ->
                               <- WELCOME  mac
    REQUEST ->
    STDIN*, STDIN_END ->       <- STDOUT*, STDERR*, CREDIT*
    SIGNAL* ->                 <- EXIT
                               or at any time <- ERROR

Output is slowed by the socket itself. Input has a window of its own (CREDIT gives back what the
program has taken), so that signals and the end of the connection never wait behind it. No sockets
here. Bytes that cannot be raise StepProtocolError, and the connection is closed.
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
"""Input that a shell may have sent and the program not yet taken."""
JOB_LINE_BYTES_MAX = 80

_JOB_LINE = b"WFSTEP1 "
_HEADER = struct.Struct("<BI")
_EXIT = struct.Struct("<II")
_CREDIT = struct.Struct("<I")


class StepProtocolError(ValueError):
    """Bytes that the other side may not send, or values that have no bytes."""


class FrameKind(IntEnum):
    """What a frame says."""

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


FROM_SHELL_RUNNING = frozenset({FrameKind.STDIN, FrameKind.STDIN_END, FrameKind.SIGNAL})
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
    """One frame."""

    kind: FrameKind
    body: bytes = b""

    def pack(self) -> bytes:
        """Its bytes. Raises StepProtocolError for a body that is too long."""
        limit = _BYTES_MAX.get(self.kind, CONTROL_BYTES_MAX)
        if len(self.body) > limit:
            raise StepProtocolError(f"{self.kind.name} of {len(self.body)} bytes, at most {limit}")
        return _HEADER.pack(self.kind, len(self.body)) + self.body


class FrameReader:
    """Frames out of a stream. Only the kinds in ``expected`` are taken, from their header on."""

    def __init__(self, expected: Iterable[FrameKind]) -> None:
        self.expected = frozenset(expected)
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Adds what has arrived."""
        self._data += data

    def frames(self) -> Iterator[Frame]:
        """Complete frames; ``expected`` may change between two. Raises StepProtocolError."""
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
    """What a connection begins with."""
    return _JOB_LINE + job.encode("ascii") + b"\n"


def parse_job_line(line: bytes) -> JobId:
    """The job of a complete first line. Raises StepProtocolError."""
    text = line.removeprefix(_JOB_LINE).removesuffix(b"\n").decode("ascii", "replace")
    whole = line.startswith(_JOB_LINE) and line.endswith(b"\n")
    if not whole or not valid_name(text):
        raise StepProtocolError("not the first line of a remote shell")
    return JobId(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What both sides prove to have: the key, for one job on one node, in one connection."""

    key: bytes
    job: str
    node: str
    host_nonce: bytes
    shell_nonce: bytes

    def shell_mac(self) -> bytes:
        """What the remote shell proves itself with."""
        return self._mac(b"shell")

    def host_mac(self) -> bytes:
        """What the step host proves itself with."""
        return self._mac(b"host")

    def _mac(self, role: bytes) -> bytes:
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        parts = (role, self.job.encode(), self.node.encode(), self.host_nonce, self.shell_nonce)
        for part in parts:
            mac.update(len(part).to_bytes(4, "little") + part)
        return mac.digest()


def same_mac(one: bytes, other: bytes) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(one, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """What to run: a line for the shell of the account, where, and what to add to its variables."""

    command: bytes
    cwd: bytes
    env: tuple[tuple[bytes, bytes], ...] = ()

    def pack(self) -> bytes:
        """Fields that end with NUL, as no value can hold one. Raises StepProtocolError."""
        fields = [self.command, self.cwd, *(name + b"=" + value for name, value in self.env)]
        for name, _ in self.env:
            if not name or b"=" in name:
                raise StepProtocolError(f"{name!r} is not a valid variable name")
        if any(b"\0" in field for field in fields):
            raise StepProtocolError("a NUL byte in the command, the folder or a variable")
        return b"".join(field + b"\0" for field in fields)

    @classmethod
    def unpack(cls, body: bytes) -> StepRequest:
        """The request of a body. Raises StepProtocolError."""
        fields = body.split(b"\0")
        if len(fields) < 3 or fields[-1]:
            raise StepProtocolError("the request is truncated")
        pairs = [field.partition(b"=") for field in fields[2:-1]]
        if any(not name or not equals for name, equals, _ in pairs):
            raise StepProtocolError("a variable without a name or a value")
        env = tuple((name, value) for name, _, value in pairs)
        return cls(command=fields[0], cwd=fields[1], env=env)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExit:
    """How the command ended: its exit code, or the signal that killed it."""

    code: int = 0
    signal: int = 0

    @property
    def status(self) -> int:
        """As a shell has it: 128 + the signal, else the code."""
        return 128 + self.signal if self.signal else self.code

    def pack(self) -> bytes:
        """Its bytes."""
        return _EXIT.pack(self.code & 0xFF, self.signal & 0x7F)

    @classmethod
    def unpack(cls, body: bytes) -> StepExit:
        """The end of a body. Raises StepProtocolError."""
        if len(body) != _EXIT.size:
            raise StepProtocolError(f"EXIT has {len(body)} bytes, which is not a valid length")
        code, signal = _EXIT.unpack(body)
        if code > 255 or signal > 127:
            raise StepProtocolError(f"exit code {code}, signal {signal}")
        return cls(code=code, signal=signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """Why nothing runs. ``not_yet``: the same call may work a moment later."""

    text: str
    not_yet: bool = False

    def frame(self) -> Frame:
        """The frame that says so; a long text is cut."""
        text = self.text.encode("utf-8", "replace")[: CONTROL_BYTES_MAX - 1]
        return Frame(FrameKind.ERROR, bytes([self.not_yet]) + text)

    @classmethod
    def unpack(cls, body: bytes) -> StepError:
        """The error of a body, with nothing in its text that a terminal would obey."""
        text = body[1:].decode("utf-8", "replace")
        return cls(
            text="".join(c if c.isprintable() else "?" for c in text), not_yet=body[:1] == b"\1"
        )


def pack_credit(taken_bytes: int) -> bytes:
    """The body of a CREDIT."""
    return _CREDIT.pack(taken_bytes)


def unpack_credit(body: bytes) -> int:
    """Bytes of input that were taken. Raises StepProtocolError."""
    if len(body) != _CREDIT.size:
        raise StepProtocolError(f"CREDIT has {len(body)} bytes, which is not a valid length")
    (taken_bytes,) = _CREDIT.unpack(body)
    return int(taken_bytes)


_OF_A_NODE = frozenset(
    b"DBUS_SESSION_BUS_ADDRESS DISPLAY HOME HOST HOSTNAME LD_PRELOAD LOGNAME MAIL OLDPWD PWD SHELL"
    b" SHLVL TEMP TMP TMPDIR USER XAUTHORITY XDG_RUNTIME_DIR _ ZE_AFFINITY_MASK".split()
)


def of_a_node(name: bytes) -> bool:
    """Whether a variable means something on its own node only, and is not carried to another."""
    return (
        name in _OF_A_NODE
        or name.startswith((b"WATTFOLD_", b"SSH_", b"XDG_SESSION_"))
        or name.endswith(b"_VISIBLE_DEVICES")
    )


def carried(env: Mapping[bytes, bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """What a remote shell takes along of its environment.

    Not what is of its node only: by its name, as the agent there has set it (the number of
    threads), or as it points into the folder the job has there (host files).
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
