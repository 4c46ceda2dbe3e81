"""`wait`: the ends of jobs and the exit code."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.v1 import coordinator_pb2 as pb

DONE, FAILED, RUNS = pb.JOB_STATE_COMPLETED, pb.JOB_STATE_FAILED, pb.JOB_STATE_RUNNING


def add(fake: FakeCoordinator, job_id: str, state: pb.JobState, code: int = 0, at_s: float = 0):
    fake.add(pb.Job(job_id=job_id, state=state, exit_code=code, ended_at_s=at_s))


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("good",), 0),
        (("good", "good"), 0),
        (("good", "seven", "three"), 7),
        (("three", "good", "seven"), 3),
        (("killed",), 137),
        (("cancelled", "seven"), 1),
        (("--any", "three", "seven", "good"), 7),
        (("--any", "runs", "good"), 0),
        (("--any", "three", "early", "runs"), 0),
    ],
)
def test_the_exit_code_is_that_of_the_jobs(
    wattfold: Command, fake: FakeCoordinator, words: tuple[str, ...], code: int
) -> None:
    add(fake, "good", DONE, at_s=9)
    add(fake, "early", DONE, at_s=1)
    add(fake, "seven", FAILED, 7, at_s=5)
    add(fake, "three", FAILED, 3, at_s=7)
    add(fake, "killed", FAILED, -9)
    add(fake, "cancelled", pb.JOB_STATE_CANCELLED)
    add(fake, "runs", RUNS)
    result = wattfold("wait", *words)
    assert (result.exit_code, result.stdout) == (code, "")


def test_it_waits_for_every_job_and_then_prints_them(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    add(fake, "a", RUNS)
    add(fake, "b", DONE)
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(wattfold, "--json", "wait", "a", "b")
        with fake.changed:
            seen = fake.looks
            assert fake.changed.wait_for(lambda: fake.looks > seen + 1, 20)
        assert not waits.done()
        fake.finish("a", FAILED, 4)
        result = waits.result(20)
    assert result.exit_code == 4
    assert result.stderr.splitlines() == [
        "a running",
        "b completed with exit code 0",
        "a failed with exit code 4",
    ]
    assert [job["job_id"] for job in json.loads(result.stdout)["jobs"]] == ["a", "b"]


@pytest.mark.parametrize("options", [(), ("--any",)])
def test_the_time_of_the_wait_is_limited(
    wattfold: Command, fake: FakeCoordinator, options: tuple[str, ...]
) -> None:
    add(fake, "a", RUNS)
    add(fake, "b", RUNS)
    result = wattfold("wait", *options, "--timeout", "10ms", "a", "b")
    assert result.exit_code == 9
    assert "wattfold: timeout after" in result.stderr
    assert result.stderr.endswith("these jobs continue: a, b\n")


def test_unknown_jobs_and_an_absent_coordinator(wattfold: Command, fake: FakeCoordinator) -> None:
    add(fake, "a", DONE)
    result = wattfold("wait", "a", "nobody")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "no job 'nobody'" in result.stderr
    assert wattfold("wait").exit_code == 2

    def once(_method: str) -> tuple[grpc.StatusCode, str]:
        fake.fail = lambda _method: None
        return grpc.StatusCode.UNAVAILABLE, "away"

    fake.fail = once
    result = wattfold("wait", "a")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "a the coordinator does not answer; waiting for it, the job continues",
        "a completed with exit code 0",
    ]
