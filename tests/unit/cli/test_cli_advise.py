"""`wattfold advise` in process: from the history of a coordinator to an advice."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator, W

from wattfold.coordinator.cli.shared.exit_codes import ExitCode
from wattfold.v1 import coordinator_pb2 as pb

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "advice.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    wattfold (advise .*)$", PAGE, re.M)
DAY_S = 86_400
DAYS = 5
START_S = NOW_S - DAYS * DAY_S
FULL_W = 2 * (20 + 60)
"""Charge of both nodes of the fake site at full power."""
HOLE = [(0, 600, 1), (1, 600, 2), *((2 + n, 60, 1) for n in range(10))]
"""Submission, run time and nodes: short jobs that fit beside a job before a wide job."""


def past(day: int, number: int, submit_s: float, run_s: float, nodes: int) -> pb.HistoryJob:
    start_s = START_S + day * DAY_S + submit_s
    return pb.HistoryJob(
        job_id=f"{day}.{number}",
        user="ada",
        app="gmx",
        state=pb.JOB_STATE_COMPLETED,
        submitted_at_s=start_s,
        started_at_s=start_s,
        ended_at_s=start_s + run_s,
        nodes=nodes,
        core_s=run_s * 4 * nodes,
        size_min=nodes,
        size_max=nodes,
        unit=pb.SIZE_UNIT_NODES,
        attempts=1,
    )


def days(pattern: list[tuple[int, int, int]], count: int = DAYS) -> list[pb.HistoryJob]:
    """The pattern on each day, with run times that differ a little between days."""
    return [
        past(day, number, submit_s, run_s * (1 + 0.02 * day), nodes)
        for day in range(count)
        for number, (submit_s, run_s, nodes) in enumerate(pattern)
    ]


class WithPast(FakeCoordinator):
    """The fake coordinator, with ended jobs."""

    past: list[pb.HistoryJob]

    def ListHistory(self, request: Any, context: Any) -> pb.ListHistoryResponse:  # noqa: N802
        found = [job for job in self.past if job.ended_at_s >= request.since_s]
        return pb.ListHistoryResponse(jobs=found[: request.limit])


@pytest.fixture
def fake() -> WithPast:
    site = WithPast()
    site.power.policy = "fifo"
    site.power.budget_uw = FULL_W * W
    site.power.floor_uw = 100 * W
    site.past = days(HOLE)
    return site


def told(wattfold: Command, *words: str) -> dict[str, Any]:
    done = wattfold("--json", "advise", "--history", "2001-01-01", "--workers", "1", *words)
    assert done.exit_code == ExitCode.OK, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


ONE = ("--policies", "fifo-easy", "--budgets", "100")


def test_a_better_policy_is_found(wattfold: Command, fake: WithPast) -> None:
    answer = told(wattfold, *ONE)
    assert (answer["jobs"], len(answer["segments"])) == (12 * DAYS, DAYS)
    advice = answer["advice"]
    assert advice["policy"] == "easy"
    assert advice["changes"]
    assert advice["interval"][1] < 1
    assert advice["relative"] < 0.8
    assert advice["sentences"][0].startswith("Take easy")


def test_equal_policies_show_no_difference(wattfold: Command, fake: WithPast) -> None:
    fake.past = days([(n * 1000, 300, 1) for n in range(12)])
    answer = told(wattfold, *ONE)
    assert not answer["advice"]["changes"]
    assert answer["advice"]["policy"] == "fcfs"
    assert "no difference shown" in answer["advice"]["sentences"][0]


def test_the_numbers_are_those_of_compare(
    wattfold: Command, fake: WithPast, tmp_path: Path
) -> None:
    answer = told(wattfold, *ONE, "--out", str(tmp_path))
    sums = {"fcfs": 0.0, "easy": 0.0}
    logs = sorted(tmp_path.glob("*.swf"))
    assert len(logs) == DAYS
    for log in logs:
        words = ["--annotations", str(log.with_suffix(".csv")), "--procs-per-node", "4"]
        words += ["--nodes", "2", "--base", "20", "--dram", "0", "--cap-min", "30"]
        words += ["--cap-max", "60", "--budget", f"{FULL_W}W", "--policies", "fcfs,easy"]
        done = wattfold("--json", "compare", "--log", str(log), *words)
        assert done.exit_code == ExitCode.OK, done.stderr
        for run in json.loads(done.stdout)["runs"]:
            sums[run["policy"]] += run["completion_s_mean"] / DAYS
    found = {one["policy"]: one["completion_s_mean"] for one in answer["options"]}
    assert found == pytest.approx(sums)
    assert answer["advice"]["relative"] == pytest.approx(sums["easy"] / sums["fcfs"])


def test_a_short_history_names_the_jobs_found_and_needed(wattfold: Command, fake: WithPast) -> None:
    fake.past = days(HOLE, 2)
    done = wattfold("advise", "--history", "2001-01-01")
    assert done.exit_code == ExitCode.USAGE
    assert "24 jobs" in done.stderr
    assert "at least 40 jobs" in done.stderr


def test_lower_budgets_are_compared_with_the_present(wattfold: Command, fake: WithPast) -> None:
    answer = told(wattfold, "--policies", "easy-uniform", "--budgets", "80,100")
    named = [(one["budget_w"], one["policy"], one["verdict"]) for one in answer["options"]]
    assert (FULL_W, "fcfs", "current") in named
    assert {budget for budget, _, _ in named} <= {FULL_W, 0.8 * FULL_W}
    assert all(one["budget_w"] == 0.8 * FULL_W for one in answer["refused"])


def test_the_table_ends_with_the_advice(wattfold: Command, fake: WithPast) -> None:
    done = wattfold("advise", "--history", "2001-01-01", "--workers", "1", *ONE)
    assert done.exit_code == ExitCode.OK, done.stderr
    assert f"{12 * DAYS} past jobs in {DAYS} segments of 1 day" in done.stdout
    assert "Profiles: drawn for" in done.stdout
    assert "Take easy" in done.stdout[done.stdout.index("Profiles:") :]


def test_the_document_matches_its_schema(wattfold: Command, fake: WithPast) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "schemas" / "advise-1.json").read_text(encoding="utf-8"))
    answer = told(wattfold, "--policies", "fifo-easy", "--budgets", "90")
    jsonschema.validate(answer, schema)
    assert answer["refused"]
    for part, lost in (("advice", "confidence"), ("current", "budget_w")):
        less = {key: value for key, value in answer[part].items() if key != lost}
        with pytest.raises(jsonschema.ValidationError, match="is a required property"):
            jsonschema.validate({**answer, part: less}, schema)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_work(
    wattfold: Command,
    fake: WithPast,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    real = "--history 90d"
    words = command.replace(real, "") + " --history 2001-01-01 --workers 1"
    if "--goal" in words:
        # The first command of the page compares all policies under all budgets.
        words += " --policies fifo-easy --budgets 90"
    done = wattfold(*shlex.split(words))
    assert done.exit_code == ExitCode.OK, done.stderr


def test_a_policy_without_a_pool_is_refused(wattfold: Command, fake: WithPast) -> None:
    fake.power.policy = "constraint"
    done = wattfold("advise", "--history", "2001-01-01")
    assert done.exit_code == ExitCode.REFUSED
    assert "what-if" in done.stderr


def test_a_policy_of_each_family_is_compared(wattfold: Command, fake: WithPast) -> None:
    answer = told(wattfold, "--budgets", "100")
    named = {one["policy"] for one in (*answer["options"], *answer["refused"])}
    assert {"fcfs", "easy", "conservative", "easy-uniform", "parm-wse", "equipartition"} <= named
    assert not {"parm-nose", "parm-nomm"} & named
    assert answer["advice"]["confidence"] > 0.95
    for one in answer["options"]:
        assert one["relative"] is None or math.isfinite(one["relative"])
