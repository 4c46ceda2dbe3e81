"""Caps of packages and DRAM as jobs request and PARM chooses them, in the files of the zones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import DRAM_W, FLOOR_W, LiveSite, wait_until

from wattfold.contract.units import uw_from_w
from wattfold.v1 import coordinator_pb2 as pb

PARM_DRAM = "dram_levels = 3\ndram_rest_w = 1.5\ndram_work_w = 3.5"


@pytest.fixture(scope="module", params=["parm-wse", "fifo-easy"])
def shared(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy=request.param)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def files_hold(site: LiveSite, index: int, package_w: float, dram_w: float) -> None:
    wanted = {"package": uw_from_w(package_w), "dram": uw_from_w(dram_w)}
    wait_until(f"{wanted} on n{index}", lambda: site.limits_uw(index) == wanted)


def submitted(site: LiveSite, *options: str) -> str:
    asked = ("--cwd", str(site.work), *options, "--", "sleep", "1000")
    return site.wattfold("submit", *asked).stdout.strip()


def test_every_zone_holds_its_own_level(site: LiveSite) -> None:
    levelled = submitted(site, "--nodes", "1", "--cap", "30", "--dram-cap", "3")
    plain = submitted(site, "--nodes", "1", "--cap", "20")
    at = int(site.running(levelled).shares[0].node_id[1:])
    site.running(plain)
    files_hold(site, at, 30, 3)
    files_hold(site, 1 - at, 20, DRAM_W)
    site.client.cancel(levelled)
    site.ended(levelled)
    files_hold(site, at, FLOOR_W, DRAM_W)


def test_levels_are_shown_where_there_are_any(site: LiveSite) -> None:
    levelled = submitted(site, "--nodes", "1", "--cap", "30", "--dram-cap", "3")
    plain = submitted(site, "--nodes", "1")
    site.running(levelled), site.running(plain)
    assert "3.0 W per node, fixed" in site.wattfold("show", levelled).stdout
    assert "DRAM cap" not in site.wattfold("show", plain).stdout
    assert "30.0 W per node, 3.0 W for its DRAM" in site.wattfold("explain", levelled).stdout
    assert "DRAM" not in site.wattfold("explain", plain).stdout
    jobs = {j["job_id"]: j for j in json.loads(site.wattfold("--json", "queue").stdout)["jobs"]}
    assert int(jobs[levelled]["dram_cap_uw"]) == uw_from_w(3)
    assert not int(jobs[plain].get("dram_cap_uw", 0))
    told = site.wattfold("power").stdout
    assert "DRAM -2.0 W (1 job)" in told
    site.client.cancel(levelled)
    site.ended(levelled)
    assert "DRAM and GPU caps" not in site.wattfold("power").stdout


def test_levels_no_node_can_hold_are_refused(site: LiveSite, tmp_path: Path) -> None:
    for options, why in (
        (
            ("--dram-cap", "9"),
            "DRAM cap of 9.000 W per node is outside the range of the nodes, 2.000..5.000",
        ),
        (("--dram-cap", "1"), "DRAM cap of 1.000 W per node is outside the range of the nodes"),
        (("--gpu-cap", "90"), "a GPU cap of 90.000 W is for jobs with their own GPUs"),
    ):
        told = site.wattfold("submit", *options, "--", "true", cwd=tmp_path, check=None)
        assert told.returncode != 0
        assert why in told.stderr


def test_levels_outlive_coordinator_and_agents(site: LiveSite) -> None:
    job = submitted(site, "--nodes", "2", "--cap", "25", "--dram-cap", "4")
    site.running(job)
    for index in (0, 1):
        files_hold(site, index, 25, 4)
    site.coordinator.kill()
    site.coordinator.wait()
    site.kill_agent(0)
    site.restart_coordinator()
    site.start_agent(0)
    assert site.running(job).dram_cap_uw == uw_from_w(4)
    for index in (0, 1):
        files_hold(site, index, 25, 4)


def test_parm_chooses_levels_of_dram(start_site: Callable[..., LiveSite]) -> None:
    """Under scarce power, unused DRAM power goes to the package."""
    site = start_site(nodes=1, budget_w=24 + 10, policy="parm-wse", parm=PARM_DRAM)
    job = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES)
    shown = site.running(job)
    assert shown.dram_cap_uw in {uw_from_w(2.625), uw_from_w(3.75), uw_from_w(5)}
    files_hold(site, 0, shown.cap_uw // 125_000 * 0.125, shown.dram_cap_uw / 1e6)
    spent_w = (shown.cap_uw + shown.dram_cap_uw) / 1e6 - FLOOR_W - DRAM_W
    assert 0 <= spent_w <= 10
    assert "DRAM at" in site.wattfold("explain", job).stdout
    site.cancel_all()
    files_hold(site, 0, FLOOR_W, DRAM_W)
