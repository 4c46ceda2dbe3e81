"""Of two coordinators with one state, one is obeyed, and the limits never exceed the budget."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from system.site.conftest import start_site
from system.site.gate import Gate
from system.site.live_site import BASE_W, LiveSite, run_command, wait_until
from trust.head import Head

from wattfold.coordinator.adapters.agents.take_over import LastWriter, Told, lacking, next_epoch
from wattfold.coordinator.adapters.journal import home
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.demo import site as demo_site
from wattfold.v1 import coordinator_pb2 as pb

__all__ = ["start_site"]

BUDGET_W = 100.0
"""Enough for one node at its maximum of 60 W beside an idle one, not for two."""


class Limits:
    """The greatest sum of what the zones of all nodes were ever seen to hold."""

    def __init__(self, site: LiveSite) -> None:
        self.site = site
        self.most_w = 0.0
        self.samples = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Limits:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        nodes = range(len(self.site.plan.nodes))
        while not self._stop.wait(0.005):
            sums = [sum(self.site.limits_uw(node).values()) for node in nodes]
            self.most_w = max(self.most_w, sum(sums) / 1e6 + BASE_W * len(sums))
            self.samples += 1


@contextmanager
def copied(
    site: LiveSite, state: Path, *more: str, config: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A coordinator on another state folder, by default with the configuration of the site."""
    config = config or site.folder / "coordinator.toml"
    arguments = ["--config", str(config), "--state-dir", str(state)]
    log = site.logs / "copy.log"
    process = demo_site._start(
        "wattfold-coordinator", [*arguments, "--listen", f"unix:{state}/c.sock", *more], log, {}
    )
    try:
        demo_site._await_ready(process, "copy", log)
        yield process
    finally:
        process.terminate()
        process.wait(240)
        assert process.stdout is not None
        process.stdout.close()


def start_fails(site: LiveSite, state: Path) -> subprocess.CompletedProcess[str]:
    config, listen = str(site.folder / "coordinator.toml"), f"unix:{site.folder}/o.sock"
    where = ("--state-dir", str(state), "--listen", listen)
    return run_command("wattfold-coordinator", "--config", config, *where)


def copy_of_stopped(site: LiveSite) -> tuple[Path, Path]:
    """The state folder of the site, whose coordinator is stopped, and a copy of it."""
    site.coordinator.terminate()
    assert site.coordinator.wait(240) == 0
    state, copy = site.folder / "head", site.folder / "copy"
    shutil.copytree(state, copy)
    return state, copy


def state_of(client: CoordinatorClient, job_id: str) -> pb.JobState:
    return client.list_jobs([job_id], include_ended=True).jobs[0].state


@pytest.fixture
def site(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, budget_w=BUDGET_W)


