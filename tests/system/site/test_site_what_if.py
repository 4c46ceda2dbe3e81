"""What-if on a real site: an unchanged run forecasts the starts that the coordinator expects."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from system.site.gate import Gate
from system.site.live_site import ROOT, LiveSite
from waiting import wait_until

from wattfold.coordinator.policies.backfill.promises import LAG_NS
from wattfold.v1 import coordinator_pb2 as pb

PAGE = (ROOT / "docs" / "what-if.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    wattfold (what-if.*)$", PAGE, re.M)
S = 10**9
CLOSE_S = 5.0
BUDGET_W = 150.0
"""Two idle nodes take 48 W, and each node at full power 36 W more."""


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="conservative", budget_w=BUDGET_W)


@pytest.fixture(scope="module")
def gate(site: LiveSite) -> Gate:
    return Gate(site.work)


@pytest.fixture(scope="module")
def known() -> dict[str, str]:
    """The jobs of `queue`, which the tests share until one of them ends the jobs."""
    return {}


@pytest.fixture
def queue(site: LiveSite, gate: Gate, known: dict[str, str]) -> dict[str, str]:
    """Jobs by name: two run, three wait."""
    open_jobs = {job.job_id for job in site.client.list_jobs().jobs}
    if not known or not open_jobs.issuperset(known.values()):
        known.update(submitted(site, gate))
    return known


def submitted(site: LiveSite, gate: Gate) -> dict[str, str]:
    def submit(name: str, nodes: int, time_s: int) -> str:
        sizes: dict[str, Any] = {"unit": pb.SIZE_UNIT_NODES, "size_min": nodes, "size_max": nodes}
        return site.submit(gate.line(name), name=name, time_ns=time_s * S, **sizes)

    jobs = {"first": submit("first", 1, 600), "second": submit("second", 1, 300)}
    for job in list(jobs.values()):
        site.running(job)
    jobs |= {"wide": submit("wide", 2, 900), "long": submit("long", 1, 5000)}
    jobs["short"] = submit("short", 1, 100)
    wait_until("all expected starts", lambda: len(expected(site)) == 3)
    return jobs


def expected(site: LiveSite) -> dict[str, float]:
    """Expected starts of waiting jobs, Unix seconds."""
    jobs = site.client.list_jobs().jobs
    return {job.job_id: job.expected_start_at_s for job in jobs if job.expected_start_at_s}


def told(site: LiveSite, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(site.wattfold("--json", "what-if", *words).stdout)
    return answer


def test_an_unchanged_run_agrees_with_the_coordinator(
    site: LiveSite, queue: dict[str, str]
) -> None:
    answer = told(site, "--budget", f"{BUDGET_W}W")
    assert answer["as_it_is"] == answer["with_the_change"]
    starts = {}
    for job in answer["jobs"]:
        assert job["as_it_is"] == job["with_the_change"]
        if job["waits"]:
            starts[job["job_id"]] = job["as_it_is"]["start_s"]
    coordinator = expected(site)
    assert starts.keys() == coordinator.keys()
    for job_id, at_s in starts.items():
        # A promised start may include a lag behind the planned start before it; the simulated job
        # starts as soon as it can.
        earlier_s = coordinator[job_id] - at_s
        assert -CLOSE_S < earlier_s < LAG_NS / S + CLOSE_S, job_id
    assert sorted(starts, key=starts.__getitem__) == [
        queue[name] for name in ("short", "wide", "long")
    ]


def test_a_change_is_seen(site: LiveSite, queue: dict[str, str]) -> None:
    wide = queue["wide"]
    # One node at full power.
    answer = told(site, "--budget", "100W", "--job", wide)
    [job] = answer["jobs"]
    assert job["job_id"] == wide
    assert job["as_it_is"]["start_s"] is not None
    assert job["with_the_change"]["start_s"] is None
    more = told(site, "--nodes", "+2", "--budget", "300W")
    assert more["with_the_change"]["mean_wait_s"] < more["as_it_is"]["mean_wait_s"]
    assert more["with_the_change"]["nodes"] == 4
    other = told(site, "--policy", "fifo")
    assert other["with_the_change"]["policy"] == "fifo"
    refused = site.wattfold("what-if", "--budget", "30W", check=2)
    assert "below" in refused.stderr


def test_nothing_was_changed(site: LiveSite, queue: dict[str, str]) -> None:
    assert site.client.power().budget_uw == int(BUDGET_W * 1e6)
    assert {job.job_id for job in site.client.list_jobs().jobs} == set(queue.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_work(site: LiveSite, queue: dict[str, str], command: str) -> None:
    words = [queue["wide"] if word == "17" else word for word in shlex.split(command)]
    done = site.wattfold(*words)
    assert done.stdout
    if "--json" in words:
        assert json.loads(done.stdout)


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) >= 4


def test_jobs_start_in_the_forecast_order(
    site: LiveSite, gate: Gate, queue: dict[str, str]
) -> None:
    answer = told(site, "--budget", f"{BUDGET_W}W")
    waiting = [job for job in answer["jobs"] if job["waits"]]
    forecast = [
        job["job_id"] for job in sorted(waiting, key=lambda job: job["as_it_is"]["start_s"])
    ]
    gate.open("second")
    site.running(queue["short"])
    for name in ("first", "short"):
        gate.open(name)
    site.running(queue["wide"])
    for _ in range(2):  # A process on each node.
        gate.open("wide")
    site.running(queue["long"])
    gate.open("long")
    site.ended(queue["long"])
    started = {job_id: site.job(job_id).started_at_s for job_id in forecast}
    assert sorted(started, key=started.__getitem__) == forecast
