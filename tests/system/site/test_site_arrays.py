"""Job arrays on a real site: each index runs once, within the limit, over kill -9 and a cancel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from system.site.gate import Gate
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

SCRIPT = """#!/bin/sh
#SBATCH --array=0-19%3
#SBATCH --output={folder}/out-%A-%a
echo $WATTFOLD_ARRAY_ID/$WATTFOLD_ARRAY_INDEX of $WATTFOLD_ARRAY_COUNT
echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_ID
echo $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX
echo $SLURM_ARRAY_TASK_ID >> {folder}/ran
sleep 0.3
"""


def line(site: LiveSite, array_id: str, *options: str) -> pb.Job:
    found = site.wattfold("queue", "--json", "--all", *options).stdout
    return next(job for job in json.loads(found)["jobs"] if job["job_id"] == array_id)


@pytest.mark.parametrize("policy", ["fifo-easy", "parm-wse"])
def test_each_index_runs_once_over_kill_9(
    start_site: Callable[..., LiveSite], tmp_path: Path, policy: str
) -> None:
    site = start_site(nodes=2, policy=policy)
    script = tmp_path / "job.sh"
    script.write_text(SCRIPT.format(folder=tmp_path))
    array_id = site.wattfold("submit", str(script)).stdout.strip()
    wait_until("some ends", lambda: len(_ran(tmp_path)) >= 4)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    wait_until("all ends", lambda: line(site, array_id)["state"] == "JOB_STATE_COMPLETED", 60)
    assert _ran(tmp_path) == Counter(map(str, range(20)))
    told = (tmp_path / f"out-{array_id}-7").read_text().splitlines()
    assert told == [f"{array_id}/7 of 20", f"{array_id} 7 {array_id}_7", "20 0-19"]
    assert line(site, array_id)["array"]["counts"] == [{"state": "JOB_STATE_COMPLETED", "jobs": 20}]
    site.stop()


def _ran(folder: Path) -> Counter[str]:
    path = folder / "ran"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def test_an_array_is_one_line_with_commands_of_its_own(
    start_site: Callable[..., LiveSite], tmp_path: Path
) -> None:
    site = start_site(nodes=2, policy="fifo-easy")
    gate = Gate(tmp_path)
    words = ("submit", "--array", "5-104%3", "--", *gate.line("go"))
    array_id = site.wattfold(*words).stdout.strip()
    wait_until("three", lambda: "3 running" in line(site, array_id)["reason"])
    table = site.wattfold("queue").stdout
    assert "3 running, 97 waiting" in table.splitlines()[0]
    assert f"{array_id}_[8-104%3]" in table
    assert len(json.loads(site.wattfold("queue", "--json", "--tasks").stdout)["jobs"]) == 4
    assert site.wattfold("explain", array_id).stdout
    assert "3 running, 97 waiting" in site.wattfold("show", array_id).stdout
    no_file = site.wattfold("logs", array_id, check=None)
    assert f"name one of its tasks, such as {array_id}_5" in no_file.stderr
    assert site.wattfold("logs", f"{array_id}_5").stdout == ""
    site.wattfold("cancel", f"{array_id}_100")
    site.wattfold("hold", f"{array_id}_50")
    assert site.job(f"{array_id}_100").state == pb.JOB_STATE_CANCELLED
    assert site.job(f"{array_id}_77").state == pb.JOB_STATE_PENDING, "it is not a job yet"
    behind = site.wattfold("submit", "--after", f"any:{array_id}", "--", "true").stdout.strip()
    refused = site.wattfold("cancel", f"{array_id}_3", check=4)
    assert f"no job '{array_id}_3'" in refused.stderr
    site.wattfold("cancel", array_id)
    assert site.wattfold("wait", array_id, check=None).returncode
    assert site.ended(behind).state == pb.JOB_STATE_COMPLETED
    counts = line(site, array_id)["array"]["counts"]
    assert counts == [{"state": "JOB_STATE_CANCELLED", "jobs": 100}]
    site.stop()


def test_many_jobs_from_a_file(start_site: Callable[..., LiveSite], tmp_path: Path) -> None:
    site = start_site(nodes=2, policy="fifo-easy")
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#WATTFOLD --name from-script\ntrue\n")
    batch = tmp_path / "jobs"
    lines = [f"--name j{number} -- true {number}  # a job" for number in range(700)]
    wrong = ["--cores x -- true", "true 'a", "--wait -- true", "--name q", "--cores 99 -- true"]
    batch.write_text("\n".join([*lines, "", "# none", str(script), *wrong]))
    words = ("submit", "--env", "SECRET=1", "--hold", "--json", "--batch", str(batch))
    done = site.wattfold(*words, check=1)
    results = json.loads(done.stdout)["jobs"]
    assert [one["job_id"] for one in results] == [*map(str, range(1, 702)), *[None] * 5]
    assert [one["line"] for one in results[-6:]] == [703, 704, 705, 706, 707, 708]
    assert "the job requests 99 cores" in results[-1]["error"]
    assert f"{batch}:707: no command" in done.stderr
    assert site.job("700").spec.name == "j699"
    assert site.job("701").spec.name == "from-script"
    assert "SECRET=1" in site.wattfold("show", "--env", "17").stdout
    both = site.wattfold("submit", "--batch", str(batch), "--", "true", check=2)
    assert "give no command" in both.stderr
    site.wattfold("cancel", "--state", "held", "--yes")
    assert site.wattfold("queue").stdout.startswith("No jobs")
    site.stop()
