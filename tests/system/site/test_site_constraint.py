"""`constraint` on a real site: unequal nodes, real programs, memory limits, planned starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from system.site.gate import Gate
from system.site.live_site import EXAMPLES, LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

S, MIB = 10**9, 1 << 20
QUEUES = """
[[queue]]
name = "day"
wait_expected_s = 86400.0
[[queue]]
name = "now"
wait_expected_s = 60.0
"""
UNLIKE = (
    'gpus = ["0", "1"]\nmemory_mib = 512\nmemory_limits = "watch"\n',
    'memory_mib = 192\nmemory_limits = "watch"\n',
)


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="constraint", unlike=UNLIKE, coordinator=QUEUES)


def told(site: LiveSite, job_id: str) -> float:
    """Wait for the expected start of a waiting job, Unix seconds."""
    return wait_until("its start", lambda: site.job(job_id).expected_start_at_s)


def test_the_plan_goes_by_queues_and_by_what_unlike_nodes_have(site: LiveSite) -> None:
    gate = Gate(site.work)
    unit = {"unit": pb.SIZE_UNIT_UNITS, "unit_cores": 2, "size_min": 1, "size_max": 1}

    def submit(name: str, time_s: int, *line: str, **more: Any) -> str:
        argv = line or gate.line(name)
        return site.submit(argv, name=name, time_ns=time_s * S, **unit, **more)

    holder = submit("holder", 300, memory_bytes=400 * MIB, gpus=2)
    (share,) = site.running(holder).shares
    assert (share.node_id, len(share.gpus)) == ("n0", 2)
    # The second job goes first, because its queue has no expected wait. Only n0 has the memory.
    slow = submit("slow", 400, memory_bytes=300 * MIB, queue="day")
    urgent = submit("urgent", 500, memory_bytes=300 * MIB, queue="now")
    # The other node is free for smaller requests in spite of earlier waiting jobs: here a program
    # that works on its two cores.
    program = submit("works", 60, str(EXAMPLES / "stream"), "4", "20", memory_bytes=64 * MIB)
    (share,) = wait_until("the program on n1", lambda: site.job(program).shares)
    assert share.node_id == "n1"
    starts = {job: told(site, job) for job in (urgent, slow)}
    assert 450 < starts[slow] - starts[urgent] < 600
    assert site.ended(program).state == pb.JOB_STATE_COMPLETED
    listed = site.wattfold("queue", "--start").stdout
    assert "urgent" in listed
    assert "slow" in listed
    gate.open("holder")
    (share,) = site.running(urgent).shares
    assert (share.node_id, share.memory_bytes) == ("n0", 300 * MIB)
    # It has started long before its planned start, so all planned starts move up.
    wait_until("an earlier start", lambda: told(site, slow) < starts[slow] - 100)
    gate.open("urgent")
    site.running(slow)
    gate.open("slow")
    assert site.ended(slow).state == pb.JOB_STATE_COMPLETED


def test_units_are_held_to_their_memory(site: LiveSite) -> None:
    eat = "import time; x = b'x' * (150 << 20); time.sleep(30)"
    options = ("--units", "1", "--memory", "100M", "--queue", "now")
    job_id = site.wattfold("submit", *options, "--", sys.executable, "-c", eat).stdout.strip()
    ended = site.ended(job_id)
    assert (ended.state, ended.message) == (
        pb.JOB_STATE_FAILED,
        "over its memory limit of 100 MiB",
    )
