"""The dashboard of a real site, over its loopback port and its Unix socket."""

from __future__ import annotations

import http.client
import importlib.util
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from system.site.live_site import LiveSite

from wattfold.v1 import coordinator_pb2 as pb

BUDGET_W = 200.0
END_S = 120.0
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("aiohttp") is None, reason="needs aiohttp, of wattfold[web]"
)


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=BUDGET_W)


class Browser:
    """Requests as the page makes them."""

    def __init__(self, link: str) -> None:
        self.origin, _, self._token = link.partition("/#t=")
        self.session = ""

    def ask(self, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Make a request and return status and JSON document."""
        known = {"Authorization": f"Bearer {self.session}", "Origin": self.origin, **headers}
        connection = http.client.HTTPConnection(self.origin.removeprefix("http://"), timeout=END_S)
        try:
            if body is None:
                connection.request("GET", path, headers=known)
            else:
                known = {"Content-Type": "application/json", **known}
                connection.request("POST", path, body=json.dumps(body), headers=known)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def open(self) -> None:
        status, found = self.ask("/api/session", {"link": self._token})
        assert status == 200, found
        self.session = found["session"]


@pytest.fixture
def start(site: LiveSite) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start a dashboard and return its printed document; all end in order."""
    started: list[subprocess.Popen[str]] = []

    def begin(*options: str) -> dict[str, Any]:
        words = (sys.executable, "-m", "wattfold.coordinator.cli.main")
        process = subprocess.Popen(
            (*words, "--coordinator", site.address, "--json", "web", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        found: dict[str, Any] = json.loads(process.stdout.readline())
        return found

    yield begin
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
        assert process.stdout is not None
        process.stdout.close()


def test_a_job_is_explained_and_the_budget_stays(
    site: LiveSite, start: Callable[..., dict[str, Any]]
) -> None:
    job = site.submit(["sleep", "600"], name="<b>bold</b>")
    site.running(job)
    browser = Browser(start("--port", "0")["link"])
    assert browser.ask(f"/api/job/{job}")[0] == 401
    browser.open()
    status, found = browser.ask(f"/api/job/{job}")
    assert status == 200
    assert found["job"]["spec"]["name"] == "<b>bold</b>"
    assert "Runs on" in found["summary"]
    assert found["job"]["spec"]["env"] == {}
    assert browser.ask("/api/job/none")[0] == 404
    assert browser.ask("/api/budget/set", {"budget_w": 150})[0] == 405
    assert site.client.power().budget_uw == BUDGET_W * 1e6


def test_control_changes_the_budget_and_the_audit_log_has_it(
    site: LiveSite, start: Callable[..., dict[str, Any]]
) -> None:
    browser = Browser(start("--port", "0", "--control")["link"])
    browser.open()
    # A page of another origin, and a form, may change nothing.
    foreign = {"Origin": "http://127.0.0.1:1"}
    assert browser.ask("/api/budget/set", {"budget_w": 190}, **foreign)[0] == 403
    plain = {"Content-Type": "text/plain"}
    assert browser.ask("/api/budget/set", {"budget_w": 190}, **plain)[0] == 415
    status, found = browser.ask("/api/budget/set", {"budget_w": 10})
    assert status in (400, 409)
    assert "10.0 W is below" in found["error"]
    assert browser.ask("/api/budget/set", {"budget_w": 210})[0] == 200
    assert site.client.power().budget_uw == 210e6
    entries = browser.ask("/api/audit")[1]["entries"]
    assert [(e["action"], e["outcome"]) for e in entries[:2]] == [
        ("SetBudget", "done"),
        ("SetBudget", "refused"),
    ]


def test_a_name_that_was_rebound_is_refused(start: Callable[..., dict[str, Any]]) -> None:
    browser = Browser(start("--port", "0")["link"])
    browser.open()
    assert browser.ask("/api/job/1", Host="evil.example:80")[0] == 421


def test_a_socket_is_open_to_its_account_only(
    site: LiveSite, start: Callable[..., dict[str, Any]]
) -> None:
    path = Path(site.folder) / "web.sock"
    assert start("--socket", str(path))["socket"] == str(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        request = (
            "POST /api/session HTTP/1.1\r\nHost: localhost:1234\r\n"
            "Origin: http://localhost:1234\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\nConnection: close\r\n\r\n{}"
        )
        connection.sendall(request.encode())
        answer = connection.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 200")
    assert json.loads(answer.split("\r\n\r\n")[1])["session"]


def test_what_if_answers_the_slider(site: LiveSite, start: Callable[..., dict[str, Any]]) -> None:
    assert site.client.list_jobs([], False).jobs[0].state == pb.JOB_STATE_RUNNING
    browser = Browser(start("--port", "0")["link"])
    browser.open()
    assert browser.ask("/api/what-if?budget_w=nan")[0] == 400
    status, found = browser.ask("/api/what-if?budget_w=150")
    assert status == 200, found
    assert found["with_the_change"]["budget_w"] == 150
