"""BPF programs that deny devices to a control group of version 2, through bpf(2).

Type BPF_PROG_TYPE_CGROUP_DEVICE (Linux 4.15): the kernel calls it at every open and mknod of a
device, for the group of the process and the groups above. All must allow the access. The program
lives as long as its group, beyond restarts of the agent. Needs CAP_BPF and CAP_NET_ADMIN, or root.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from wattfold.nodeagent.core.gpus import DeviceNode

_SYSCALLS = {"x86_64": 321, "aarch64": 280, "ppc64le": 361, "s390x": 351, "riscv64": 280}
_PROG_LOAD, _PROG_ATTACH, _PROG_DETACH, _FD_BY_ID, _PROG_QUERY = 5, 8, 9, 13, 16
_TYPE_CGROUP_DEVICE, _ATTACH_CGROUP_DEVICE = 15, 6
_ALLOW_MULTI = 2
_ATTR_BYTES = 128
_PROGRAMS_MAX = 64
_CHARACTER_DEVICE = 2
# Opcodes: load a word of the context, AND with a number, jump if (not) equal, set, return.
_LOAD, _AND, _JUMP_NE, _JUMP_EQ, _SET, _EXIT = 0x61, 0x54, 0x55, 0x15, 0xB7, 0x95
_VERDICT, _CONTEXT, _TYPE, _MAJOR, _MINOR = range(5)


def deny(group: Path, devices: Collection[DeviceNode]) -> None:
    """Deny these character devices to a group, and no others. Raises OSError."""
    with _opened(group) as folder:
        for old in _attached(folder):
            try:
                _bpf(_PROG_DETACH, struct.pack("=III", folder, old, _ATTACH_CGROUP_DEVICE))
            finally:
                os.close(old)
        if not devices:
            return
        program = _loaded(instructions(devices))
        try:
            attach = (folder, program, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI)
            _bpf(_PROG_ATTACH, struct.pack("=IIII", *attach))
        finally:
            os.close(program)


def instructions(devices: Iterable[DeviceNode]) -> bytes:
    """Return the program: 0 (denied) for these devices, else 1.

    The context has access and type at 0, major at 4 and minor at 8. The kernel refuses the program
    for no devices, because the denial is then unreachable.
    """
    listed = list(devices)
    code = [
        _instruction(_LOAD, _TYPE, _CONTEXT, 0),
        _instruction(_AND, _TYPE, number=0xFFFF),
        _instruction(_LOAD, _MAJOR, _CONTEXT, 4),
        _instruction(_LOAD, _MINOR, _CONTEXT, 8),
        _instruction(_JUMP_NE, _TYPE, jump=2 * len(listed), number=_CHARACTER_DEVICE),
    ]
    for index, device in enumerate(listed):
        to_denial = 2 * (len(listed) - index - 1) + 2
        code.append(_instruction(_JUMP_NE, _MAJOR, jump=1, number=device.major))
        code.append(_instruction(_JUMP_EQ, _MINOR, jump=to_denial, number=device.minor))
    for verdict in (1, 0):
        code += [_instruction(_SET, _VERDICT, number=verdict), _instruction(_EXIT)]
    return b"".join(code)


def _instruction(
    opcode: int, to: int = 0, source: int = 0, offset: int = 0, *, jump: int = 0, number: int = 0
) -> bytes:
    return struct.pack("=BBhi", opcode, source << 4 | to, offset or jump, number)


def _loaded(code: bytes) -> int:
    """Return the descriptor of a program that the kernel has verified. Raises OSError."""
    text, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"Apache-2.0")
    count = len(code) // 8
    pointers = ctypes.addressof(text), ctypes.addressof(licence)
    return _bpf(_PROG_LOAD, struct.pack("=IIQQ", _TYPE_CGROUP_DEVICE, count, *pointers))


def _attached(folder: int) -> list[int]:
    """Return the descriptors of the programs attached to the group itself."""
    ids = (ctypes.c_uint32 * _PROGRAMS_MAX)()
    asked = (folder, _ATTACH_CGROUP_DEVICE, 0, 0, ctypes.addressof(ids), _PROGRAMS_MAX)
    attr = ctypes.create_string_buffer(struct.pack("=IIIIQI", *asked), _ATTR_BYTES)
    _call(_PROG_QUERY, attr)
    count = struct.unpack_from("=I", attr, 24)[0]
    return [_bpf(_FD_BY_ID, struct.pack("=I", ids[index])) for index in range(count)]


def _bpf(command: int, attr: bytes) -> int:
    return _call(command, ctypes.create_string_buffer(attr, _ATTR_BYTES))


def _call(command: int, attr: ctypes.Array[ctypes.c_char]) -> int:
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        why = f"the system call number of bpf(2) on {platform.machine()} is unknown"
        raise OSError(errno.ENOSYS, why)
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(number, command, ctypes.byref(attr), _ATTR_BYTES)
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"bpf command {command}: {os.strerror(code)}")
    return int(answer)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)
