"""A waiting job shares a node with a mate: OpenMP programs, with sizes read from the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from system.site.live_site import CPUS, EXAMPLES, LiveSite, thread_masks, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="slowdown-driven", cpu_share=0.4)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def team(site: LiveSite, time_s: float, size_min: int = 1) -> str:
    """A program that runs until it is cancelled, with this estimate of its user."""
    return site.submit(
        [str(EXAMPLES / "compute"), "100000000"],
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=size_min,
        size_max=len(CPUS),
        time_ns=round(time_s * 1e9),
        mode=common_pb2.RESIZE_MODE_TEAM,
    )


def mask(pid: int) -> CpuSet:
    """Cores that any thread of a process may run on."""
    found = CpuSet()
    for one in thread_masks(pid).values():
        found = found | one
    return found


def sized(site: LiveSite, job_id: str, pid: int, size: int) -> None:
    """Wait until coordinator, kernel and team agree on a size."""
    wait_until("its cores", lambda: _held(site, job_id) == size)
    wait_until("the kernel's mask", lambda: len(mask(pid)) == size)
    wait_until("the team", lambda: site.shown(job_id)["team_size"] == size)


def _held(site: LiveSite, job_id: str) -> int:
    return sum(len(CpuSet.parse(share.cpus)) for share in site.job(job_id).shares)


def _nodes(site: LiveSite, job_id: str) -> set[str]:
    return {share.node_id for share in site.job(job_id).shares}


def test_a_guest_runs_on_cores_its_mate_lends_and_gives_them_back(site: LiveSite) -> None:
    owners = [team(site, 3600), team(site, 3600)]
    for owner in owners:
        site.running(owner)
    pids = {owner: site.pid(owner) for owner in owners}
    for owner, pid in pids.items():
        sized(site, owner, pid, len(CPUS))
    guest = team(site, 60)
    site.running(guest)
    guest_pid = site.pid(guest)
    mate = next(owner for owner in owners if _nodes(site, owner) == _nodes(site, guest))
    other = next(owner for owner in owners if owner != mate)
    sized(site, mate, pids[mate], 1)
    sized(site, guest, guest_pid, 1)
    assert mask(guest_pid).isdisjoint(mask(pids[mate]))
    assert _held(site, other) == len(CPUS)
    site.client.cancel(guest)
    sized(site, mate, pids[mate], len(CPUS))
    assert site.pid(mate) == pids[mate]


def test_a_guest_gets_the_cores_of_an_owner_that_is_cancelled(site: LiveSite) -> None:
    owners = [team(site, 3600), team(site, 3600)]
    for owner in owners:
        site.running(owner)
    guest = team(site, 60)
    site.running(guest)
    guest_pid = site.pid(guest)
    sized(site, guest, guest_pid, 1)
    mate = next(owner for owner in owners if _nodes(site, owner) == _nodes(site, guest))
    site.client.cancel(mate)
    sized(site, guest, guest_pid, len(CPUS))


def test_a_job_that_must_not_shrink_is_no_mate(site: LiveSite) -> None:
    for _ in range(2):
        site.running(team(site, 3600, size_min=len(CPUS)))
    waits = team(site, 60)
    wait_until("a plan", lambda: "first in the queue" in site.job(waits).reason)
    assert site.job(waits).state == pb.JOB_STATE_PENDING
