"""Two coordinators: a journal has one owner, and the newer generation takes over the nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import LiveSite, run_command

from wattfold.contract.ids import Epoch
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.core.model.events import CoordinatorStarted
from wattfold.coordinator.demo import site as demo_site
from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1)


def test_a_second_coordinator_on_the_same_journal_is_refused(
    site: LiveSite, tmp_path: Path
) -> None:
    config = str(site.folder / "coordinator.toml")
    done = run_command(
        "wattfold-coordinator", "--config", config, "--listen", f"unix:{tmp_path}/second.sock"
    )
    assert done.returncode == 2
    assert "is another coordinator running?" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert site.ended(site.submit(["true"])).state == pb.JOB_STATE_COMPLETED


def test_a_second_coordinator_at_the_same_address_is_refused(
    site: LiveSite, tmp_path: Path
) -> None:
    config = str(site.folder / "coordinator.toml")
    state = ("--state-dir", str(tmp_path / "state"))
    done = run_command("wattfold-coordinator", "--config", config, *state)
    assert done.returncode == 2
    assert "another coordinator answers there" in done.stderr
    assert site.ended(site.submit(["true"])).state == pb.JOB_STATE_COMPLETED


def test_a_newer_generation_takes_over(
    site: LiveSite, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gate = Gate(tmp_path_factory.mktemp("gate"))
    job_id = site.submit(gate.line("on"))
    site.running(job_id)
    pid = site.pid(job_id)
    newer = tmp_path / "newer"
    newer.mkdir(mode=0o700)
    started_often(newer, epoch=41)
    arguments = ["--config", str(site.folder / "coordinator.toml"), "--state-dir", str(newer)]
    log = tmp_path / "newer.log"
    second = demo_site._start(
        "wattfold-coordinator", [*arguments, "--listen", f"unix:{newer}/c.sock"], log, {}
    )
    try:
        demo_site._await_ready(second, "newer coordinator", log)
        assert wait_exit(site) == 5
        text = (site.logs / "coordinator.log").read_text()
        assert "obeys another coordinator" in text
        assert "epoch 42" in text
        # The older coordinator stays excluded, even when it is started again.
        again = run_command("wattfold-coordinator", *arguments[:2])
        assert again.returncode == 5
        assert "obeys another coordinator" in again.stderr
        # The newer coordinator does not know the job and leaves it alone.
        queue = run_command("wattfold", "--coordinator", f"unix:{newer}/c.sock", "nodes")
        assert "which is not in this journal" in queue.stdout
        assert os.path.exists(f"/proc/{pid}")
    finally:
        second.terminate()
        assert second.wait(240) == 0
        assert second.stdout is not None
        second.stdout.close()


def wait_exit(site: LiveSite) -> int:
    """Return the exit status of the coordinator, which ends by itself."""
    return site.coordinator.wait(240)


def started_often(state_dir: Path, epoch: int) -> None:
    """Create the journal of a coordinator with this number of starts."""
    journal = Journal(state_dir / "journal.sqlite")
    journal.put_meta("origin_s", repr(time.time()))
    started = CoordinatorStarted(epoch=Epoch(epoch), lease_ns=10**10, command_timeout_ns=10**9)
    journal.append(started, 1)
    journal.close()
