"""A killed coordinator restarts: leases are renewed and an accepted cut is not undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from system.site.conftest import start_site
from system.site.live_site import BASE_W, IDLE_W, LiveSite, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["start_site"]

pytestmark = pytest.mark.system
LEASE_S = 60.0
"""No lease ends in this test, however busy the machine is."""
CUT_W = 2 * IDLE_W + 4


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", lease_s=LEASE_S)


def starts_of(site: LiveSite) -> list[str]:
    """Log entries of each start, including the first."""
    text = (site.logs / "coordinator.log").read_text()
    return text.split("event=coordinator_started")


def drawn_uw(site: LiveSite) -> int:
    """Maximum power of both nodes now, by the limits of their zones."""
    return sum(uw(BASE_W) + sum(site.limits_uw(index).values()) for index in range(2))


def test_leases_are_held_and_a_cut_before_the_kill_is_not_undone(site: LiveSite) -> None:
    job = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(job)
    wait_until("the caps of the job", lambda: drawn_uw(site) > uw(CUT_W))
    before_uw = drawn_uw(site)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("both nodes up", lambda: all(n.state == pb.NODE_STATE_UP for n in nodes(site)))
    assert "event=leases_held nodes=2 of=2 epoch=1" in starts_of(site)[1]
    assert drawn_uw(site) == before_uw

    site.lowered.append((0.0, float("inf")))
    site.client.set_budget(uw(CUT_W), deadline_ns=0)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("the cut is kept", lambda: drawn_uw(site) <= uw(CUT_W))
    assert site.client.power().budget_uw == uw(CUT_W)
    site.client.cancel(job)
    site.ended(job)


def nodes(site: LiveSite) -> list[pb.Node]:
    return list(site.client.list_nodes().nodes)
