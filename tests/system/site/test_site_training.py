"""Training jobs on a real site keep their result if they are requeued, killed and measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from system.site.live_site import LiveSite, wait_until
from system.training.gated import EXAMPLE, gated, lose, undisturbed

from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb

AGENT = "emulated_gpus = 2\n"
EPOCHS = 12


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy", budget_w=2000, agent=AGENT)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def submit(site: LiveSite, *options: str, command: Sequence[str]) -> str:
    """Submit a training job as its users do."""
    words = ("--gpus", "1", "--due", "2h", "--weight", "3", "--resize", "restart", *options)
    threads = ("--env", "OPENBLAS_NUM_THREADS=1")
    return site.wattfold("submit", *words, *threads, "--", *command).stdout.strip()


def saved(site: LiveSite, job_id: str, at_least: int) -> pb.Job:
    return wait_until(
        f"{at_least} epochs saved",
        lambda: (job := site.job(job_id)).epochs_saved >= at_least and job,
    )


def history(site: LiveSite, job_id: str) -> list[dict[str, str]]:
    """The epoch report in the snapshot folder."""
    text = (site.work / f"wattfold-{job_id}.snapshot" / "epochs").read_text()
    return [dict(word.split("=") for word in line.split()) for line in text.splitlines()]


def test_put_back_and_killed_it_comes_to_the_same(site: LiveSite, tmp_path: Path) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    gate.write_text("3")
    options = ("--epochs", str(EPOCHS), "--requeue", "2", "--app", "net")
    job_id = submit(site, *options, command=gated(gate, out))
    spec = site.job(job_id).spec
    assert (spec.unit, spec.size_max, spec.epochs) == (pb.SIZE_UNIT_UNITS, 1, EPOCHS)
    saved(site, job_id, 3)
    site.wattfold("requeue", job_id)
    wait_until("attempt 2", lambda: site.job(job_id).attempt == 2)
    job = site.job(job_id)
    assert job.epochs_saved == 3
    assert job.done >= 3 / EPOCHS - 1e-9, "what its snapshot holds, and what it does since"
    gate.write_text("6")
    saved(site, job_id, 6)
    # By force, with the keeper, so that no process has seen its end.
    lose(site.pid(job_id))
    wait_until("attempt 3", lambda: site.job(job_id).attempt == 3)
    assert site.job(job_id).epochs_saved == 6
    gate.write_text(str(EPOCHS))
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED, site.job(job_id)
    assert out.read_text() == undisturbed(tmp_path, EPOCHS)
    epochs = history(site, job_id)
    assert [int(one["epoch"]) for one in epochs] == list(range(1, EPOCHS + 1))
    assert [one["attempt"] for one in epochs] == ["1"] * 3 + ["2"] * 3 + ["3"] * 6
    assert {one["gpus"] for one in epochs} == {"1"}
    assert f"{EPOCHS} of {EPOCHS}" in site.wattfold("show", job_id).stdout
    known = json.loads(site.wattfold("--json", "profiles", "net").stdout)
    (seen,) = known["epoch_times"]
    assert (seen["gpu_model"], seen["gpus"]) == ("V100", 1)
    assert seen["seconds"] > 0


def test_its_epochs_are_measured_on_a_node_alone(site: LiveSite, tmp_path: Path) -> None:
    command = (sys.executable, str(EXAMPLE), "--out", str(tmp_path / "out"))
    options = ("--node", "n1", "--gpus", "1,2", "--epochs", "3", "--app", "measured")
    done = site.wattfold("profile", "epochs", *options, "--", *command)
    assert "Stored as 'measured'" in done.stdout
    known = json.loads(site.wattfold("--json", "profiles", "measured").stdout)
    assert [one["gpus"] for one in known["epoch_times"]] == [1, 2]
    assert (
        site.wattfold("profile", "delete", "measured").stdout.strip().endswith("the epoch times.")
    )
    assert "no profile" in site.wattfold("profiles", "measured", check=None).stderr


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"due_at_s": 1e9}, "give a future time"),
        ({"features": ["T4"]}, "no node has the feature 'T4'; available GPU models: V100"),
        ({"epochs": 2**31}, "exceed the limit of 10000000"),
    ],
)
def test_what_cannot_be_is_refused(site: LiveSite, spec: dict[str, Any], why: str) -> None:
    with pytest.raises(CliError, match=why):
        site.submit(["true"], gpus=1, unit=pb.SIZE_UNIT_UNITS, unit_cores=1, **spec)


def test_a_folder_that_cannot_be_made_fails_the_job_and_says_so(
    site: LiveSite, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "snapshots"
    job_id = submit(site, "--epochs", "2", "--snapshot-dir", str(folder), command=["/bin/true"])
    job = site.ended(job_id)
    assert job.state == pb.JOB_STATE_FAILED
    assert "make the snapshot folder" in job.message
    assert str(folder) in job.message
