"""The process that serves the tree of an emulated machine, separate from the agent.

It outlives a killed agent: the guard can still write floors into it, and the next agent finds the
limits unchanged. An orderly stop ends it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters.jobs import procfs
from wattfold.nodeagent.emulation import fuse_tree

_READY_S = 20.0
_END_S = 5.0


class TreeProcess:
    """The tree of one fixture at one folder. ``record`` is the file that identifies its server."""

    def __init__(self, fixture: Path, folder: Path, record: Path) -> None:
        self._fixture = fixture.absolute()
        self._folder = folder
        self._record = record
        self.instance = ""
        """Differs for each start of the machine, like a boot ID."""

    def start(self) -> None:
        """Mount the tree, or adopt the tree of an earlier agent. Raises OSError."""
        known = self._known()
        if known is not None and known[1] == str(self._fixture) and os.path.ismount(self._folder):
            self.instance = known[2]
            logs.info("emulated_machine_adopted", pid=known[0], folder=self._folder)
            return
        self.stop()
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                fuse_tree.__name__,
                "--load",
                "host",
                str(self._fixture),
                str(self._folder),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process.stdout, process.stderr:
            ready = select.select([process.stdout], [], [], _READY_S)[0]
            if not ready or process.stdout.readline() != b"ready\n":
                process.kill()
                why = process.stderr.read().decode(errors="replace").strip()
                raise OSError(
                    f"{self._folder}: the emulated machine did not start: {why or 'no message'}"
                )
        stat = procfs.read_stat(process.pid)
        ticks = stat.start_ticks if stat else 0
        self._record.write_text(
            json.dumps({"pid": process.pid, "start_ticks": ticks, "fixture": str(self._fixture)})
        )
        self.instance = f"{process.pid}-{ticks}"
        logs.info("emulated_machine_started", pid=process.pid, folder=self._folder)

    def stop(self) -> None:
        """End the process that serves the tree, and unmount the tree."""
        known = self._known()
        if known is not None:
            _end(known[0])
        if os.path.lexists(self._folder):
            fuse_tree.unmount(self._folder)
        self._record.unlink(missing_ok=True)

    def _known(self) -> tuple[int, str, str] | None:
        try:
            record = json.loads(self._record.read_text())
            pid, ticks, fixture = record["pid"], record["start_ticks"], record["fixture"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        alive = isinstance(pid, int) and isinstance(ticks, int) and procfs.same_process(pid, ticks)
        return (pid, str(fixture), f"{pid}-{ticks}") if alive else None


def _end(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal.pidfd_send_signal(fd, number)
            if select.select([fd], [], [], _END_S)[0]:
                break
    except ProcessLookupError:
        return
    finally:
        os.close(fd)
