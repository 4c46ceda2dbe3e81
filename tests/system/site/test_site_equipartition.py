"""A new job makes a running OpenMP program smaller, and returns its cores at its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from system.site.live_site import CPUS, EXAMPLES, LiveSite, thread_masks, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


def team(site: LiveSite, size_min: int = 1) -> str:
    """A program that runs until it is cancelled."""
    return site.submit(
        [str(EXAMPLES / "compute"), "100000000"],
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=size_min,
        size_max=len(CPUS),
        time_ns=3600 * 10**9,
        mode=common_pb2.RESIZE_MODE_TEAM,
    )


def mask(pid: int) -> CpuSet:
    """Cores that any thread of a process may run on."""
    found = CpuSet()
    for one in thread_masks(pid).values():
        found = found | one
    return found


@pytest.mark.skipif(len(CPUS) < 2, reason="two cores to share")
def test_two_programs_share_the_cores_of_a_node_equally(
    start_site: Callable[..., LiveSite],
) -> None:
    site = start_site(nodes=1, policy="equipartition", cpu_share=0.4)
    first = team(site)
    site.running(first)
    pid = site.pid(first)
    wait_until("all cores", lambda: len(mask(pid)) == len(CPUS))
    second = team(site)
    site.running(second)
    other = site.pid(second)
    part = len(CPUS) // 2
    wait_until("equal parts", lambda: (len(mask(pid)), len(mask(other))) == (part, part))
    wait_until("a smaller team", lambda: site.shown(first)["team_size"] == part)
    assert not mask(pid) & mask(other)
    site.wattfold("cancel", second)
    site.ended(second)
    wait_until("all cores again", lambda: len(mask(pid)) == len(CPUS))
    site.cancel_all()


@pytest.mark.skipif(len(CPUS) < 2, reason="two cores to share")
def test_a_least_size_that_does_not_fit_waits_and_says_so(
    start_site: Callable[..., LiveSite],
) -> None:
    site = start_site(nodes=1, policy="equipartition", cpu_share=0.4)
    first = team(site)
    site.running(first)
    second = team(site, size_min=len(CPUS))
    reason = "next to the minimum sizes of other jobs"
    wait_until("its reason", lambda: reason in site.job(second).reason)
    site.wattfold("cancel", first)
    site.running(second)
    site.cancel_all()
