"""`submit`."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import FakeCoordinator, W

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import coordinator_pb2 as pb


def spec_of(fake: FakeCoordinator) -> pb.JobSpec:
    return fake.submissions[-1].spec


def test_prints_the_id_only(wattfold: Command) -> None:
    result = wattfold("submit", "--", "true")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "job-1\n", "")
    result = wattfold("submit", "--json", "true")
    assert json.loads(result.stdout) == {"job_id": "job-2"}


def test_defaults(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("submit", "--", "/bin/echo", "--hold", "a b").exit_code == 0
    spec = spec_of(fake)
    assert list(spec.argv) == ["/bin/echo", "--hold", "a b"]
    assert (spec.unit, spec.size_min, spec.size_max) == (pb.SIZE_UNIT_CORES, 1, 1)
    assert (spec.kind, spec.mode) == (pb.JOB_KIND_RIGID, common.RESIZE_MODE_FIXED)
    assert (spec.name, spec.app, spec.priority, spec.time_ns) == ("echo", "", 1.0, 0)
    assert (spec.exclusive, spec.cap_uw) == (False, 0)
    assert (spec.dram_cap_uw, spec.gpu_cap_uw) == (0, 0)
    assert spec.cwd == str(Path.cwd())
    assert fake.submissions[-1].idempotency_key
    assert not fake.submissions[-1].held


def test_every_option_arrives(wattfold: Command, fake: FakeCoordinator, tmp_path: Path) -> None:
    result = wattfold(
        *("submit", "--nodes", "2-4", "--kind", "evolving", "--mode", "team", "--time", "2h"),
        *("--estimate", "1h30m"),
        *("--name", "n", "--app", "a", "--priority", "2.5", "--cwd", str(tmp_path)),
        *("--output", "o", "--error", "e", "--exclusive", "--cap", "45.5", "--hold"),
        *("--dram-cap", "11", "--gpu-cap", "0.2kW", "--predicted-power", "93"),
        *("--idempotency-key", "k", "--export", "none", "--env", "X=1", "--", "true"),
    )
    assert result.exit_code == 0, result.output
    spec = spec_of(fake)
    assert (spec.unit, spec.size_min, spec.size_max) == (pb.SIZE_UNIT_NODES, 2, 4)
    assert (spec.kind, spec.mode) == (pb.JOB_KIND_EVOLVING, common.RESIZE_MODE_TEAM)
    assert (spec.time_ns, spec.limit_ns) == (5400 * 10**9, 7200 * 10**9)
    assert (spec.name, spec.app, spec.priority, spec.cwd) == ("n", "a", 2.5, str(tmp_path))
    assert (spec.stdout_path, spec.stderr_path) == ("o", "e")
    assert (spec.exclusive, spec.cap_uw) == (True, 45_500_000)
    assert (spec.dram_cap_uw, spec.gpu_cap_uw) == (11_000_000, 200_000_000)
    assert spec.predicted_uw == 93_000_000
    assert spec.env["X"] == "1"
    assert fake.submissions[-1].held
    assert fake.submissions[-1].idempotency_key == "k"


def test_units_with_what_each_of_them_asks_for(wattfold: Command, fake: FakeCoordinator) -> None:
    options = ("--units", "2-4", "--unit-cores", "8", "--memory", "16G", "--gpus", "1")
    assert wattfold("submit", *options, "--spread", "apart", "true").exit_code == 0
    spec = spec_of(fake)
    assert (spec.unit, spec.size_min, spec.size_max) == (pb.SIZE_UNIT_UNITS, 2, 4)
    assert (spec.unit_cores, spec.spread) == (8, pb.UNIT_SPREAD_APART)
    assert (spec.memory_bytes, spec.gpus) == (16 << 30, 1)
    assert (spec.kind, spec.mode) == (pb.JOB_KIND_MOLDABLE, common.RESIZE_MODE_FIXED)
    assert wattfold("submit", "--units", "3", "true").exit_code == 0
    spec = spec_of(fake)
    assert (spec.unit_cores, spec.spread, spec.kind) == (
        1,
        pb.UNIT_SPREAD_ANY,
        pb.JOB_KIND_RIGID,
    )


def test_a_training_on_gpus_is_of_units_on_one_node(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    line = ("--gpus", "1", "--due", "2h", "--weight", "3", "--resize", "restart")
    assert wattfold("submit", *line, "--", "python3", "train.py").exit_code == 0
    spec = spec_of(fake)
    assert (spec.unit, spec.size_min, spec.size_max) == (pb.SIZE_UNIT_UNITS, 1, 1)
    assert (spec.unit_cores, spec.gpus, spec.spread) == (1, 1, pb.UNIT_SPREAD_TOGETHER)
    assert (spec.kind, spec.mode) == (pb.JOB_KIND_RIGID, common.RESIZE_MODE_RESTART)
    assert (spec.weight, spec.epochs) == (3, 0)
    assert spec.due_at_s == pytest.approx(time.time() + 7200, abs=60)
    assert wattfold("submit", "--units", "1-4", *line, "--epochs", "90", "true").exit_code == 0
    spec = spec_of(fake)
    assert (spec.size_min, spec.size_max, spec.epochs) == (1, 4, 90)
    assert (spec.kind, spec.spread) == (pb.JOB_KIND_MOLDABLE, pb.UNIT_SPREAD_TOGETHER)
    # Without snapshots to resume from, a GPU job is counted in cores.
    assert wattfold("submit", "--gpus", "1", "true").exit_code == 0
    assert spec_of(fake).unit == pb.SIZE_UNIT_CORES
    assert wattfold("submit", "--cores", "2", *line, "true").exit_code == 0
    assert spec_of(fake).unit == pb.SIZE_UNIT_CORES


@pytest.mark.parametrize(
    "options",
    [("--units", "2", "--cores", "2"), ("--unit-cores", "2"), ("--nodes", "2", "--spread", "any")],
)
def test_what_is_said_of_units_without_any(wattfold: Command, options: tuple[str, ...]) -> None:
    refused = wattfold("submit", *options, "true")
    assert refused.exit_code != 0
    assert "--units" in refused.stderr


def test_a_range_is_malleable_and_resized_by_mask(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("submit", "--cores", "1-4", "true").exit_code == 0
    assert spec_of(fake).kind == pb.JOB_KIND_MALLEABLE
    assert spec_of(fake).mode == common.RESIZE_MODE_MASK


def test_what_it_shares_and_that_such_a_job_is_malleable(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    assert wattfold("submit", "--nodes", "2", "--share", "both", "true").exit_code == 0
    spec = spec_of(fake)
    assert (spec.sharing, spec.kind) == (pb.CORE_SHARING_BOTH, pb.JOB_KIND_MALLEABLE)
    assert (spec.size_min, spec.size_max, spec.mode) == (2, 2, common.RESIZE_MODE_MASK)
    assert wattfold("submit", "--nodes", "2", "--share", "no", "true").exit_code == 0
    assert (spec_of(fake).sharing, spec_of(fake).kind) == (pb.CORE_SHARING_NO, pb.JOB_KIND_RIGID)
    moldable = ("--kind", "moldable", "--share", "borrow")
    assert wattfold("submit", "--nodes", "2", *moldable, "true").exit_code == 0
    assert spec_of(fake).kind == pb.JOB_KIND_MOLDABLE
    assert wattfold("submit", "true").exit_code == 0
    assert spec_of(fake).sharing == pb.CORE_SHARING_UNSPECIFIED
    assert wattfold("submit", "--share", "some", "true").exit_code == 2


def test_the_same_key_gives_the_same_job(wattfold: Command, fake: FakeCoordinator) -> None:
    first = wattfold("submit", "--idempotency-key", "k", "true")
    second = wattfold("submit", "--idempotency-key", "k", "true")
    assert first.stdout == second.stdout == "job-1\n"
    assert len(fake.submissions) == 1


def test_environment(wattfold: Command, fake: FakeCoordinator) -> None:
    mine = {"SECRET": "s", "LANG": "C", "PASSED": "p"}
    assert wattfold("submit", "true", env=mine).exit_code == 0
    assert spec_of(fake).env["SECRET"] == "s"
    arguments = ("submit", "--no-env", "--env", "PASSED", "--env", "NEW=x=y", "true")
    assert wattfold(*arguments, env=mine).exit_code == 0
    env = spec_of(fake).env
    assert set(env) <= {"PATH", "HOME", "USER", "LANG", "PASSED", "NEW"}
    assert (env["LANG"], env["PASSED"], env["NEW"]) == ("C", "p", "x=y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-program",), "command not found in the PATH of the job: 'no-such-program'"),
        (("./no-such-program",), "no such program: "),
        (("--cores", "1", "--nodes", "1", "true"), "exclude each other"),
        (("--cores", "1-2", "--kind", "rigid", "true"), "a rigid job has one size, got 1-2"),
        (("--cores", "4-2", "true"), "not a size: '4-2'"),
        (("--time", "90", "true"), "not a duration: '90'"),
        (("--limit", "90s", "true"), "the time limit is --time, an estimate"),
        (("--cap", "0", "true"), "power '0' is outside"),
        (("--priority", "0", "true"), "--priority"),
        (("--name", "a\tb", "true"), "--name 'a\\tb' is not a valid name"),
        (("--env", "NOT_SET_ANYWHERE", "true"), "this shell has no such variable"),
        ((), "no command, and standard input is empty"),
    ],
)
def test_wrong_command_lines_send_nothing(
    wattfold: Command, fake: FakeCoordinator, arguments: tuple[str, ...], message: str
) -> None:
    result = wattfold("submit", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("wattfold: ")
    assert result.stderr.count("\n") == 1
    assert fake.submissions == []


def test_a_file_that_is_no_program(wattfold: Command, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    (tmp_path / "data").chmod(0o644)
    result = wattfold("submit", "--cwd", str(tmp_path), "./data")
    assert result.exit_code == 2
    assert "not executable: " in result.stderr


def test_no_check_leaves_the_command_to_the_nodes(wattfold: Command, fake: FakeCoordinator) -> None:
    assert wattfold("submit", "--no-check", "no-such-program").exit_code == 0
    assert list(spec_of(fake).argv) == ["no-such-program"]


def test_a_refusal_is_the_text_of_the_coordinator(wattfold: Command) -> None:
    result = wattfold("submit", "--cores", "9", "true")
    assert result.exit_code == 1
    assert result.stderr == "wattfold: size 9 cores is above the 4 cores of the largest node\n"


@pytest.mark.parametrize(
    ("state", "exit_code", "expected"),
    [
        (pb.JOB_STATE_COMPLETED, 0, 0),
        (pb.JOB_STATE_FAILED, 7, 7),
        (pb.JOB_STATE_FAILED, -9, 137),
        (pb.JOB_STATE_FAILED, 0, 1),
        (pb.JOB_STATE_CANCELLED, 0, 1),
        (pb.JOB_STATE_LOST, 0, 1),
    ],
)
def test_wait_exits_with_the_code_of_the_job(
    wattfold: Command, fake: FakeCoordinator, state: pb.JobState, exit_code: int, expected: int
) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(wattfold, "submit", "--wait", "true")
        fake.finish(fake.wait_for_job(pb.JOB_STATE_RUNNING), state, exit_code)
        result = running.result(timeout=30)
    assert result.exit_code == expected
    assert result.stdout == "job-1\n"
    assert f"with exit code {exit_code}" in result.stderr


def test_wait_outlasts_a_coordinator_that_is_away(wattfold: Command, fake: FakeCoordinator) -> None:
    asked = threading.Event()
    away = [True]

    def fail(method: str) -> tuple[grpc.StatusCode, str] | None:
        if method == "ListJobs" and away[0]:
            asked.set()
            return grpc.StatusCode.UNAVAILABLE, "restarting"
        return None

    fake.fail = fail
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(wattfold, "submit", "--wait", "--json", "true")
        assert asked.wait(20)
        fake.finish(fake.wait_for_job(pb.JOB_STATE_RUNNING), pb.JOB_STATE_COMPLETED)
        away[0] = False
        result = running.result(timeout=30)
    assert result.exit_code == 0
    assert "the job continues" in result.stderr
    document = json.loads(result.stdout)
    assert (document["state"], document["cap_uw"]) == ("JOB_STATE_COMPLETED", 45 * W)


def test_what_it_asks_for_beyond_cores_arrives(wattfold: Command, fake: FakeCoordinator) -> None:
    result = wattfold(
        *("submit", "--memory", "4G", "--gpus", "2", "--features", "a,b", "--queue", "q"),
        *("--among", "n1,n2"),
        *("--due", "2027-01-31T18:00:00+00:00", "--weight", "2.5", "--", "true"),
    )
    assert result.exit_code == 0, result.output
    spec = spec_of(fake)
    assert (spec.memory_bytes, spec.gpus, list(spec.features)) == (4 << 30, 2, ["a", "b"])
    assert list(spec.among) == ["n1", "n2"]
    assert (spec.queue, spec.due_at_s, spec.weight) == ("q", 1_801_418_400.0, 2.5)


def test_requeue_does_not_take_the_command_as_its_number(
    wattfold: Command, fake: FakeCoordinator
) -> None:
    result = wattfold("submit", "--requeue", "true", "x")
    assert result.exit_code == 2
    assert "--requeue took 'true' as the number of restarts; write --requeue=3" in result.stderr
    assert wattfold("submit", "--requeue", "--", "true").exit_code == 0
    assert spec_of(fake).requeue_max == 3
