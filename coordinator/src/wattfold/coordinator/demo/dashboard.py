"""The dashboard of a run of the demonstration, and a screenshot of it if there is a Chromium.

Dashboard and browser use CPU time of the machine, so a run with them is a show and no measurement.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.coordinator.demo import screenshot

SHOT_S = 14.0
"""Time of the screenshot within a run of scale 1, when all jobs have arrived."""
END_S = 30.0


class Dashboard:
    """A running `wattfold web`, and its screenshot."""

    def __init__(self, process: subprocess.Popen[str], picture: Path, shot_s: float) -> None:
        self._process, self._picture, self._shot_s = process, picture, shot_s
        self._shot: threading.Thread | None = None
        self._problem = "the run ended before it"
        self.link = self._next_link()

    def during(self, now_s: float) -> None:
        """Start the screenshot when its time has come. ``now_s``: seconds since the start."""
        if self._shot is not None or now_s < self._shot_s:
            return
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        link = self._next_link()
        self._shot = threading.Thread(target=self._take, args=(link,), name="screenshot")
        self._shot.start()

    def finish(self) -> str:
        """End everything. Return one line about the screenshot."""
        if self._shot is not None:
            self._shot.join()
        _end(self._process)
        return f"none, {self._problem}" if self._problem else str(self._picture)

    def _take(self, link: str) -> None:
        program = screenshot.browser_program()
        if program is None:
            self._problem = "Chromium is not installed"
            return
        try:
            screenshot.take(program, link, ".uplot", self._picture)
            self._problem = ""
        except OSError as error:
            self._problem = str(error)

    def _next_link(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CliError("the dashboard did not start; it needs wattfold[web]")
        return str(json.loads(line)["link"])


@contextlib.contextmanager
def dashboard_of(
    address: str, picture: Path, scale: float, notice: Callable[[str], None]
) -> Iterator[Callable[[float], None]]:
    """Serve the dashboard of a site and show its link. Yields the function called during the run.

    Raises CliError if it cannot start.
    """
    words = (sys.executable, "-m", "wattfold.coordinator.cli.main", "--coordinator", address)
    process = subprocess.Popen(
        (*words, "--json", "web", "--port", "0", "--interval", "1s"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        shown = Dashboard(process, picture, SHOT_S * scale)
    except BaseException:
        _end(process)
        raise
    notice(f"dashboard: {shown.link}")
    try:
        yield shown.during
    finally:
        notice(f"screenshot: {shown.finish()}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
