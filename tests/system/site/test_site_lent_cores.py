"""The coordinator restarts with another policy while cores are lent: the cores return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from system.site.live_site import CPUS, EXAMPLES, LiveSite, wait_until
from system.site.test_site_slowdown_driven import mask, team

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb


def held(site: LiveSite, job_id: str) -> int:
    return sum(len(CpuSet.parse(share.cpus)) for share in site.job(job_id).shares)


def whole(site: LiveSite, time_s: float) -> str:
    """An OpenMP program on a whole node that it shares, until it is cancelled."""
    return site.submit(
        [str(EXAMPLES / "compute"), "100000000"],
        kind=pb.JOB_KIND_MALLEABLE,
        unit=pb.SIZE_UNIT_NODES,
        size_min=1,
        size_max=1,
        time_ns=round(time_s * 1e9),
        mode=common_pb2.RESIZE_MODE_TEAM,
        sharing=pb.CORE_SHARING_BOTH,
    )


@pytest.mark.parametrize(
    ("policy", "submit"),
    [("fifo-easy", team), ("fifo-easy", whole), ("parm-wse", whole)],
    ids=["easy-cores", "easy-nodes", "parm-nodes"],
)
def test_another_policy_gives_back_what_was_lent(
    start_site: Callable[..., LiveSite], policy: str, submit: Callable[..., str]
) -> None:
    site = start_site(nodes=1, policy="slowdown-driven", cpu_share=0.4)
    owner = submit(site, 3600)
    site.running(owner)
    wait_until("all cores", lambda: held(site, owner) == len(CPUS))
    pid = site.pid(owner)
    guest = submit(site, 60)
    site.running(guest)
    wait_until("half of the node", lambda: held(site, owner) < len(CPUS))

    site.coordinator.kill()
    site.coordinator.wait(240)
    site.plan = replace(site.plan, policy=policy)
    site.restart_coordinator()
    wait_until("both jobs again", lambda: held(site, owner) and held(site, guest))
    assert site.job(owner).state == site.job(guest).state == pb.JOB_STATE_RUNNING
    site.client.cancel(guest)
    site.ended(guest)
    wait_until("its cores", lambda: held(site, owner) == len(CPUS))
    wait_until("the kernel's mask", lambda: len(mask(pid)) == len(CPUS))
    assert site.pid(owner) == pid
