"""The steps of docs/tutorial.md in one shell, with their output compared.

Only `scripts/setup` and the activation of its environment are omitted, because the tests run in it.
Times and powers vary with the machine, so numbers are compared only in lines of the budget.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.site.live_site import built, wait_until
from system.site.processes import processes_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.S | re.M)
LEFT_OUT = ("scripts/setup\n", ". .venv/bin/activate\n")
ONCE = ("wattfold submit", "wattfold budget set", "wattfold cancel")
"""Commands that change state; other commands are repeated until their output matches."""
DEADLINE_S = 60.0
PACE_S = 0.2
DONE = "tutorial-step-done"
_DURATION = re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+\b|\d\d:\d\d:\d\d[+-]\d\d:\d\d")
_BAR = re.compile(r"[▏▎▍▌▋▊▉█·]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_EXACT = re.compile(r"\s*(?:budget|floor)\b")


def shape(line: str) -> str:
    """A line of output without its variable parts."""
    if not _EXACT.match(line):
        line = _NUMBER.sub("N", _DURATION.sub("TIME", line))
    return " ".join(_BAR.sub("BAR", line).split())


def agrees(shown: str, expected: str) -> bool:
    """Whether the output matches the page, in which a line of `...` stands for any lines."""
    parts = [
        "(?:.*\n)*?" if line.strip() == "..." else re.escape(shape(line)) + "\n"
        for line in expected.splitlines()
    ]
    text = "".join(f"{shape(line)}\n" for line in shown.splitlines())
    return re.fullmatch("".join(parts), text) is not None


class Shell:
    """A shell for the whole session. ``lines``: output of the shell and its children."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        bins = Path(sys.executable).parent
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "shell.err").open("wb"),
            cwd=ROOT,
            env=os.environ | {"PATH": f"{bins}:{os.environ['PATH']}", "TMPDIR": str(folder)},
            text=True,
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()

    def run(self, command: str) -> tuple[int, str]:
        """Run a command; return its exit status and its output."""
        start = len(self.lines)
        assert self._process.stdin
        self._process.stdin.write(f"{command}\necho {DONE} $?\n")
        self._process.stdin.flush()
        self.wait_for(rf"{DONE} \d+", start)
        lines = [line for line in self.lines[start:] if not line.startswith(DONE)]
        status = next(line for line in self.lines[start:] if line.startswith(DONE))
        return int(status.split()[1]), "".join(lines)

    def wait_for(self, pattern: str, start: int, times: int = 1) -> None:
        """Wait until ``count`` lines from a position on begin with this text."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: sum(bool(re.match(pattern, x)) for x in self.lines[start:]) >= times,
                DEADLINE_S,
            ), f"no {pattern!r} in {self.lines[start:]}"

    def processes(self) -> list[int]:
        """All processes of the session, including those that have left the shell."""
        return [pid for pid in processes_of(self._folder) if pid != self._process.pid]

    def close(self) -> None:
        """End the shell and all processes of the session."""
        self._process.kill()
        self._process.wait()
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def shell() -> Iterator[Shell]:
    if not built():
        pytest.skip("no example programs; run scripts/build_shims")
    if not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("the node of the tutorial has CPUs 0 and 1, which are not available")
    # Sockets need short paths, so they are not below the folder of the test.
    folder = Path(tempfile.mkdtemp(prefix="wf-tutorial-"))
    shell = Shell(folder)
    yield shell
    shell.close()
    shutil.rmtree(folder)


def steps() -> list[tuple[str, str | None]]:
    """Yield each command of the page with the output that follows it."""
    found: list[tuple[str, str | None]] = []
    for language, text in BLOCKS:
        if language == "text":
            command, before = found.pop()
            assert before is None, f"two outputs of {command}"
            found.append((command, text))
            continue
        for left_out in LEFT_OUT:
            text = text.replace(left_out, "")
        found.append((text, None))
    return found


def test_every_output_follows_one_command() -> None:
    outputs = [command for command, output in steps() if output is not None]
    assert len(outputs) >= 6
    assert [command for command in outputs if command.count("\n") != 1] == []


def test_the_session_is_as_the_tutorial_says(shell: Shell) -> None:
    for command, expected in steps():
        start = len(shell.lines)
        if expected is not None:
            compare(shell, command, expected)
            continue
        status, shown = shell.run(command)
        if started := len(re.findall(r"&$", command, re.M)):
            shell.wait_for("ready ", start, started)
        elif "kill" not in command:
            assert status == 0, f"{command}{shown}"
    wait_until("all processes have ended", lambda: not shell.processes())


def compare(shell: Shell, command: str, expected: str) -> None:
    """Run a command; repeat a read-only command until its output is that of the page."""
    pace = threading.Event()
    until_s = time.monotonic() + DEADLINE_S
    while True:
        _, shown = shell.run(command)
        if agrees(shown, expected):
            return
        if command.startswith(ONCE) or time.monotonic() > until_s:
            pytest.fail(f"{command}{shown}\nis not\n{expected}")
        pace.wait(PACE_S)
