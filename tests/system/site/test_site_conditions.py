"""Jobs that wait for others and for a time, on a real site, over kill -9 of the coordinator."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


@pytest.fixture
def gate(site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return Gate(tmp_path_factory.mktemp("gate"))


def submitted(site: LiveSite, *arguments: str, check: int = 0) -> str:
    return site.wattfold("submit", *arguments, check=check).stdout.strip()


def test_conditions_survive_kill_9_and_hold_to_the_end(site: LiveSite, gate: Gate) -> None:
    good = site.submit(gate.line("first"))
    bad = submitted(site, "--hold", "--", "false")
    after_good = submitted(site, "--after", f"ok:{good}", "--", "sh", "-c", "echo $SECRET_OF_TEST")
    after_bad = submitted(site, "--after", f"ok:{bad}", "--", "true")
    behind = submitted(site, "--after", f"any:{after_bad}", "--", "true")
    any_end = submitted(site, "--after", f"any:{good},{bad}", "--begin", "now+1s", "--", "true")
    site.running(good)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    assert site.job(after_good).reason == f"waits for success of job {good}"
    assert site.job(any_end).reason == f"waits for the end of jobs {good}, {bad}"
    site.wattfold("release", bad)
    assert site.ended(bad).state == pb.JOB_STATE_FAILED
    wait_until("the reason", lambda: "in vain" in site.job(behind).reason)
    assert site.job(after_bad).state == pb.JOB_STATE_PENDING
    # Other jobs are not affected by jobs that wait in vain.
    assert site.ended(site.submit(["true"])).state == pb.JOB_STATE_COMPLETED
    gate.open("first")
    ended = site.ended(good)
    for job_id in (after_good, any_end):
        done = site.ended(job_id)
        assert done.state == pb.JOB_STATE_COMPLETED
        assert done.started_at_s >= ended.ended_at_s
    assert "waits in vain: it needs success" in site.wattfold("queue").stdout
    site.wattfold("cancel", after_bad)
    assert site.ended(behind).state == pb.JOB_STATE_COMPLETED


def test_a_job_begins_at_its_time_and_not_before(site: LiveSite) -> None:
    later = submitted(site, "--begin", "now+90m", "--", "true")
    assert re.search(r"expected start +\d.* \(in 1h", site.wattfold("show", later).stdout)
    assert "(waits for its begin time, " in site.wattfold("queue").stdout
    job_id = submitted(site, "--begin", "now+2s", "--", "true")
    shown = site.job(job_id)
    assert site.ended(job_id).started_at_s >= shown.begin_at_s
    assert site.job(later).state == pb.JOB_STATE_PENDING


def test_unknown_jobs_are_refused(site: LiveSite) -> None:
    refused = site.wattfold("submit", "--after", "ok:999", "--", "true", check=4)
    assert "no job '999' to wait for" in refused.stderr


def test_scripts_of_slurm_may_depend_on_jobs(site: LiveSite, tmp_path: Path, gate: Gate) -> None:
    first = site.submit(gate.line("first"))
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH -d afterok:{first}\n#SBATCH --begin=now+1\ntrue\n")
    os.chmod(script, 0o755)
    second = site.wattfold("submit", str(script), cwd=tmp_path).stdout.strip()
    assert "waits for success" in site.job(second).reason
    gate.open("first")
    assert site.ended(second).state == pb.JOB_STATE_COMPLETED
