"""A node that cannot start jobs is closed; its jobs are requeued and use no attempt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import CPUS, LiveSite, built, site_plan, wait_until
from system.site.test_site_full_disk import fill, small_disk

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    """Two nodes; the state folder of n0 is a file system of 2 MiB."""
    if not built() or len(CPUS) < 2:
        pytest.skip("needs the example programs (scripts/build_shims) and two CPUs")
    site = LiveSite(
        site_plan(nodes=2, policy="fifo-easy"), tmp_path_factory.mktemp("site") / "logs"
    )
    state = site.folder / "n0" / "state"
    state.mkdir(parents=True, mode=0o700)
    with small_disk(state):
        with site:
            yield site
        wait_until("all processes have ended", lambda: not site.processes())
    site.check_record()


@pytest.fixture
def disk(site: LiveSite) -> Iterator[Path]:
    """The state folder of n0. After the test it has space again, and no job remains."""
    state = site.folder / "n0" / "state"
    yield state
    (state / "full").unlink(missing_ok=True)
    site.cancel_all()
    wait_until("n0 opens", lambda: not site.node(0).launch_fault)


def refusals(site: LiveSite) -> int:
    return (site.logs / "n0.log").read_text().count("command_refused command=Launch")


def test_a_full_state_disk_costs_no_job_an_attempt(site: LiveSite, disk: Path, tmp_path: Path):
    gate = Gate(tmp_path)
    full, before = fill(disk), refusals(site)
    jobs = [site.submit(["true"]) for _ in range(12)]
    for job_id in jobs:
        done = site.ended(job_id)
        assert (done.state, done.attempt, len(done.attempts)) == (pb.JOB_STATE_COMPLETED, 1, 0)
        assert {share.node_id for share in done.shares} == {"n1"}
    # It received the launches of one round of the policy, and no more.
    assert 1 <= refusals(site) - before <= len(CPUS)
    assert "No space left on device" in site.node(0).launch_fault

    site.running(site.submit(gate.line("n1"), size_min=len(CPUS)))
    waiting = site.submit(["true"])
    told = wait_until("a reason", lambda: reason(site, waiting))
    assert "node n0 cannot start jobs: " in told
    assert "No space left on device" in told
    listed = site.wattfold("nodes").stdout
    assert "closed" in listed
    assert "cannot start jobs: " in listed
    assert "Node n0 cannot start jobs: " in site.wattfold("explain", waiting).stdout
    assert "No space left on device" in " ".join(site.wattfold("queue").stdout.split())

    full.unlink()
    done = site.ended(waiting)
    assert (done.state, done.attempt) == (pb.JOB_STATE_COMPLETED, 1)
    assert {share.node_id for share in done.shares} == {"n0"}


def reason(site: LiveSite, job_id: str) -> str:
    job = site.job(job_id)
    return job.reason if "cannot start jobs" in job.reason else ""


def test_the_end_of_a_job_is_told_while_the_disk_is_full(
    site: LiveSite, disk: Path, tmp_path: Path
):
    gate = Gate(tmp_path)
    site.running(first := site.submit(gate.line("first"), size_min=len(CPUS)))
    site.running(second := site.submit(gate.line("second", code=3), size_min=len(CPUS)))
    fill(disk)
    gate.open("first")
    gate.open("second")
    assert site.ended(first).state == pb.JOB_STATE_COMPLETED
    assert (site.ended(second).state, site.job(second).exit_code) == (pb.JOB_STATE_FAILED, 3)


def test_a_job_on_both_nodes_waits_for_the_full_one(site: LiveSite, disk: Path):
    full = fill(disk)
    job_id = site.submit(["true"], unit=pb.SIZE_UNIT_NODES, size_min=2)
    wait_until("n0 is closed", lambda: site.node(0).launch_fault)
    waits = site.in_state(job_id, pb.JOB_STATE_PENDING)
    assert not waits.message
    full.unlink()
    done = site.ended(job_id)
    assert done.state == pb.JOB_STATE_COMPLETED
    # The process started on n1 was ended by its attempt number, so an attempt exists but is no
    # loss.
    assert done.attempt <= 2


def test_a_coordinator_that_starts_again_beside_a_full_disk(site: LiveSite, disk: Path):
    """The agent cannot store the new epoch, so it accepts no order and is not retried."""
    full, before = fill(disk), refusals(site)
    site.kill_coordinator()
    site.restart_coordinator()
    jobs = [site.submit(["true"]) for _ in range(8)]
    for job_id in jobs:
        assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
    assert refusals(site) - before <= len(CPUS)
    full.unlink()
    wait_until("n0 opens", lambda: not site.node(0).launch_fault)
    both = site.submit(["true"], unit=pb.SIZE_UNIT_NODES, size_min=2)
    assert site.ended(both).state == pb.JOB_STATE_COMPLETED


def test_a_fault_of_the_job_fails_it_and_closes_no_node(site: LiveSite, disk: Path, tmp_path: Path):
    failed = [
        site.submit(["/no/such/program"]),
        site.submit(["true"], stdout_path="/dev/full/x"),
        site.submit(["true"], cwd="/no/such/folder"),
        site.submit([str(tmp_path)]),
    ]
    for job_id in failed:
        assert site.ended(job_id).state == pb.JOB_STATE_FAILED, job_id
        assert site.job(job_id).attempt == 1
    assert not any(site.node(index).launch_fault for index in (0, 1))
