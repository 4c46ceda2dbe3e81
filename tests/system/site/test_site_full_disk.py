"""No space for the coordinator's own files: requests are refused, and everything else continues."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import CPUS, LiveSite, built, site_plan, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@contextmanager
def small_disk(where: Path) -> Iterator[None]:
    """A file system of 2 MiB at a folder."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(where)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


def fill(folder: Path) -> Path:
    """Fill the remaining space; return the file."""
    path = folder / "full"
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
    return path


@pytest.fixture
def disk_site(tmp_path: Path) -> Iterator[LiveSite]:
    """A site with the coordinator's folder, or the record, on a small disk."""
    if not built() or len(CPUS) < 2:
        pytest.skip("needs the example programs (scripts/build_shims) and two CPUs")
    site = LiveSite(site_plan(nodes=1), tmp_path / "logs")
    yield site
    site.stop()
    wait_until("all processes have ended", lambda: not site.processes())


def test_the_journal_has_no_room(disk_site: LiveSite, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    head = disk_site.folder / "head"
    head.mkdir(mode=0o700)
    with small_disk(head), disk_site as site:
        job_id = site.submit(gate.line("before"))
        site.running(job_id)
        full = fill(head)
        # The database first uses the free space in its own file.
        refused = wait_until("a refusal", lambda: refusal(site))
        assert "not accepted because it could not be stored" in refused
        assert site.job(job_id).state == pb.JOB_STATE_RUNNING
        listed = {job.job_id for job in site.client.list_jobs(include_ended=True).jobs}
        # Ends are facts, not requests: they are accepted, and written when there is space.
        gate.open("before")
        assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
        full.unlink()
        after = wait_until("room again", lambda: accepted(site))
        assert after not in listed
        assert site.ended(after).state == pb.JOB_STATE_COMPLETED
        site.coordinator.kill()
        site.coordinator.wait()
        site.restart_coordinator()
        assert site.job(job_id).state == pb.JOB_STATE_COMPLETED
        assert site.job(after).state == pb.JOB_STATE_COMPLETED
        site.stop()


def refusal(site: LiveSite) -> str:
    done = site.wattfold("submit", "--hold", "--env", "X=" + "x" * 50_000, "true", check=None)
    return done.stderr if done.returncode else ""


def accepted(site: LiveSite) -> str:
    done = site.wattfold("submit", "--", "true", check=None)
    return done.stdout.strip()


def one_more(site: LiveSite) -> bool:
    return site.ended(site.submit(["true"])).state == pb.JOB_STATE_COMPLETED


def test_the_record_has_no_room(disk_site: LiveSite, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    disk_site.record = disk / "record.jsonl"
    with small_disk(disk), disk_site as site:
        wait_until("a record", lambda: site.record.exists() and site.recorded())
        full = fill(disk)
        # The last page of the record has some space left.
        log = site.logs / "coordinator.log"
        wait_until(
            "a full disk", lambda: one_more(site) and "record_not_written" in log.read_text()
        )
        assert one_more(site)
        full.unlink()
        count = len(site.recorded())
        assert one_more(site)
        wait_until("it goes on", lambda: len(site.recorded()) > count)
        site.check_record()
        site.stop()
