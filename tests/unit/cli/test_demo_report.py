"""The files of a demonstration: figures, and the table and the picture made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.coordinator.demo import report
from wattfold.coordinator.demo.report import DemoReport
from wattfold.coordinator.demo.time_left import Step, TimeLeft
from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
    PolicyResult,
    PolicyRun,
    PowerPoint,
)


def result(policy: str, makespan_s: float, peak_w: float = 170.0) -> PolicyResult:
    return PolicyResult(
        policy=policy,
        jobs=12,
        mean_completion_s=makespan_s / 2,
        makespan_s=makespan_s,
        energy_j=makespan_s * 100,
        budget_w=171.0,
        committed_w_peak=peak_w,
        measured_w_peak=160.0,
        resizes=6,
    )


def run(policy: str) -> PolicyRun:
    return PolicyRun(
        policy=policy,
        budget=(BudgetPoint(time_s=0.0, budget_w=171.0),),
        power=(PowerPoint(time_s=0.0, committed_w=170.0, measured_w=120.0),),
        spans=(CoreSpan(job="md1", node="n0", cpu=0, start_s=0.0, end_s=9.5),),
    )


def demo(*results: PolicyResult) -> DemoReport:
    runs = [run(one.policy) for one in results]
    return report.report_of(results, runs, scale=0.7, nodes=4, emulated=True)


FULL = (result("fifo-easy", 100.0), result("easy-uniform", 80.0), result("parm-wse", 60.0))


def test_table_and_picture_are_made_from_the_file(tmp_path: Path) -> None:
    made = demo(*FULL)
    report.write(made, tmp_path)
    stored = report.read(tmp_path / report.RESULTS)
    assert stored == made
    assert (tmp_path / report.TABLE).read_text(encoding="utf-8") == report.markdown(stored)
    assert (tmp_path / report.PICTURE).read_bytes().startswith(b"\x89PNG")


def test_parm_is_compared_with_the_best_baseline() -> None:
    lines = report.markdown(demo(*FULL)).splitlines()
    assert lines[0].endswith("| PARM | PARM / best baseline |")
    assert "| makespan | 100.0 s | 80.0 s | 60.0 s | 0.75 |" in lines
    assert "| peak committed power | 170.0 W | 170.0 W | 170.0 W |  |" in lines
    assert lines[-1].startswith("12 jobs on 4 emulated nodes; ")
    assert lines[-1].endswith("amount of work 0.7; the budget was kept.")


def test_a_peak_above_the_budget_is_reported() -> None:
    made = demo(result("fifo-easy", 100.0, peak_w=172.0), result("parm-wse", 60.0))
    assert not made.budget_kept
    assert report.markdown(made).rstrip().endswith("the budget was exceeded.")


def test_the_title_of_the_picture_says_what_is_seen() -> None:
    assert report.title(demo(*FULL)) == (
        "12 jobs under a power budget of 171 W: PARM finishes after 60 s, "
        "the baselines after 100 s and 80 s"
    )


@pytest.mark.parametrize("text", ["", "[]", '{"results": 3}', "{}"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="does not hold the results"):
        report.read(path)


def test_the_time_left_follows_the_pace() -> None:
    now = [0.0]
    steps = [
        Step(name="one", usual_s=10),
        Step(name="two", usual_s=30),
        Step(name="three", usual_s=60),
    ]
    left = TimeLeft(steps, lambda: now[0])
    assert left.text() == "about 1 min 40 s left"
    now[0] = 20.0
    left.begin("two")
    assert left.left_s() == pytest.approx(180)
    now[0] = 50.0
    assert left.left_s() == pytest.approx(150)
    now[0] = 500.0
    assert left.left_s() == pytest.approx(120)
    left.begin("three")
    now[0] = 9999.0
    assert left.text() == "about 10 s left"
