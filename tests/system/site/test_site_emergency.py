"""Emergencies on eight nodes with real programs, and everything back after them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import BASE_W, EXAMPLES, IDLE_W, PACKAGE_W, LiveSite, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

NODES = 8
QUEUES = """
[emergency]
protect_queues = ["urgent"]
file = "{file}"

[[queue]]
name = "urgent"

[[queue]]
name = "other"
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emergency") / "limit"


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite], file: Path) -> LiveSite:
    settings = QUEUES.format(file=file)
    return start_site(
        nodes=NODES, policy="fifo-easy", budget_w=1000, cpu_share=0.1, coordinator=settings
    )


@pytest.fixture
def busy(site: LiveSite) -> Iterator[LiveSite]:
    """A job that computes on each node; the first one is protected."""
    for number in range(NODES):
        site.submit(
            [str(EXAMPLES / "compute"), "10000000"],
            unit=pb.SIZE_UNIT_NODES,
            queue="urgent" if number == 0 else "other",
        )
    wait_until("all run", lambda: in_states(site, pb.JOB_STATE_RUNNING) == NODES)
    full_w = NODES * (BASE_W + PACKAGE_W)
    wait_until("full power", lambda: site.client.power().committed_uw >= uw(full_w))
    yield site
    site.cancel_all()


def in_states(site: LiveSite, *states: pb.JobState) -> int:
    return sum(job.state in states for job in site.client.list_jobs().jobs)


def protected(site: LiveSite) -> pb.Job:
    (job,) = [job for job in site.client.list_jobs().jobs if job.spec.queue == "urgent"]
    return job


def written_w(site: LiveSite) -> float:
    """The limits in the zones themselves, with the base power of all nodes."""
    caps = (cap for index in range(NODES) for cap in site.limits_uw(index).values())
    return NODES * BASE_W + sum(caps) / 1e6


def cap_w(site: LiveSite, job: pb.Job) -> float:
    index = int(job.shares[0].node_id.removeprefix("n"))
    return max(site.limits_uw(index).values()) / 1e6


def begin(site: LiveSite, limit: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        site.wattfold("--json", "budget", "emergency", limit).stdout
    )
    return answer


def test_a_limit_above_the_floors_lowers_caps_of_others_first(busy: LiveSite) -> None:
    before_w = written_w(busy)
    limit_w = before_w / 2 if before_w / 2 > NODES * IDLE_W else NODES * IDLE_W + 20
    dry = json.loads(
        busy.wattfold("--json", "budget", "emergency", f"{limit_w}W", "--dry-run").stdout
    )
    assert busy.client.power().committed_uw > uw(limit_w), "a dry run changes nothing"
    begin(busy, f"{limit_w}W")
    wait_until("the limit", lambda: busy.client.power().committed_uw <= uw(limit_w))
    assert written_w(busy) <= limit_w
    assert dry["steps"][0]["committed_uw"] <= uw(limit_w)
    assert dry["short_uw"] == 0
    assert cap_w(busy, protected(busy)) >= PACKAGE_W - 0.2, "a protected job keeps its cap"
    assert in_states(busy, pb.JOB_STATE_RUNNING) == NODES
    busy.wattfold("budget", "emergency", "--end")
    wait_until("everything is back", lambda: written_w(busy) >= before_w - 1)


def test_below_the_floors_all_but_protected_jobs_stop_and_run_again(busy: LiveSite) -> None:
    busy.wattfold("budget", "emergency", "10%")
    others = NODES - 1
    wait_until("suspended", lambda: in_states(busy, pb.JOB_STATE_SUSPENDED) == others)
    assert protected(busy).state == pb.JOB_STATE_RUNNING
    text = " ".join(busy.wattfold("power").stdout.split())
    assert "as the minimum of the nodes; no job starts" in text
    late = busy.submit(["/bin/true"], queue="other")
    wait_until("a reason", lambda: "no job starts until it ends" in busy.job(late).reason)
    stopped = next(j for j in busy.client.list_jobs().jobs if j.state == pb.JOB_STATE_SUSPENDED)
    refused = busy.wattfold("resume", stopped.job_id, check=1).stderr
    assert "was suspended by an emergency" in refused
    # The coordinator is killed: the emergency stays in force, and its end still undoes it.
    busy.coordinator.kill()
    busy.coordinator.wait()
    busy.restart_coordinator()
    assert busy.client.power().HasField("emergency")
    assert in_states(busy, pb.JOB_STATE_SUSPENDED) == others
    busy.wattfold("budget", "emergency", "--end")
    wait_until("all run", lambda: in_states(busy, pb.JOB_STATE_RUNNING) == NODES)
    busy.client.cancel(stopped.job_id)
    assert busy.ended(late).state == pb.JOB_STATE_COMPLETED


def test_a_file_of_the_monitoring_begins_and_ends_it(busy: LiveSite, file: Path) -> None:
    file.write_text("50%\n")
    wait_until("in force", lambda: busy.client.power().HasField("emergency"))
    file.unlink()
    wait_until("over", lambda: not busy.client.power().HasField("emergency"))


def test_it_is_for_operators_and_in_the_audit(busy: LiveSite) -> None:
    begin(busy, "60%")
    busy.wattfold("budget", "emergency", "--end")
    entries = busy.wattfold("audit", "--json", "--action", "BeginEmergency").stdout
    assert "limit_share" in entries
