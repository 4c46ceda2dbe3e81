"""A training job yields to a job that would be late, and later resumes from its snapshot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from system.site.live_site import LiveSite, wait_until
from system.training.gated import gated, undisturbed

from wattfold.v1 import coordinator_pb2 as pb

EPOCHS = 8
EPOCH_S = 120.0


def test_the_urgent_one_is_first_and_the_other_loses_nothing(
    start_site: Callable[..., LiveSite], tmp_path: Path
) -> None:
    site = start_site(nodes=1, policy="andreas", budget_w=2000, agent="emulated_gpus = 1\n")
    known = pb.EpochTime(gpu_model="V100", gpus=1, seconds=EPOCH_S, count=1)
    for app in ("patient", "urgent"):
        site.client.put_profile(pb.Profile(app=app, epoch_times=[known]))
    gates = {app: tmp_path / f"{app}-gate" for app in ("patient", "urgent")}
    outs = {app: tmp_path / f"{app}-out" for app in gates}

    def submit(app: str, epochs: int, due: str, weight: str) -> str:
        gates[app].write_text("3")
        words = ("--gpus", "1", "--epochs", str(epochs), "--resize", "restart", "--app", app)
        wish = ("--due", due, "--weight", weight, "--env", "OPENBLAS_NUM_THREADS=1")
        command = gated(gates[app], outs[app])
        return site.wattfold("submit", *words, *wish, "--", *command).stdout.strip()

    patient = submit("patient", EPOCHS, "10h", "1")
    wait_until("3 epochs saved", lambda: site.job(patient).epochs_saved >= 3)
    urgent = submit("urgent", 3, "8m", "50")
    assert site.ended(urgent).state == pb.JOB_STATE_COMPLETED, site.job(urgent)
    wait_until("attempt 2", lambda: site.job(patient).attempt == 2)
    assert site.job(patient).epochs_saved == 3
    gates["patient"].write_text(str(EPOCHS))
    done = site.ended(patient)
    assert done.state == pb.JOB_STATE_COMPLETED, done
    assert outs["patient"].read_text() == undisturbed(tmp_path, EPOCHS)
    # One GPU: attempts of the first job come before and after the whole other job.
    first = done.attempts[0]
    assert first.ended_at_s <= site.job(urgent).started_at_s
