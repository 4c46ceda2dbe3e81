"""Probe of the resources that every launch needs: room for records, and processes.

It writes as much as a launch to the state directory and to the folder of the shim sockets, and
executes the program of keepers without an order. It does not test control groups and devices.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from wattfold.nodeagent.adapters.jobs.keeper_source import KeeperSource
from wattfold.nodeagent.adapters.state_store import StateStore, device_refusal
from wattfold.nodeagent.core.errors import NodeFault

_RECORD_BYTES = 16384
"""More than the record of a job and the reserve for its exit status."""
_PROBE = "launch-probe"


async def probe(store: StateStore, shims: Path, keepers: KeeperSource) -> str:
    """Return why no job can be started now; empty if no reason is known."""
    try:
        return await asyncio.to_thread(_try_all, store, shims, keepers)
    except RuntimeError as error:
        # Threads count as processes. The pool creates this thread on first use.
        return f"cannot start a thread: {error}"


def _try_all(store: StateStore, shims: Path, keepers: KeeperSource) -> str:
    try:
        _try_state(store)
        _try_files(shims)
    except NodeFault as fault:
        return str(fault)
    return keepers.fault()


def _try_state(store: StateStore) -> None:
    try:
        store.write(_PROBE, {"room": "x" * _RECORD_BYTES})
    finally:
        store.remove(_PROBE)


def _try_files(folder: Path) -> None:
    path = folder / _PROBE
    try:
        path.mkdir()
        path.rmdir()
        path.write_bytes(bytes(_RECORD_BYTES))
    except OSError as error:
        raise device_refusal(error, "cannot make files for a job") from None
    finally:
        if path.is_file():
            path.unlink()
