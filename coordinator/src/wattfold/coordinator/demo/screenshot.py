"""A screenshot of a page by Chromium, when the page is ready.

Chromium's own option takes it before the page has its data. So this speaks its protocol of
debugging, over pipes: a port would let other users of the machine into the browser.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
END_S = 30.0
_READY = """new Promise((ready) => {
  const look = () => document.querySelector("%s") ? setTimeout(ready, 2500) : setTimeout(look, 200);
  look();
})"""
# Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
_START = "import os, sys; [os.dup2(int(sys.argv[n]), n + 2) for n in (1, 2)]; "
_START += "os.execv(sys.argv[3], sys.argv[3:])"


class Browser:
    """A Chromium without a window."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = itertools.count(1)

    def call(self, method: str, session: str = "", **values: Any) -> dict[str, Any]:
        """Make a call of the protocol. Raises OSError if the browser refuses it or ends."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": values}
        if session:
            command["sessionId"] = session
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == number:
                break
        if "error" in answer:
            raise OSError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _message(self) -> bytes:
        found = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise OSError("the browser ended")
            found += byte
        return bytes(found)


def browser_program() -> str | None:
    """Return the path of Chromium; None if it is not installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def take(program: str, link: str, selector: str, picture: Path) -> None:
    """Open a page, wait for an element, and write a PNG. Raises OSError."""
    with _running(program) as browser:
        target = browser.call("Target.createTarget", url="about:blank")
        attached = browser.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        session = attached["sessionId"]
        size = {"width": 1440, "height": 1400, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", session, **size)
        browser.call("Page.enable", session)
        browser.call("Page.navigate", session, url=link)
        ready = _READY % selector
        browser.call("Runtime.evaluate", session, expression=ready, awaitPromise=True)
        found = browser.call("Page.captureScreenshot", session)
    picture.write_bytes(base64.b64decode(found["data"]))


@contextlib.contextmanager
def _running(program: str) -> Iterator[Browser]:
    ours, theirs = _pipes()
    with tempfile.TemporaryDirectory(prefix="wf-web-", ignore_cleanup_errors=True) as profile:
        words = [program, "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        # As root, Chromium refuses to start with its sandbox. It shows this page only.
        words += ["--no-sandbox"] if os.geteuid() == 0 else []
        words += ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, theirs), *words],
            pass_fds=theirs,
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )
        for descriptor in theirs:
            os.close(descriptor)
        try:
            with os.fdopen(ours[0], "wb") as commands, os.fdopen(ours[1], "rb") as answers:
                yield Browser(commands, answers)
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    """Return our ends (commands, answers) and those of the browser, all above descriptor 4."""
    commands_out, commands_in = os.pipe()
    answers_out, answers_in = os.pipe()
    moved = []
    for descriptor in (commands_in, answers_out, commands_out, answers_in):
        moved.append(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(descriptor)
    return (moved[0], moved[1]), (moved[2], moved[3])
