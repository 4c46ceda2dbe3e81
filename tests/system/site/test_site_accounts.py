"""Limits of accounts on a real site: jobs wait for them, say so, and start when others end."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

ACCOUNTS = """
[[account]]
name = "lab"
members = ["*"]
cores_max = 2
[[account]]
name = "one"
members = ["*"]
cores_max = 1
"""
QUEUES = '[[queue]]\nname = "second"\nnodes = ["n1"]\n'
REASON = "waits for the end of other jobs: its account may use at most 2 cores at the same time"


@pytest.mark.parametrize("policy", ["parm-wse", "fifo-easy"])
def test_jobs_wait_for_the_limit_of_their_account(
    start_site: Callable[..., LiveSite], policy: str
) -> None:
    site = start_site(nodes=1, policy=policy, coordinator=ACCOUNTS)
    submit = ("submit", "--account", "lab", "--cores")
    first = site.wattfold(*submit, "2", "--", "sleep", "1000").stdout.strip()
    site.running(first)
    second = site.wattfold(*submit, "1", "--", "sleep", "1000").stdout.strip()
    wait_until("a reason", lambda: site.job(second).reason == REASON)
    assert site.job(second).state == pb.JOB_STATE_PENDING
    assert site.shown(second)["spec"]["account"] == "lab"
    assert REASON in site.wattfold("queue", "--format", "id,reason").stdout
    assert REASON[1:] in site.wattfold("explain", second).stdout
    lab, _ = json.loads(site.wattfold("--json", "accounts").stdout)["accounts"]
    assert (lab["name"], lab["cores"], lab["cores_max"], lab["jobs_waiting"]) == ("lab", 2, 2, 1)
    assert "lab" in site.wattfold("accounts").stdout
    told = site.wattfold("submit", "--account", "one", "--cores", "2", "--", "true", check=None)
    assert "account one may use at most 1 core at the same time" in told.stderr
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("the node", lambda: site.node(0).state == pb.NODE_STATE_UP)
    assert site.job(second).reason == REASON
    site.client.cancel(first)
    site.running(second)
    site.client.cancel(second)


def test_jobs_of_a_partition_run_on_its_nodes_and_count_in_reports(
    start_site: Callable[..., LiveSite],
) -> None:
    site = start_site(nodes=2, policy="fifo-easy", coordinator=ACCOUNTS + QUEUES)
    submit = ("submit", "--account", "lab", "--queue", "second")
    first = site.wattfold(*submit, "--", "true").stdout.strip()
    site.ended(first)
    assert site.shown(first)["spec"]["among"] == ["n1"]
    (job,) = json.loads(site.wattfold("--json", "history", "--account", "lab").stdout)["jobs"]
    assert (job["account"], job["node_list"]) == ("lab", "n1")
    (row,) = json.loads(site.wattfold("report", "--by", "account", "--json").stdout)["rows"]
    assert (row["key"], row["jobs"]) == ("lab", 1)
    told = site.wattfold(*submit, "--among", "n0", "--", "true", check=None)
    assert "node n0 is not in queue second" in told.stderr
