"""Experiment d: results of real programs are stored, judged, drawn and reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wattfold.simulator.papers.report import EvaluationReport, write_report
from wattfold.simulator.papers.slowdown_driven.measured import (
    MeasuredRuns,
    RealJob,
    RealRun,
    load,
    store,
)
from wattfold.simulator.papers.slowdown_driven.measured_claims import (
    SHARED,
    STATIC,
    section,
)
from wattfold.simulator.papers.slowdown_driven.measured_figures import draw_shared
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Judgement, Verdict


def run(policy: str, seed: int, ends_s: tuple[float, float], energy_j: float) -> RealRun:
    """Two jobs submitted at 0 and 1 s, of 2 and 4 s."""
    jobs = tuple(
        RealJob(
            name=f"job{place}",
            nodes=place + 1,
            submitted_s=float(place),
            started_s=place + 0.5,
            ended_s=end_s,
            alone_s=2.0 + 2.0 * place,
        )
        for place, end_s in enumerate(ends_s)
    )
    return RealRun(
        policy=policy,
        seed=seed,
        jobs=jobs,
        energy_j=energy_j + seed,
        resizes=4,
        committed_w_peak=90.0,
        budget_w=100.0,
    )


GOOD = MeasuredRuns(
    processor="a processor",
    cores=2,
    nodes=4,
    quick=False,
    runs=tuple(
        one
        for seed in range(3)
        for one in (
            run(STATIC, seed, (4.0, 10.0 + seed / 10), 1000.0),
            run(SHARED, seed, (3.2, 9.3 + seed / 10), 940.0),
        )
    ),
)


def judged(measured: MeasuredRuns, key: str) -> Judgement:
    [found] = [one for one in section(measured, draw_shared).judgements if one.claim.key == key]
    return found


def test_it_is_read_as_it_was_stored(tmp_path: Path) -> None:
    store(GOOD, tmp_path / "measured.json")
    assert load(tmp_path / "measured.json") == GOOD
    (tmp_path / "other.json").write_text('{"runs": 3}', encoding="utf-8")
    with pytest.raises(ValueError, match="no measurements of this version"):
        load(tmp_path / "other.json")


def test_figures_of_merit_are_of_all_jobs() -> None:
    one = run(STATIC, 0, (4.0, 10.0), 1000.0)
    assert one.makespan_s == 10.0
    assert one.response_s == pytest.approx((4.0 + 9.0) / 2)
    assert one.slowdown == pytest.approx((4.0 / 2.0 + 9.0 / 4.0) / 2)


@pytest.mark.parametrize("key", ["d.makespan_s", "d.energy_j", "d.budget"])
def test_what_holds_is_reproduced(key: str) -> None:
    assert judged(GOOD, key).verdict is Verdict.REPRODUCED


def test_one_seed_is_no_more_than_a_direction() -> None:
    one = replace(GOOD, runs=GOOD.runs[:2])
    assert judged(one, "d.makespan_s").verdict is Verdict.DIRECTION


def test_what_does_not_hold_is_said() -> None:
    turned = tuple(
        replace(one, policy=SHARED if one.policy == STATIC else STATIC) for one in GOOD.runs
    )
    harm = replace(GOOD, runs=turned)
    for key in ("d.makespan_s", "d.response_s", "d.slowdown", "d.energy_j"):
        assert judged(harm, key).verdict is Verdict.NOT
    over = replace(GOOD, runs=(replace(GOOD.runs[0], committed_w_peak=101.0), *GOOD.runs[1:]))
    assert judged(over, "d.budget").verdict is Verdict.NOT


@pytest.mark.parametrize("seeds", [1, 3])
def test_it_is_reported_with_a_picture(tmp_path: Path, seeds: int) -> None:
    measured = replace(GOOD, runs=GOOD.runs[: 2 * seeds], quick=seeds == 1)
    report = EvaluationReport(
        paper="a paper",
        title="a title",
        sections=[section(measured, draw_shared)],
        values="measures",
        measures={},
        settings={},
        stand_ins=(),
        totals=Totals(),
    )
    names = {path.name for path in write_report(report, tmp_path)}
    assert {"real-programs.png", "measures.csv"} <= names
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "4 emulated nodes" in text
    assert ("no evaluation" in text) is measured.quick
    rows = (tmp_path / "d" / "measures.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * seeds
