"""The history of a real coordinator: kill -9, the commands of the guide."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable

import pytest
from system.site.live_site import ROOT, LiveSite

from wattfold.v1 import coordinator_pb2 as pb

PAGE = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    wattfold (.*)$", PAGE, re.M)
SETTINGS = "[history]\nkeep_days = 731\n"


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1, parm=SETTINGS)


def listed(site: LiveSite) -> list[str]:
    answer = site.client.list_history(pb.ListHistoryRequest())
    return sorted(job.job_id for job in answer.jobs)


def test_no_job_is_missing_or_twice_after_kill_9(site: LiveSite) -> None:
    jobs = [site.submit(["sh", "-c", f"exit {code}"]) for code in (0, 3)]
    for job in jobs:
        site.ended(job)
    assert listed(site) == jobs
    more = [site.submit(["true"]) for _ in range(3)]
    for job in more:
        site.ended(job)
    # The last rows are not written yet, unless the machine is slow.
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    assert listed(site) == sorted(jobs + more)
    report = site.client.report(pb.GetReportRequest(by="day"))
    assert (report.total.jobs, report.total.failures) == (5, 1)


def test_a_job_has_its_measurements(site: LiveSite) -> None:
    job = site.submit(
        ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"], name="busy", app="loop"
    )
    site.ended(job)
    shown = site.job(job)
    request = pb.ListHistoryRequest(app="loop")
    [found] = site.client.list_history(request).jobs
    assert (found.job_id, found.state, found.name) == (job, pb.JOB_STATE_COMPLETED, "busy")
    assert found.core_s == pytest.approx(shown.core_ns / 1e9, abs=0.001)
    assert found.energy_j == pytest.approx(shown.energy_uj / 1e6, abs=0.001)
    assert found.core_s > 0
    assert found.mean_cap_w > 0
    assert (found.node_list, found.policy, found.attempts) == ("n0", "parm-wse", 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_guide_work(site: LiveSite, command: str) -> None:
    done = site.wattfold(*shlex.split(command))
    assert done.stdout
    if command.endswith(("--json", "--format json")):
        assert json.loads(done.stdout)


def test_the_guide_has_commands() -> None:
    assert len(COMMANDS) >= 8
    assert SETTINGS.strip().replace("\n", "\n    ") in PAGE
