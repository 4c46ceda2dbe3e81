"""Capabilities of root that the agent drops. Its keepers get all of them back at execution.

A limit on the bounding set would do the same for the agent, but jobs would inherit it: set-user-id
programs of jobs, such as fusermount, would run without their installed rights. So the agent drops
its own permitted and effective sets. The kernel gives a program that root executes everything in
the bounding set (capabilities(7)).
"""

from __future__ import annotations

import ctypes
import enum
import os
import struct

from wattfold.nodeagent import logs

_VERSION_3 = 0x20080522
_PR_GET_SECUREBITS = 27
_PR_GET_NO_NEW_PRIVS = 39
_NOROOT = 1


class Capability(enum.IntEnum):
    """The capabilities that the agent uses, by their numbers in linux/capability.h."""

    CHOWN = 0
    """Sockets of jobs, where the file system has no access lists."""
    DAC_OVERRIDE = 1
    """Snapshots of jobs in folders that only their accounts may enter, and control groups in the
    roots of their hierarchies, which the kernel makes read-only for all (mode 0555)."""
    KILL = 5
    NET_BIND_SERVICE = 10
    NET_ADMIN = 12
    """With BPF: denies the devices of other GPUs to a control group."""
    SYS_RAWIO = 17
    """Model-specific registers."""
    SYS_PTRACE = 19
    """Environments of the processes of jobs."""
    SYS_ADMIN = 21
    """Limits of NVIDIA GPUs, and the device controller of cgroup version 1."""
    SYS_NICE = 23
    """Affinity of the processes of jobs."""
    BPF = 39


_OF_GPUS = {Capability.NET_ADMIN, Capability.SYS_ADMIN, Capability.BPF}


def drop(*, gpus: bool) -> None:
    """Drop all capabilities that an agent (with or without GPUs) does not need.

    Call it before any thread starts.
    """
    why = _unfit()
    kept = [one for one in Capability if gpus or one not in _OF_GPUS]
    try:
        if not why:
            _keep(sum(1 << one for one in kept))
    except OSError as error:
        # A filter of system calls may refuse this; caps matter more than fewer rights.
        why = str(error)
    if why:
        logs.info("capabilities_kept", reason=why)
    else:
        logs.info("capabilities_dropped", kept=",".join(one.name.lower() for one in kept))


def _unfit() -> str:
    """Return why keepers would not get the capabilities back; empty if they would."""
    libc = ctypes.CDLL(None)
    if os.geteuid() != 0:
        return "the agent is not root"
    if libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0):
        return "no_new_privs is set, so keepers would lack them too"
    if libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0) & _NOROOT:
        return "the secure bit noroot is set, so keepers would lack them too"
    return ""


def _keep(mask: int) -> None:
    """Remove all others from the permitted and effective sets of the calling thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", _VERSION_3, 0)
    sets = ctypes.create_string_buffer(24)
    if libc.capget(header, sets):
        raise _failure("capget")
    # Two triples (effective, permitted, inheritable), for capabilities 0 to 31 and 32 to 63.
    words = struct.unpack("=6I", sets.raw)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    masks = (low, low, 0xFFFFFFFF, high, high, 0xFFFFFFFF)
    kept = [word & part for word, part in zip(words, masks, strict=True)]
    if libc.capset(header, struct.pack("=6I", *kept)):
        raise _failure("capset")


def _failure(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
