"""An orderly stop: exit 0, no sockets, no processes, and on request the original limits."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.live_site import EXAMPLES, LiveSite, wait_pid_gone, wait_until

from wattfold.v1 import coordinator_pb2 as pb

STUBBORN = "trap '' TERM INT HUP; (trap '' TERM INT HUP; sleep 1000) & echo up; wait; sleep 1000"


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, restore_on_stop=True)


def zone(site: LiveSite, index: int, name: str) -> Path:
    root = site.folder / site.plan.nodes[index].node_id / "powercap" / "intel-rapl:0"
    return root if name == "package" else root / "intel-rapl:0:0"


def write_limits(site: LiveSite, **limits_w: float) -> None:
    """Set limits as another tool would before our agents start."""
    for index in range(2):
        for name, limit_w in limits_w.items():
            path = zone(site, index, name) / "constraint_0_power_limit_uw"
            path.write_text(f"{int(limit_w * 1e6)}\n")


def stop_all(site: LiveSite, number: signal.Signals) -> None:
    site.coordinator.send_signal(number)
    assert site.coordinator.wait(240) == 0
    assert not site.coordinator_socket.exists()
    for index in range(2):
        site.agent(index).send_signal(number)
    for index in range(2):
        assert site.agent(index).wait(240) == 0
        assert not site.agent_socket(index).exists()
        assert not (site.agent_socket(index).parent / "shims").exists()


def come_back(site: LiveSite) -> None:
    """Starts all that was stopped, on nodes whose limits another tool has changed."""
    write_limits(site, package=40.0, dram=4.0)
    for index in range(2):
        site.start_agent(index)
    site.restart_coordinator()
    for index in range(2):
        wait_until("up", lambda index=index: site.node(index).state == pb.NODE_STATE_UP)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left(site: LiveSite, number: signal.Signals) -> None:
    jobs = [
        site.submit([str(EXAMPLES / "compute"), "10000000"]),
        site.submit(["/bin/sh", "-c", "sleep 1000 & sleep 1000"]),
        site.submit(["/usr/bin/setsid", "--wait", "sleep", "1000"]),
    ]
    for job_id in jobs:
        site.running(job_id)
    before = [site.limits_uw(index) for index in range(2)]
    stop_all(site, number)
    wait_until("all processes have ended", lambda: not site.processes())
    after = [site.limits_uw(index) for index in range(2)]
    assert after != before
    come_back(site)
    for job_id in jobs:
        job = site.ended(job_id)
        assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 128 + 15)


def test_the_limits_of_before_come_back_after_a_crash(site: LiveSite) -> None:
    """Capped zones are not taken for limits of before."""
    stop_all(site, signal.SIGTERM)
    come_back(site)
    job_id = site.submit([str(EXAMPLES / "compute"), "10000000"])
    site.running(job_id)
    pid = site.pid(job_id)
    for index in range(2):
        assert site.limits_uw(index)["package"] < 40_000_000
        site.kill_agent(index)
        assert site.limits_uw(index)["package"] < 40_000_000
        site.start_agent(index)
    stop_all(site, signal.SIGTERM)
    wait_pid_gone(pid)
    for index in range(2):
        assert site.limits_uw(index) == {"package": 40_000_000, "dram": 4_000_000}
    come_back(site)


def test_a_job_that_does_not_want_to_end(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sh", "-c", STUBBORN])
    output = site.work / f"wattfold-{job_id}.out"
    wait_until("its traps are set", lambda: output.exists() and output.read_text())
    site.client.cancel(job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_CANCELLED
    stop_all(site, signal.SIGTERM)
    wait_until("all processes have ended", lambda: not site.processes())
    come_back(site)
