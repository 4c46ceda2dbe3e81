"""User commands against a real site: submit, show, wait, explain, control."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from system.site.live_site import LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2)


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


def test_a_job_runs_and_its_output_lands_in_files(site: LiveSite, tmp_path: Path) -> None:
    argv = ("sh", "-c", "pwd; echo $FOO >&2; exit 3")
    done = site.wattfold("submit", "--wait", "--env", "FOO=bar", "--", *argv, cwd=tmp_path, check=3)
    job_id = done.stdout.split()[0]
    assert (tmp_path / f"wattfold-{job_id}.out").read_text() == f"{tmp_path}\n"
    assert (tmp_path / f"wattfold-{job_id}.err").read_text() == "bar\n"
    shown = site.shown(job_id)
    assert (shown["state"], shown["exit_code"]) == ("JOB_STATE_FAILED", 3)
    assert shown["submitted_at_s"] <= shown["started_at_s"] <= shown["ended_at_s"]


def test_output_files_can_be_named(site: LiveSite, tmp_path: Path) -> None:
    options = ("--output", "o-%j", "--error", str(tmp_path / "e"), "--wait")
    done = site.wattfold("submit", *options, "--", "echo", "hello", cwd=tmp_path)
    assert (tmp_path / f"o-{done.stdout.split()[0]}").read_text() == "hello\n"
    assert (tmp_path / "e").read_text() == ""


def test_queue_show_and_explain_say_who_runs_and_who_waits(site: LiveSite) -> None:
    running = [site.submit(["sleep", "1000"], size_min=2, name=f"s{i}") for i in range(2)]
    for job_id in running:
        site.running(job_id)
    waits = site.wattfold("submit", "--cores", "2", "--name", "late", "--", "sleep", "9")
    late = waits.stdout.strip()
    queue = {j["job_id"]: j for j in json.loads(site.wattfold("--json", "queue").stdout)["jobs"]}
    assert set(queue) == {*running, late}
    places = [queue[job]["shares"][0] for job in running]
    assert {(share["node_id"], share["cpus"]) for share in places} == {("n0", "0-1"), ("n1", "0-1")}
    wait_until("a reason", lambda: "use the 2 cores" in site.shown(late)["reason"])
    explained = site.wattfold("explain", late).stdout
    assert "Waits: jobs that run or gain more speed use the 2 cores" in explained
    assert "It needs 2 cores, none free." in explained
    assert "Free now: 0 cores" in explained
    assert "late" in site.wattfold("queue").stdout
    assert "2 cores" in site.wattfold("explain", running[0]).stdout


def test_cancel_ends_waiting_and_running_jobs(site: LiveSite) -> None:
    first, second = (site.submit(["sleep", "1000"], size_min=2) for _ in range(2))
    site.running(first)
    site.running(second)
    third = site.submit(["sleep", "1000"], size_min=2)
    fourth = site.submit(["true"], size_min=2)
    assert "cancelled" in site.wattfold("cancel", third).stdout
    assert site.job(third).state == pb.JOB_STATE_CANCELLED
    assert site.job(third).started_at_s == 0
    assert "cancelling" in site.wattfold("cancel", first).stdout
    assert site.ended(first).state == pb.JOB_STATE_CANCELLED
    # Its cores go to the waiting job.
    assert site.ended(fourth).state == pb.JOB_STATE_COMPLETED
    assert site.job(second).state == pb.JOB_STATE_RUNNING


def test_a_job_that_ignores_the_request_to_end_is_killed(site: LiveSite) -> None:
    job_id = site.submit(["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"])
    output = site.work / f"wattfold-{job_id}.out"
    wait_until("its trap is set", lambda: output.exists() and output.read_text())
    site.wattfold("cancel", job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_CANCELLED


def test_a_held_job_starts_when_it_is_released(site: LiveSite) -> None:
    job_id = site.wattfold("submit", "--hold", "--", "true").stdout.strip()
    other = site.submit(["true"])
    site.ended(other)
    assert site.job(job_id).state == pb.JOB_STATE_HELD
    site.wattfold("release", job_id)
    assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED


def test_a_job_that_was_not_heard_of(site: LiveSite) -> None:
    for command in ("show", "explain", "cancel"):
        assert "999" in site.wattfold(command, "999", check=4).stderr


def test_a_repeated_submission_gives_the_first_job(site: LiveSite) -> None:
    twice = [
        site.wattfold("submit", "--idempotency-key", "same", "--", "true").stdout for _ in range(2)
    ]
    assert twice[0] == twice[1]


def test_nodes_and_power_show_what_is_emulated_and_committed(site: LiveSite) -> None:
    nodes = json.loads(site.wattfold("--json", "nodes").stdout)["nodes"]
    assert [(n["node_id"], n["emulated"]) for n in nodes] == [("n0", True), ("n1", True)]
    power = json.loads(site.wattfold("--json", "power").stdout)
    assert power["floor_uw"] == 48_000_000
    assert power["floor_uw"] <= power["committed_uw"] <= power["budget_uw"] == 1_000_000_000
