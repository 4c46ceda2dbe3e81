"""The mate that loses less lends: OpenMP programs, with speeds reported by their shims."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.shims.programs_build import compile_program
from system.site.live_site import CPUS, EXAMPLES, MARK, LiveSite, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

pytestmark = [
    pytest.mark.skipif(len(CPUS) < 2, reason="a mate needs a core to lend and one to keep"),
]
SCALES, WAITS = "0.05", "0.9"
"""Serial shares of the run time on one core."""


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="slowdown-driven", cpu_share=0.1)


@pytest.fixture(scope="module")
def paced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program(
        "paced.c", EXAMPLES.parent, tmp_path_factory.mktemp("programs"), "-fopenmp"
    )


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def start(site: LiveSite, paced: Path, time_s: float, serial: str, app: str) -> str:
    """A program that reports its progress until it is cancelled."""
    return site.submit(
        [str(paced), serial],
        app=app,
        # Waiting threads must not use up the CPU time that the node's cap allows.
        env={"PATH": os.environ["PATH"], MARK: str(site.folder), "OMP_WAIT_POLICY": "passive"},
        kind=pb.JOB_KIND_MALLEABLE,
        size_min=1,
        size_max=len(CPUS),
        time_ns=round(time_s * 1e9),
        mode=common_pb2.RESIZE_MODE_TEAM,
    )


def cores(site: LiveSite, job_id: str) -> int:
    return sum(len(CpuSet.parse(share.cpus)) for share in site.job(job_id).shares)


def node(site: LiveSite, job_id: str) -> str:
    return site.job(job_id).shares[0].node_id


def test_who_loses_less_lends_once_that_was_seen(site: LiveSite, paced: Path) -> None:
    # By the users' estimates, the second, longer mate is slowed less by the same guest.
    mates = [
        start(site, paced, 36_000, WAITS, "mate-waits"),
        start(site, paced, 40_000, SCALES, "mate-scales"),
    ]
    for mate in mates:
        site.running(mate)
        wait_until("all cores", lambda mate=mate: cores(site, mate) == len(CPUS))
        wait_until("a speed on all", lambda mate=mate: site.job(mate).speeds)
        assert site.job(mate).half_speed == 0
    guests = [start(site, paced, 600, SCALES, "guest") for _ in mates]
    for guest in guests:
        site.running(guest)
    assert {node(site, guest) for guest in guests} == {node(site, mate) for mate in mates}
    for mate in mates:
        wait_until("its share", lambda mate=mate: cores(site, mate) < len(CPUS))
        wait_until("two speeds", lambda mate=mate: site.job(mate).half_speed > 0)
    for guest in guests:
        site.client.cancel(guest)
    for mate in mates:
        wait_until("its cores again", lambda mate=mate: cores(site, mate) == len(CPUS))
    waits, scales = (site.job(mate).half_speed for mate in mates)
    assert scales < waits

    guest = start(site, paced, 600, SCALES, "guest")
    site.running(guest)
    assert node(site, guest) == node(site, mates[0])
    wait_until("fewer cores", lambda: cores(site, mates[0]) < len(CPUS))
    assert cores(site, mates[1]) == len(CPUS)
    assert "of its speed (measured)" in site.wattfold("explain", mates[0]).stdout
    assert "of full speed, measured on" in site.wattfold("show", mates[0]).stdout
