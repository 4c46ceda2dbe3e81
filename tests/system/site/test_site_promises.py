"""Planned starts survive kill -9 of coordinator and agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from system.site.gate import Gate
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

S = 10**9


def promised(site: LiveSite) -> dict[str, float]:
    """Planned starts by job, Unix seconds."""
    jobs = site.client.list_jobs().jobs
    return {job.job_id: job.expected_start_at_s for job in jobs if job.start_promised}


def test_promises_are_what_they_were_after_the_coordinator_was_killed(
    start_site: Callable[..., LiveSite],
) -> None:
    site = start_site(nodes=2, policy="conservative")
    gate = Gate(site.work)

    def submit(name: str, nodes: int, time_s: int, **more: Any) -> str:
        sizes = {"unit": pb.SIZE_UNIT_NODES, "size_min": nodes, "size_max": nodes}
        return site.submit(gate.line(name), name=name, time_ns=time_s * S, **sizes, **more)

    first = submit("first", 1, 600)
    site.running(first)
    # Both nodes after the end of the first job. The long job would delay that, so it comes later.
    wide = submit("wide", 2, 900)
    long = submit("long", 1, 5000)
    short = submit("short", 1, 100)
    site.running(short)
    before = wait_until("both promises", lambda: _all(promised(site), {wide, long}))
    assert 500 < before[long] - before[wide] < 1000
    for killed in ("coordinator", "coordinator", "agent and coordinator"):
        if killed.startswith("agent"):
            site.kill_agent(0)
        site.coordinator.kill()
        site.coordinator.wait()
        if killed.startswith("agent"):
            site.start_agent(0)
        site.restart_coordinator()
        wait_until("both nodes up", lambda: all(_up(n) for n in site.client.list_nodes().nodes))
        # A later job makes the policy plan again, but delays no planned start.
        later = submit(f"later-{len(promised(site))}", 1, 4000)
        told = wait_until("its promise", lambda later=later: _all(promised(site), {wide, later}))
        assert {job: told[job] for job in before} == before, killed
        assert told[later] >= before[wide] + 800
        before = told
    # After an early end all jobs move up in order.
    gate.open("short")
    gate.open("first")
    site.running(wide)
    after = wait_until("new promises", lambda: _moved(promised(site), before, long))
    assert after[long] < before[long]
    site.cancel_all()


def _all(found: dict[str, float], wanted: set[str]) -> dict[str, float]:
    return found if wanted <= found.keys() else {}


def _moved(found: dict[str, float], before: dict[str, float], job: str) -> dict[str, float]:
    return found if found.get(job, before[job]) < before[job] else {}


def _up(node: pb.Node) -> bool:
    return node.state == pb.NODE_STATE_UP
