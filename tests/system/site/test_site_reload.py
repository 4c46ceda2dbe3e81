"""`wattfold reload` against a real site: another policy, while jobs run."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from system.site.conftest import start_site
from system.site.live_site import LiveSite, wait_until

from wattfold.coordinator.policies import registry
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["start_site"]

FIRST = "fifo-easy"


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    made = start_site(nodes=2, policy=FIRST)
    job = made.submit(["sleep", "100000"])
    made.running(job)
    return made


def written(site: LiveSite, *changes: tuple[str, str]) -> None:
    """Change texts in the configuration of the coordinator."""
    file = site.folder / "coordinator.toml"
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)


@pytest.mark.parametrize("name", sorted(registry.service_names()))
def test_each_policy_takes_over_with_jobs_running(site: LiveSite, name: str) -> None:
    (runs,) = site.client.list_jobs().jobs
    pid, epoch = site.pid(runs.job_id), site.coordinator.pid
    before = site.client.power().policy
    caps = [site.limits_uw(index) for index in range(2)]
    written(site, (f'policy = "{before}"', f'policy = "{name}"'))
    answer = json.loads(site.wattfold("--json", "reload").stdout)
    primary = registry.find(name).variant.name
    assert answer["policy"] == primary
    assert answer.get("changed", []) == (["policy"] if primary != before else [])
    assert site.client.power().policy == primary
    job = site.submit(["true"])
    assert site.ended(job).state == pb.JOB_STATE_COMPLETED
    assert site.client.power().policy == primary
    assert (site.pid(runs.job_id), site.coordinator.pid) == (pid, epoch)
    log = (site.logs / "coordinator.log").read_text()
    assert "event=lease" not in log
    assert all(site.limits_uw(index).keys() == caps[index].keys() for index in range(2))


def test_a_new_policy_plans_what_waits_at_once(start_site: Callable[..., LiveSite]) -> None:
    """A job that the first policy leaves waiting starts without another event."""
    site = start_site(nodes=1, policy="fifo")
    wide = site.submit(["sleep", "100000"], size_min=1, limit_ns=3600 * 10**9)
    site.running(wide)
    blocked = site.submit(["true"], size_min=2, limit_ns=3600 * 10**9)
    small = site.submit(["true"], limit_ns=10 * 10**9)
    wait_until("a reason", lambda: site.job(small).reason not in ("", "not planned yet"))
    assert site.job(small).state == pb.JOB_STATE_PENDING
    written(site, ('policy = "fifo"', 'policy = "fifo-easy"'))
    site.wattfold("reload")
    assert site.ended(small).state == pb.JOB_STATE_COMPLETED
    assert site.job(blocked).state == pb.JOB_STATE_PENDING


def test_an_error_changes_nothing_and_is_told(site: LiveSite) -> None:
    before = site.client.power().policy
    written(site, (f'policy = "{before}"', 'policy = "no-such"'))
    done = site.wattfold("reload", check=None)
    assert done.returncode != 0
    assert "nothing was changed" in done.stderr
    assert "no-such" in done.stderr
    assert site.client.power().policy == before
    written(site, ('policy = "no-such"', f'policy = "{before}"'))


def test_what_needs_a_restart_is_told(site: LiveSite) -> None:
    file = site.folder / "coordinator.toml"
    text = file.read_text()
    file.write_text(f"audit_entries = 7777\n{text}")
    done = site.wattfold("reload", check=None)
    file.write_text(text)
    assert done.returncode == 0, done.stderr
    assert "Restart the coordinator for: audit_entries." in done.stderr
    assert "Changed: nothing." in site.wattfold("reload").stdout
