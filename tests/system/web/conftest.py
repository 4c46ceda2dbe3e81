"""Chromium, and dashboards as processes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from system.web.crowd import Crowd
from unit.cli.fake_coordinator import serve, socket_address

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

END_S = 20.0
ARGUMENTS = ("--disable-gpu", "--disable-quic", "--no-first-run", "--no-sandbox")
"""As root, Chromium refuses to start with its sandbox."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "system/web" in str(item.path):
            item.add_marker(pytest.mark.system)


@dataclass(frozen=True, kw_only=True)
class Served:
    """A running dashboard."""

    link: str
    process: subprocess.Popen[str]

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return self.link.split("/#")[0]


@dataclass(kw_only=True)
class Window:
    """A page with its faults: errors of scripts and messages of the console."""

    page: Page
    context: BrowserContext
    faults: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium for one module: Playwright runs an event loop in this thread until its end."""
    program = shutil.which("chromium")
    if importlib.util.find_spec("playwright") is None or program is None:
        pytest.skip("needs Playwright and Chromium; scripts/setup dev installs both")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        started = player.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def start_dashboard() -> Iterator[Callable[..., Served]]:
    """Start a dashboard of a coordinator; all end with the test."""
    if importlib.util.find_spec("aiohttp") is None:
        pytest.skip("needs aiohttp, of wattfold[web]")
    started: list[subprocess.Popen[str]] = []

    def start(address: str, *options: str) -> Served:
        words = (sys.executable, "-m", "wattfold.coordinator.cli.main")
        process = subprocess.Popen(
            (*words, "--coordinator", address, "--json", "web", "--port", "0", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the dashboard ended before it printed its link"
        return Served(link=json.loads(line)["link"], process=process)

    yield start
    for process in started:
        process.terminate()
    for process in started:
        assert process.wait(END_S) == 0
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def open_window(
    browser: Browser,
    start_dashboard: Callable[..., Served],
    serve_crowd: Callable[[Crowd], str],
) -> Iterator[Callable[..., Window]]:
    """Open a window on a link. At the end, no window may have had a fault.

    The servers end after the windows: a page that loses its coordinator reports it.
    """
    del start_dashboard, serve_crowd
    opened: list[Window] = []

    def start(link: str, **settings: object) -> Window:
        context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, **settings}  # type: ignore[arg-type]
        )
        window = Window(page=context.new_page(), context=context)
        window.page.on("pageerror", lambda error: window.faults.append(str(error)))
        window.page.on(
            "console",
            lambda message: (
                window.faults.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        opened.append(window)
        window.page.goto(link)
        return window

    yield start
    for window in opened:
        window.context.close()
    assert [fault for window in opened for fault in window.faults] == []


@pytest.fixture
def serve_crowd() -> Iterator[Callable[[Crowd], str]]:
    """Serve a coordinator in memory and return its address."""
    with tempfile.TemporaryDirectory(prefix="wf-") as folder:
        servers = []

        def start(crowd: Crowd) -> str:
            address = socket_address(Path(folder))
            servers.append(serve(crowd, address))
            return address

        yield start
        for server in servers:
            server.stop(grace=None).wait(END_S)
