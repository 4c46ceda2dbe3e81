"""A coordinator process without nodes: its jobs wait forever."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from system.site.live_site import run_command

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo import site as demo_site
from wattfold.v1 import coordinator_pb2 as pb


class Head:
    """Coordinator that runs in a `with` block; ``state`` is its state folder."""

    def __init__(self, folder: Path, *arguments: str, listen: str = "") -> None:
        self.folder = folder
        self.state = folder / "state"
        self.address = listen or f"unix:{folder}/run/c.sock"
        self.log = folder / "coordinator.log"
        self._arguments = ["--listen", self.address, "--state-dir", str(self.state), *arguments]

    def __enter__(self) -> Head:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, *more: str) -> None:
        arguments = [*self._arguments, "--budget-w", "100", *more]
        self.process = demo_site._start("wattfold-coordinator", arguments, self.log, {})
        demo_site._await_ready(self.process, "coordinator", self.log)
        self.client = CoordinatorClient(self.address)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process.poll() is None:
            self.client.close()
            self.process.send_signal(number)
            self.process.wait(240)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def submit(self, name: str = "job", held: bool = False, **env: str) -> str:
        spec = pb.JobSpec(argv=["true"], name=name, env=env, kind=pb.JOB_KIND_RIGID)
        return self.client.submit(pb.SubmitRequest(spec=spec, held=held))

    def wattfold(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command("wattfold", "--coordinator", self.address, *arguments)

    def json(self, *arguments: str) -> Any:
        done = self.wattfold("--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def maintain(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command("wattfold-coordinator", *arguments, "--state-dir", str(self.state))


def files_with(folder: Path, secret: str) -> list[str]:
    """Names of the files below a folder that contain a secret."""
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and os.fsencode(secret) in path.read_bytes()
    ]


def rows(path: Path, query: str) -> Sequence[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()
