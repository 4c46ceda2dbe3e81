"""A real Charm++ job over several nodes releases nodes while it runs, and takes them again."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.charm.nodes_job import ENDLESS, GATED, RODS, GatedJob, NodesJob
from system.site.live_site import LiveSite, site_plan, wait_until

from wattfold.v1 import coordinator_pb2 as pb

NODES = 3

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    plan = site_plan(nodes=NODES, policy="fifo-easy", cpu_share=0.9)
    logs = tmp_path_factory.mktemp("site") / "logs"
    with LiveSite(replace(plan, omp_shim=None), logs) as running:
        yield running
    running.check_record()
    assert not running.processes()


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def changes_learned(site: LiveSite, job: NodesJob) -> int:
    """Changes of size of this program that other tests have made."""
    known = site.client.list_profiles(site.job(job.id).spec.app).profiles
    return sum(cost.changes for profile in known for cost in profile.resize_costs)


def test_a_node_is_given_back_used_by_another_job_and_taken_again(site: LiveSite) -> None:
    job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
    earlier = changes_learned(site, job)
    job.on(3)
    job.resize(1)
    job.on(1)
    guest = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(guest)
    assert {share.node_id for share in site.job(guest).shares} == {"n1", "n2"}
    sheet = site.wattfold("show", job.id).stdout
    assert "PEs 2 of 6: 110000" in sheet
    assert "residual on        n1, without own cores" in sheet
    assert site.node(1).job_ids == [guest]
    assert site.node(1).resident_job_ids == [job.id]
    assert f"residual: {job.id}" in site.wattfold("nodes").stdout
    # All of its remaining work there counts as residual.
    used = wait_until("residual work", lambda: site.job(job.id).residual_cpu_ns)
    assert used < site.job(job.id).cpu_ns
    refused = site.wattfold("resize", job.id, "4", check=None)
    assert refused.returncode
    job.resize(3)
    site.client.cancel(guest)
    job.on(3)
    assert "Unknown CCS handler" not in job.text()
    # The costs of going from three nodes to one and back were reported and learned.
    (cost,) = site.client.list_profiles(site.job(job.id).spec.app).profiles[0].resize_costs
    assert cost.changes == earlier + 2
    assert 0 < cost.stalled_ns <= cost.took_ns
    assert cost.moved_bytes > 0
    assert "stalls the job for about" in site.wattfold("show", job.id).stdout


def test_kills_in_between_leave_objects_nodes_and_result_as_they_are(site: LiveSite) -> None:
    stop = site.work / "stop"
    job = GatedJob(site, stop)
    job.on(3)
    job.resize(2)
    site.kill_agent(2)
    site.start_agent(2)
    job.on(2)
    # Kill the agent that receives the map, before it receives the map.
    site.kill_agent(0)
    job.resize(1)
    site.start_agent(0)
    job.on(1)
    # Kill the agent of a node where the job is resident: the next agent knows that it holds
    # nothing.
    site.kill_agent(1)
    site.start_agent(1)
    guest = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(guest)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    job.on(1)
    site.client.cancel(guest)
    job.resize(3)
    job.on(3)
    stop.touch()
    job.check_result()
    wait_until("no process of it is left", lambda: not [*_named(site, GATED.name)])


def test_a_node_lost_under_residual_processes_fails_the_job_with_its_name(site: LiveSite) -> None:
    job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
    job.on(3)
    job.resize(2)
    job.on(2)
    site.kill_agent(2)
    for pid in _of_node(site, "n2"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until("its end is on its way", lambda: site.job(job.id).state != pb.JOB_STATE_RUNNING)
    site.start_agent(2)
    ended = site.ended(job.id)
    assert ended.state in (pb.JOB_STATE_LOST, pb.JOB_STATE_FAILED)
    assert "residual processes on n2" in ended.message
    wait_until("no process of it is left", lambda: not [*_named(site, "blocks.py")])


@pytest.mark.parametrize("policy", ["equipartition", "parm-wse"])
def test_a_policy_takes_a_node_for_a_newcomer_and_gives_it_back(
    policy: str, tmp_path: Path
) -> None:
    plan = replace(site_plan(nodes=2, policy=policy, cpu_share=0.9), omp_shim=None)
    with LiveSite(plan, tmp_path / "logs") as site:
        job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
        job.on(2)
        guest = site.submit(
            ["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=1, size_max=1, priority=100.0
        )
        job.on(1)
        assert [share.node_id for share in site.running(guest).shares] == ["n1"]
        site.client.cancel(guest)
        job.on(2)
        site.cancel_all()
    site.check_record()


def _named(site: LiveSite, word: str) -> Iterator[int]:
    for pid in site.processes():
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid


def _of_node(site: LiveSite, node_id: str) -> Iterator[int]:
    """Processes of jobs on a node, their keepers included."""
    run_dir = os.fsencode(site.folder / node_id)
    for pid in site.processes():
        with contextlib.suppress(OSError):
            told = Path(f"/proc/{pid}/environ").read_bytes()
            if b"WATTFOLD_JOB_ID=" in told and b"SHIM_ENDPOINT=ipc://" + run_dir in told:
                yield pid
