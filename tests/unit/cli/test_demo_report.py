"""Output files of a demonstration: figures, table and plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.coordinator.demo import report
from wattfold.coordinator.demo.report import DemoReport
from wattfold.coordinator.demo.time_left import DemoPart, TimeLeft
from wattfold.coordinator.figures.run_record import (
    BudgetPoint,
    CoreSpan,
    LimitCurves,
    LimitPoint,
    Observation,
    PolicyResult,
    PolicyRun,
    PowerPoint,
)


def result(
    policy: str,
    makespan_s: float,
    peak_w: float = 170.0,
    foreign_share: float = 0.01,
    samples: int = 2000,
    above: int = 0,
) -> PolicyResult:
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
        observed=Observation(
            foreign_share=foreign_share,
            samples=samples,
            samples_above=above,
            limits_w_peak=171.5 if above else 168.0,
        ),
    )


def run(policy: str) -> PolicyRun:
    return PolicyRun(
        policy=policy,
        budget=(BudgetPoint(time_s=0.0, budget_w=171.0),),
        power=(PowerPoint(time_s=0.0, committed_w=170.0, measured_w=120.0),),
        spans=(CoreSpan(job="md1", node="n0", cpu=0, start_s=0.0, end_s=9.5),),
        limits=LimitCurves(nodes=("n0",), points=(LimitPoint(time_s=0.1, node_w=(60.0,)),)),
    )


def demo(*results: PolicyResult, profiles_share: float = 0.0) -> DemoReport:
    runs = [run(one.policy) for one in results]
    return report.report_of(
        results, runs, scale=0.7, nodes=4, emulated=True, profiles_foreign_share=profiles_share
    )


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
    assert "| CPU time of other processes | 1.0 % | 1.0 % | 1.0 % |  |" in lines
    assert lines[-1].endswith(
        "amount of work 0.7. The limits of the nodes were within the budget in all 6,000 samples."
    )


def test_a_peak_above_the_budget_is_reported() -> None:
    made = demo(result("fifo-easy", 100.0, peak_w=172.0), result("parm-wse", 60.0))
    assert not made.budget_kept
    assert report.budget_sentence(made) == (
        "Committed or measured power exceeded the budget: see the table."
    )


def test_a_sample_above_the_budget_is_reported() -> None:
    made = demo(*FULL[:2], result("parm-wse", 60.0, above=3))
    assert not made.budget_kept
    assert (
        report.markdown(made)
        .rstrip()
        .endswith(
            "The limits of the nodes exceeded the budget in 3 of 6,000 samples: "
            "up to 171.5 W of 171.0 W."
        )
    )


def test_without_samples_nothing_is_said_about_the_budget() -> None:
    made = demo(result("parm-wse", 60.0, samples=0))
    assert not made.budget_kept
    assert "never read" in report.budget_sentence(made)


@pytest.mark.parametrize(
    "made",
    [
        demo(*FULL[:2], result("parm-wse", 160.0, foreign_share=0.312)),
        demo(*FULL, profiles_share=0.312),
    ],
)
def test_a_disturbed_report_compares_nothing(made: DemoReport) -> None:
    text = report.markdown(made)
    assert text.startswith(
        "**Disturbed: other processes used up to 31% of the CPU time of these cores, more than 5%."
    )
    assert text.count("| disturbed |") == 3
    assert report.title(made).endswith("DISTURBED: other processes used up to 31% of the CPU time")
    assert not demo(*FULL).disturbed


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
        DemoPart(name="one", usual_s=10),
        DemoPart(name="two", usual_s=30),
        DemoPart(name="three", usual_s=60),
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