def test_a_copy_that_starts_later_needs_a_word_and_knows_what_it_lacks(
    site: LiveSite, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    blocks = [site.submit(gate.line(name), size_min=2) for name in ("a", "b")]
    for block in blocks:
        site.running(block)
    waiting = site.submit(["true"])
    _, copy = copy_of_stopped(site)
    with Limits(site) as limits:
        # Hours later: more epochs, jobs and numbers than the copy knows.
        site.restart_coordinator()
        gate.open("a")
        gate.open("b")
        site.ended(waiting)
        running = site.submit(gate.line("on"))
        site.running(running)
        wait_until("a raised cap", lambda: site.limits_uw(0)["package"] > 20e6 or None)
        refused = start_fails(site, copy)
        assert refused.returncode == 2
        assert "--moved" in refused.stderr
        assert str(site.folder / "head") in refused.stderr
        assert site.coordinator.poll() is None
        with copied(site, copy, "--moved"):
            assert site.coordinator.wait(240) == 5
            assert "obeys another coordinator" in (site.logs / "coordinator.log").read_text()
            client = CoordinatorClient(f"unix:{copy}/c.sock")
            # What the copy has as waiting may have run, as it has; how others ended is unknown.
            (held,) = client.list_jobs([waiting]).jobs
            assert held.state == pb.JOB_STATE_HELD
            assert "another coordinator commanded the nodes" in held.reason
            for block in blocks:
                wait_until("its end", lambda job=block: state_of(client, job) == pb.JOB_STATE_LOST)
            spec = pb.JobSpec(argv=["false"], kind=pb.JOB_KIND_RIGID, size_min=1, size_max=1)
            later = client.submit(pb.SubmitRequest(spec=spec))
            assert int(later) > int(running)
            wait_until("its job", lambda: state_of(client, later) == pb.JOB_STATE_FAILED)
            client.close()
            gate.open("on")
    assert limits.samples > 10
    assert limits.most_w <= BUDGET_W


def test_the_original_that_starts_after_its_copy_is_refused(site: LiveSite) -> None:
    state, copy = copy_of_stopped(site)
    with Limits(site) as limits, copied(site, copy, "--moved") as moved:
        refused = start_fails(site, state)
        assert refused.returncode == 5
        assert "older copy" in refused.stderr
        assert "--moved" in refused.stderr
        told = [line for line in refused.stderr.splitlines() if " INFO event=" not in line]
        assert len(told) <= 2
        assert moved.poll() is None
        client = CoordinatorClient(f"unix:{copy}/c.sock")
        spec = pb.JobSpec(argv=["true"], kind=pb.JOB_KIND_RIGID, size_min=1, size_max=1)
        job = client.submit(pb.SubmitRequest(spec=spec))
        wait_until("its job", lambda: state_of(client, job) == pb.JOB_STATE_COMPLETED)
        client.close()
    assert limits.most_w <= BUDGET_W


def test_of_two_that_start_at_once_one_is_live(site: LiveSite) -> None:
    """Each is to use its own node; before, both were obeyed and the limits added up to 120 W."""
    state, copy = copy_of_stopped(site)
    site.coordinator.stdout.close()  # type: ignore[union-attr]
    config = ["--config", str(site.folder / "coordinator.toml"), "--moved"]
    starts = {
        folder: demo_site._start(
            "wattfold-coordinator",
            [*config, "--state-dir", str(folder), "--listen", f"unix:{folder}/c.sock"],
            site.logs / f"{folder.name}-at-once.log",
            {},
        )
        for folder in (state, copy)
    }
    try:
        with Limits(site) as limits:

            def ended() -> list[Path]:
                return [folder for folder, process in starts.items() if process.poll() is not None]

            (over,) = wait_until("the end of one", ended)
            assert starts[over].returncode == 5
            (live,) = set(starts) - {over}
            line = wait_until("ready", starts[live].stdout.readline)  # type: ignore[union-attr]
            assert line.startswith(b"ready")
            with closing(CoordinatorClient(f"unix:{live}/c.sock")) as client:
                spec = pb.JobSpec(argv=["true"], kind=pb.JOB_KIND_RIGID, size_min=2, size_max=2)
                job = client.submit(pb.SubmitRequest(spec=spec))
                wait_until("its end", lambda: state_of(client, job) == pb.JOB_STATE_COMPLETED)
            assert ended() == [over]
        assert limits.most_w <= BUDGET_W
    finally:
        for process in starts.values():
            process.terminate()
            process.wait(240)
            process.stdout.close()  # type: ignore[union-attr]


def test_a_state_folder_knows_its_machine_and_its_path(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("aaaa\n")
    other.write_text("bbbb\n")
    journal = Journal(tmp_path / "journal.sqlite")
    here = home.here(tmp_path, one)
    assert home.strange(journal, here) == ""
    home.settle(journal, here)
    assert home.strange(journal, here) == ""
    assert "bbbb" in home.strange(journal, home.here(tmp_path, other))
    assert str(tmp_path) in home.strange(journal, home.here(tmp_path / "sub", one))
    # A container without an identity of its machine is told by the path alone.
    assert home.strange(journal, home.here(tmp_path, tmp_path / "none")) == ""
    journal.close()


def test_a_moved_folder_starts_once_it_is_said_and_then_by_itself(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with Head(tmp_path / "a") as head:
        head.submit(held=True)
    shutil.move(tmp_path / "a/state", tmp_path / "b/state")
    moved = Head(tmp_path / "b")
    with pytest.raises(demo_site.SiteError, match="--moved"):
        moved.start()
    moved.process.stdout.close()  # type: ignore[union-attr]
    moved.start("--moved")
    moved.stop()
    with moved:
        assert len(moved.client.list_jobs().jobs) == 1


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (Told(node_id="n", epoch=4, instance="me", journal_number=90), ""),
        (Told(node_id="n", epoch=3, instance="other", journal_number=900), ""),
        (Told(node_id="n", epoch=4, instance="", journal_number=0), ""),
        (Told(node_id="n", epoch=5, instance="other"), "epoch 5"),
        (Told(node_id="n", epoch=4, instance="other"), "another coordinator with epoch 4"),
        # A snapshot of a machine that ran on: the same instance, and later events.
        (Told(node_id="n", epoch=4, instance="me", journal_number=101), "after event 101"),
    ],
)
def test_agents_tell_whether_a_journal_is_behind(told: Told, reason: str) -> None:
    found = lacking(LastWriter(epoch=4, instance="me", last_number=100), [told])
    assert reason in found
    assert bool(reason) is bool(found)


def test_a_start_takes_an_epoch_above_all_that_agents_have_seen() -> None:
    told = [Told(node_id="a", epoch=7), Told(node_id="b", epoch=3)]
    assert next_epoch(told, 1) == 8
    assert next_epoch(told, 12) == 12
    assert next_epoch([], 1) == 1
