"""`submit --after` and `--begin`, and how waiting jobs are shown."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pytest
from unit.cli.command import Command
from unit.cli.fake_coordinator import NOW_S, FakeCoordinator

from wattfold.coordinator.cli.shared.parsing import parse_begin_s
from wattfold.v1 import coordinator_pb2 as pb

NOON_S = datetime(2027, 1, 31, 12, 0).astimezone().timestamp()


def sent(fake: FakeCoordinator) -> list[tuple[str, bool]]:
    return [(one.job_id, one.success) for one in fake.submissions[-1].after]


def test_dependencies_arrive_in_their_order(wattfold: Command, fake: FakeCoordinator) -> None:
    options = ("--after", "ok:3,1,3", "--after", "any:2")
    assert wattfold("submit", *options, "true").exit_code == 0
    assert sent(fake) == [("3", True), ("1", True), ("2", False)]
    assert fake.submissions[-1].begin_at_s == 0
    assert wattfold("submit", "true").exit_code == 0
    assert sent(fake) == []


@pytest.mark.parametrize("text", ["3", "ok", "ok:", "ok:1,", "fine:1", "ok:1 2", "any:a;b", "ok:*"])
def test_other_dependencies_are_refused(
    wattfold: Command, fake: FakeCoordinator, text: str
) -> None:
    result = wattfold("submit", "--after", text, "true")
    assert (result.exit_code, fake.submissions) == (2, [])
    assert f"not a dependency: {text!r}; expected ok:ID[,ID]" in result.stderr


def test_scripts_may_state_them(
    wattfold: Command, fake: FakeCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ("#!/bin/sh", "#SBATCH -d afterok:9", "#WATTFOLD --after any:8", "true")
    Path("job.sh").write_text("\n".join(lines), encoding="utf-8")
    assert wattfold("submit", "job.sh").exit_code == 0
    assert sent(fake) == [("8", False)], "the line of Wattfold wins"
    assert wattfold("submit", "--after", "ok:7", "job.sh").exit_code == 0
    assert sent(fake) == [("7", True)]


def test_a_begin_time_arrives(wattfold: Command, fake: FakeCoordinator) -> None:
    before_s = time.time()
    assert wattfold("submit", "--begin", "now+1h", "true").exit_code == 0
    assert before_s + 3600 <= fake.submissions[-1].begin_at_s <= time.time() + 3600
    assert wattfold("submit", "--begin", "2027-01-31T12:00", "true").exit_code == 0
    assert fake.submissions[-1].begin_at_s == NOON_S
    assert wattfold("submit", "--begin", "teatime", "true").exit_code == 2


@pytest.mark.parametrize(
    ("text", "after_s"),
    [
        ("now+90s", 90),
        ("NOW+1h30m", 5400),
        ("2h", 7200),
        ("+2h", 7200),
        ("16:00", 4 * 3600),
        ("12:00:01", 1),
        ("12:00", 24 * 3600),
        ("9:30", 21.5 * 3600),
        ("2027-02-01T00:00", 12 * 3600),
    ],
)
def test_begin_times(text: str, after_s: float) -> None:
    assert parse_begin_s(text, NOON_S) == NOON_S + after_s
    assert parse_begin_s("now", NOON_S) == 0


@pytest.mark.parametrize("text", ["24:00", "12:60", "now+", "now+1", "now-1h", "soon", ""])
def test_other_begin_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_begin_s(text, NOON_S)


def test_show_lists_the_conditions(wattfold: Command, fake: FakeCoordinator) -> None:
    reason = "waits in vain: it needs success of job 2, which ended otherwise"
    job = pb.Job(job_id="5", state=pb.JOB_STATE_PENDING, reason=reason, begin_at_s=NOW_S)
    job.after.add(job_id="1", success=True, state=pb.DEPENDENCY_STATE_MET)
    job.after.add(job_id="2", success=True, state=pb.DEPENDENCY_STATE_NEVER)
    job.after.add(job_id="3", state=pb.DEPENDENCY_STATE_OPEN)
    fake.add(job)
    shown = wattfold("show", "5").stdout
    lines = [line.split(maxsplit=2) for line in shown.splitlines() if line.startswith("after ")]
    assert lines == [
        ["after", "1", "success: met"],
        ["after", "2", "success: ended without success"],
        ["after", "3", "any end: open"],
    ]
    assert "\nbegin " in shown
    assert f"({reason})" in wattfold("queue").stdout
    after = json.loads(wattfold("--json", "show", "5").stdout)["after"]
    assert [one["state"] for one in after] == [
        f"DEPENDENCY_STATE_{name}" for name in ("MET", "NEVER", "OPEN")
    ]
