"""What befalls the state folder of a coordinator: it is copied, rebooted with, and poisoned."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from system.site.live_site import DEADLINE_S, run_command

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.core.model import reports

if TYPE_CHECKING:
    from system.orders.nodes_site import OrdersSite

FENCED = 5
_ELSEWHERE = 2
"""Exit status of a coordinator whose folder belongs elsewhere."""


class StateFolders:
    """The state folder of a site, and its copies. ``problems``: what should not have been."""

    def __init__(self, site: OrdersSite) -> None:
        self.problems: list[str] = []
        self.copy: Path | None = None
        self.left: Path | None = None
        """The folder of the coordinator before the last one that took over."""
        self._site = site
        self._made = 0
        self._rivals: list[subprocess.Popen[bytes]] = []

    def make_copy(self) -> None:
        """Copy the folder of a coordinator that does not run."""
        self._made += 1
        self.copy = self._site.folder / f"head-{self._made}"
        # Sockets stay where they are after kill -9.
        shutil.copytree(self._site.state_dir, self.copy, ignore=shutil.ignore_patterns("*.sock*"))

    def start_copy_unasked(self) -> None:
        """Start a coordinator on the copy, without the word of an operator: it must not start."""
        assert self.copy is not None
        self._must_end(self.copy, _ELSEWHERE)

    def start_left(self) -> None:
        """Start the coordinator again from whose copy another has taken over: it must not start."""
        assert self.left is not None
        self._must_end(self.left, FENCED)

    def take_over(self, *, stopped: bool = False) -> None:
        """Start a coordinator on the copy with the word of an operator. It is the site's then.

        ``stopped``: the one before is stopped meanwhile, and continues when the copy commands.
        """
        site, copy = self._site, self.copy
        assert copy is not None
        before, self.copy, self.left = site.coordinator, None, site.state_dir
        if stopped:
            before.send_signal(signal.SIGSTOP)
        called_ns = time.monotonic_ns()
        site.client.close()
        site.state_dir = copy
        site.start_coordinator("--moved")
        site.client = CoordinatorClient(site.address)
        site.budgets.taken_over(called_ns)
        if stopped:
            before.send_signal(signal.SIGCONT)
        self._rivals.append(before)

    def await_fenced(self) -> None:
        """Wait until no coordinator is left from whose copy another has taken over."""
        for rival in self._rivals:
            try:
                status = rival.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                rival.kill()
                status = rival.wait()
                self.problems.append("a coordinator ran on beside its copy")
            if status not in (0, FENCED, -signal.SIGKILL):
                self.problems.append(f"a coordinator ended with {status} beside its copy")
            assert rival.stdout is not None
            rival.stdout.close()
        self._rivals.clear()

    def end_rivals(self) -> None:
        """Kill those that are left."""
        for rival in self._rivals:
            rival.kill()
        self.await_fenced()

    def reboot(self) -> None:
        """Let the next start find another boot: only the calendar tells the time away then."""
        with closing(Journal(self._site.state_dir / "journal.sqlite")) as journal:
            _, _, ahead = (journal.get_meta("clock") or "").partition(" ")
            journal.put_meta("clock", f"another-boot {ahead}")

    def poison(self, node: str, job: str) -> None:
        """Append a report of cores that the node of a job does not have."""
        cpus = CpuSet.parse("0-4000")
        event = reports.MaskConfirmed(
            node_id=NodeId(node), job_id=JobId(job), cpus=cpus, confined=False
        )
        with closing(Journal(self._site.state_dir / "journal.sqlite")) as journal:
            journal.append(event, journal.last_time_ns)
            journal.commit()

    def _must_end(self, folder: Path, status: int) -> None:
        config, listen = str(self._site.folder / "coordinator.toml"), f"unix:{folder}/c.sock"
        where = ("--state-dir", str(folder), "--listen", listen)
        done = run_command("wattfold-coordinator", "--config", config, *where)
        if done.returncode != status:
            self.problems.append(f"{folder.name} ended with {done.returncode}: {done.stderr}")
