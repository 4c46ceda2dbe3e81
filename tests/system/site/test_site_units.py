"""Jobs of units on a real site: on parts of two nodes, with the resources of the units there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

AGENT = 'gpus = ["0", "1"]\nmemory_mib = 512\nmemory_limits = "watch"\n'
TELLS = (
    'echo "$WATTFOLD_RANK $WATTFOLD_TASKS $OMP_NUM_THREADS $WATTFOLD_GPUS"'
    " > told.$WATTFOLD_JOB_ID.$WATTFOLD_RANK; exec sleep 1000"
)


@pytest.fixture(scope="module", params=["pbs-fifo", "parm-wse"])
def shared(request: pytest.FixtureRequest, start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy=request.param, agent=AGENT)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def told(site: LiveSite, job_id: str, rank: int) -> list[str]:
    """Rank, tasks, threads per task and GPUs, as reported by a process of the job."""
    file = site.work / f"told.{job_id}.{rank}"
    return wait_until("its word", lambda: file.exists() and file.read_text().split())


def test_units_are_spread_over_what_is_there(site: LiveSite) -> None:
    options = ("--units", "2", "--spread", "apart", "--memory", "100M", "--gpus", "1")
    job_id = site.wattfold(
        "submit", *options, "--cwd", str(site.work), "--", "sh", "-c", TELLS
    ).stdout.strip()
    shares = site.running(job_id).shares
    assert len({share.node_id for share in shares}) == 2
    assert {share.memory_bytes for share in shares} == {100 << 20}
    assert [len(share.gpus) for share in shares] == [1, 1]
    for rank, share in enumerate(shares):
        assert told(site, job_id, rank) == [str(rank), "1", "1", share.gpus[0]]
    sheet = site.wattfold("show", job_id).stdout
    assert "2x1 units of 1 core" in sheet


def test_two_units_on_one_node_have_twice_the_memory(site: LiveSite) -> None:
    options = ("--units", "2", "--spread", "together", "--memory", "100M", "--gpus", "1")
    job_id = site.wattfold(
        "submit", *options, "--cwd", str(site.work), "--", "sh", "-c", TELLS
    ).stdout.strip()
    (share,) = site.running(job_id).shares
    assert (share.memory_bytes, len(share.gpus)) == (200 << 20, 2)
    assert told(site, job_id, 0) == ["0", "2", "1", ",".join(share.gpus)]


@pytest.mark.parametrize(("mib", "state"), [(150, "COMPLETED"), (300, "FAILED")])
def test_a_node_is_held_to_the_memory_of_its_units(site: LiveSite, mib: int, state: str) -> None:
    eat = f"import time; x = b'x' * ({mib} << 20); time.sleep(3)"
    options = ("--units", "2", "--spread", "together", "--memory", "100M")
    job_id = site.wattfold("submit", *options, "--", sys.executable, "-c", eat).stdout.strip()
    ended = site.ended(job_id)
    assert ended.state == pb.JobState.Value(f"JOB_STATE_{state}")
    if state == "FAILED":
        assert ended.message == "over its memory limit of 200 MiB"


def test_what_cannot_be_is_refused(site: LiveSite) -> None:
    for options, why in (
        (("--units", "3", "--spread", "apart"), "on separate nodes; only 2 nodes hold a unit"),
        (("--units", "3", "--memory", "400M"), "all nodes together hold 2"),
        (("--units", "1", "--gpus", "3"), "3 GPUs for each unit; a node has at most 2"),
        (("--units", "1", "--tasks-per-node", "2"), "each unit is one task"),
    ):
        refused = site.wattfold("submit", *options, "--", "true", check=None)
        assert why in refused.stderr
