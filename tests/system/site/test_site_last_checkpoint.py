"""An orderly stop stores the state while leases are renewed; a second signal skips this."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import grpc
from system.site.live_site import LiveSite, wait_until
from warm.commands import is_source

from wattfold.nodeagent.ending import children_of
from wattfold.v1 import node_agent_pb2 as agent_pb
from wattfold.v1 import node_agent_pb2_grpc

RENEWALS = 6
"""Number of renewals: more than fit into one lease of 3 s, which is renewed every third of it."""


@contextmanager
def slow_workers(site: LiveSite) -> Iterator[None]:
    """Stop the workers of the coordinator in the block, so that writing the state takes longer."""
    workers = [pid for pid in children_of(site.coordinator.pid) if not is_source(pid)]
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in workers:
        if pid in children_of(site.coordinator.pid):
            os.kill(pid, signal.SIGCONT)


def checkpoints(site: LiveSite) -> list[int]:
    """Numbers of the events included in the checkpoint."""
    journal = next(site.folder.rglob("journal.sqlite"))
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute("SELECT event_id FROM checkpoint")]


def wait_for_renewals(site: LiveSite) -> None:
    """Wait until a lease was renewed more than `RENEWALS` times."""
    with grpc.insecure_channel(f"unix:{site.agent_socket(0)}") as channel:
        stub = node_agent_pb2_grpc.NodeAgentStub(channel)
        lefts_ns = [0]
        renewals = [0]

        def renewed() -> bool:
            answer = stub.GetInventory(agent_pb.GetInventoryRequest(), timeout=240)
            renewals[0] += answer.lease_remaining_ns > lefts_ns[0]
            lefts_ns[0] = answer.lease_remaining_ns
            assert answer.lease_remaining_ns > 0
            return renewals[0] > RENEWALS

        wait_until("renewals", renewed)


def test_leases_are_renewed_until_the_state_is_stored(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1)
    job_id = site.submit(["sleep", "1000"])
    site.running(job_id)
    assert not checkpoints(site)
    with slow_workers(site):
        site.coordinator.send_signal(signal.SIGTERM)
        wait_for_renewals(site)
        assert site.coordinator.poll() is None
    assert site.coordinator.wait(240) == 0
    assert checkpoints(site)
    site.restart_coordinator()
    site.running(job_id)


def test_a_second_signal_ends_it_at_once(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1)
    job_id = site.submit(["sleep", "1000"])
    site.running(job_id)
    with slow_workers(site):
        site.coordinator.send_signal(signal.SIGTERM)
        wait_for_renewals(site)
        site.coordinator.send_signal(signal.SIGTERM)
        assert site.coordinator.wait(240) == 0
    assert not checkpoints(site)
    site.restart_coordinator()
    site.running(job_id)
