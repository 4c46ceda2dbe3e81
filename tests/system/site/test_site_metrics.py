"""The metrics of a real coordinator, read over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from system.site.live_site import ROOT, LiveSite, wait_until
from unit.metrics.scrapes import Samples, parsed, total, value

from wattfold.v1 import coordinator_pb2 as pb

RULES = ROOT / "packaging" / "metrics" / "wattfold.rules.yml"
METRICS = '[metrics]\nlisten = "127.0.0.1:0"\n'


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=150.0, parm=METRICS)


def port(site: LiveSite) -> int:
    log = (site.logs / "coordinator.log").read_text()
    [*_, found] = re.findall(r"event=metrics_opened address=127\.0\.0\.1:(\d+)", log)
    return int(found)


def scrape(site: LiveSite) -> Samples:
    connection = http.client.HTTPConnection("127.0.0.1", port(site), timeout=240)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read()
    assert response.status == 200, text
    connection.close()
    return parsed(text)


def test_the_metrics_agree_with_the_command(site: LiveSite) -> None:
    job = site.submit(["sleep", "1000"], size_min=2, size_max=2, name="secret", app="hidden")
    site.in_state(job, pb.JOB_STATE_RUNNING)
    found = wait_until(
        "the running job in the metrics",
        lambda: (
            (samples := scrape(site))
            and value(samples, "wattfold_jobs", state="running", queue="none") == 1
            and samples
        ),
    )
    assert value(found, "wattfold_budget_watts") == 150.0
    assert 0 < total(found, "wattfold_committed_power_watts") <= 150.0
    assert value(found, "wattfold_nodes", state="up") == 2
    assert value(found, "wattfold_emulated_nodes") == 2
    assert value(found, "wattfold_lease_remaining_seconds") > 0
    assert value(found, "wattfold_lease_duration_seconds") == 3.0
    assert value(found, "wattfold_policy_info", policy="parm-wse") == 1
    assert total(found, "wattfold_planning_round_duration_seconds_count") >= 1
    assert value(found, "wattfold_journal_commit_duration_seconds_count") >= 1
    assert not any(word in str(key) for key in found for word in ("secret", "hidden"))
    site.client.cancel(job)


def test_energy_is_counted(site: LiveSite) -> None:
    before = value(scrape(site), "wattfold_energy_joules_total")
    wait_until("more energy", lambda: value(scrape(site), "wattfold_energy_joules_total") > before)


def test_scrapers_that_never_read_stop_nothing(site: LiveSite) -> None:
    clients = [socket.create_connection(("127.0.0.1", port(site))) for _ in range(8)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
    assert value(scrape(site), "wattfold_nodes", state="up") == 2
    assert site.client.power().budget_uw == 150_000_000
    for client in clients:
        client.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        number: int = found.getsockname()[1]
        return number


@pytest.fixture
def prometheus(site: LiveSite, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """A Prometheus server that scrapes the site; returns a function that asks its API."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus (package prometheus)")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": "wattfold",
                "sample_limit": 1000,
                "static_configs": [{"targets": [f"127.0.0.1:{port(site)}"]}],
            }
        ],
    }
    file, own = tmp_path / "prometheus.yml", free_port()
    file.write_text(json.dumps(config))  # JSON is YAML.
    address = f"127.0.0.1:{own}"
    server = subprocess.Popen(
        [
            program,
            f"--config.file={file}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ]
    )

    def ask(path: str) -> Any:
        assert server.poll() is None
        try:
            with urllib.request.urlopen(f"http://{address}/api/v1/{path}", timeout=60) as reply:
                return json.load(reply)["data"]
        except OSError:
            return {}  # It does not listen yet, or is loading.

    yield ask
    server.terminate()
    server.wait(60)


def test_prometheus_scrapes_and_evaluates_the_alerts(
    site: LiveSite, prometheus: Callable[[str], Any]
) -> None:
    [found] = wait_until(
        "the budget in Prometheus",
        lambda: prometheus("query?query=wattfold_budget_watts").get("result"),
    )
    assert (found["metric"]["job"], float(found["value"][1])) == ("wattfold", 150.0)
    groups = wait_until(
        "the evaluation of all alerts",
        lambda: (
            (found := prometheus("rules").get("groups"))
            and all(rule["health"] == "ok" for group in found for rule in group["rules"])
            and found
        ),
    )
    states = {rule["name"]: rule["state"] for group in groups for rule in group["rules"]}
    assert states["WattfoldOverBudget"] == states["WattfoldCoordinatorUnreachable"] == "inactive"
    site.coordinator.send_signal(signal.SIGSTOP)
    try:
        wait_until(
            "the alert about the stopped coordinator",
            lambda: (
                {
                    rule["name"]: rule["state"]
                    for group in prometheus("rules").get("groups", ())
                    for rule in group["rules"]
                }.get("WattfoldCoordinatorUnreachable")
                == "pending"
            ),
        )
    finally:
        site.coordinator.send_signal(signal.SIGCONT)
