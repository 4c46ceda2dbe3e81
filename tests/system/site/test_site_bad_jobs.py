"""Jobs and requests that cannot work have distinct reasons, and do not harm other jobs."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2)


@pytest.fixture(scope="module")
def bystander(site: LiveSite) -> tuple[str, int]:
    """A job that runs all the time; its process must be the same at the end."""
    job_id = site.submit(["sleep", "1000"])
    site.running(job_id)
    return job_id, site.pid(job_id)


@pytest.fixture(autouse=True)
def nobody_is_harmed(site: LiveSite, bystander: tuple[str, int]) -> Iterator[None]:
    yield
    job_id, pid = bystander
    assert site.job(job_id).state == pb.JOB_STATE_RUNNING
    assert site.pid(job_id) == pid
    assert site.ended(site.submit(["true"])).state == pb.JOB_STATE_COMPLETED
    assert site.coordinator.poll() is None
    assert site.agent(0).poll() is None
    assert site.agent(1).poll() is None


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB and a few files."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Fill the disk with data."""
    with (disk / "full").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def test_a_job_that_crashes_at_once(site: LiveSite) -> None:
    job = site.ended(site.submit(["/bin/sh", "-c", "kill -SEGV $$"]))
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 128 + 11)


def test_an_unknown_command_is_found_before_it_is_sent(site: LiveSite) -> None:
    done = site.wattfold("submit", "--", "no-such-program-here", check=2)
    assert "no-such-program-here" in done.stderr


def test_an_unknown_command_fails_its_job_only(site: LiveSite) -> None:
    done = site.wattfold("submit", "--no-check", "--wait", "--", "no-such-program", check=127)
    job = site.job(done.stdout.split()[0])
    assert job.state == pb.JOB_STATE_FAILED
    assert "no-such-program" in job.message
    assert "No such file" in job.message


def test_a_file_that_is_no_program_fails_its_job_only(site: LiveSite, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o755)
    job = site.ended(site.submit([str(path)]))
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 127)
    assert str(path) in job.message


def test_a_missing_working_directory(site: LiveSite, tmp_path: Path) -> None:
    job = site.ended(site.submit(["true"], cwd=str(tmp_path / "gone")))
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 127)
    assert str(tmp_path / "gone") in job.message


def test_an_output_directory_that_is_missing(site: LiveSite, tmp_path: Path) -> None:
    job = site.ended(site.submit(["true"], stdout_path=str(tmp_path / "gone" / "out")))
    assert job.state == pb.JOB_STATE_FAILED
    assert str(tmp_path / "gone" / "out") in job.message


def test_an_output_directory_that_is_not_writable(site: LiveSite, tiny_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    job = site.ended(site.submit(["true"], stdout_path=str(tiny_disk / "out")))
    assert job.state == pb.JOB_STATE_FAILED
    assert f"{tiny_disk / 'out'}" in job.message
    assert "Read-only" in job.message


def test_a_disk_without_room_for_the_output_file(site: LiveSite, tiny_disk: Path) -> None:
    made = 0
    while made < 100:
        try:
            (tiny_disk / str(made)).touch()
        except OSError:
            break
        made += 1
    job = site.ended(site.submit(["true"], stdout_path=str(tiny_disk / "out")))
    assert job.state == pb.JOB_STATE_FAILED
    assert "No space" in job.message


def test_a_disk_that_is_full_is_an_error_of_the_job_itself(site: LiveSite, tiny_disk: Path) -> None:
    fill(tiny_disk)
    script = "head -c 100000 /dev/zero || exit 9"
    job = site.ended(site.submit(["/bin/sh", "-c", script], stdout_path=str(tiny_disk / "out")))
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cores", "64"], "the job requests 64 cores of one node; the largest node, n0, has 2"),
        (["--nodes", "3"], "the job requests 3 nodes, but there are only 2"),
        (
            ["--cap", "500"],
            "cap of 500.000 W per node is outside the range of the nodes, 9.000..45",
        ),
        (["--cap", "1"], "cap of 1.000 W per node is outside the range of the nodes, 9.000..45"),
    ],
)
def test_what_can_never_be_met_is_refused(site: LiveSite, options: list[str], said: str) -> None:
    before = len(site.client.list_jobs(include_ended=True).jobs)
    assert said in site.wattfold("submit", *options, "--", "true", check=1).stderr
    assert len(site.client.list_jobs(include_ended=True).jobs) == before


def test_a_budget_that_the_idle_nodes_exceed_is_refused(site: LiveSite) -> None:
    done = site.wattfold("budget", "set", "40W", check=1)
    assert "budget 40.0 W is below 48.0 W" in done.stderr
    assert site.client.power().budget_uw == 1_000_000_000


def test_a_deadline_that_cannot_be_kept_is_refused(site: LiveSite) -> None:
    # The bystander uses the power above the floors.
    wait_until("power above idle", lambda: site.client.power().committed_uw > 50_000_000)
    done = site.wattfold("budget", "set", "50W", "--deadline", "100ms", check=1)
    assert "a deadline of 0.10 s is too short" in done.stderr
    assert site.client.power().budget_uw == 1_000_000_000


def test_ten_bad_jobs_at_once(site: LiveSite, tmp_path: Path) -> None:
    jobs = [
        site.submit(argv, cwd=cwd)
        for argv in (["/bin/false"], ["/nowhere"])
        for cwd in ("/", str(tmp_path / "gone"), "/proc/1/fd", "/", "/")
    ]
    assert {site.ended(job).state for job in jobs} == {pb.JOB_STATE_FAILED}
