"""Measurements of real programs: storage, judgement, plots and report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.experiments.measured_sample import GOOD, SHARED, job, resizes

from wattfold.coordinator.demo.charm_trials import throughput
from wattfold.simulator.papers.equipartition.measured import (
    EquipartitionMeasurements,
    ResizeTime,
    load,
    mean_between,
    measured_once,
    store,
)
from wattfold.simulator.papers.equipartition.measured_claims import sections
from wattfold.simulator.papers.equipartition.measured_figures import (
    draw_residual,
    draw_resizes,
    draw_sharing,
)
from wattfold.simulator.papers.report import EvaluationReport, write_report
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Judgement, Verdict


def judged(measured: EquipartitionMeasurements, key: str) -> Judgement:
    found = [
        one
        for section in sections(measured, (draw_resizes, draw_residual, draw_sharing))
        for one in section.judgements
        if one.claim.key.startswith(key)
    ]
    assert len(found) == 1
    return found[0]


def test_it_is_read_as_it_was_stored(tmp_path: Path) -> None:
    store(GOOD, tmp_path / "measured.json")
    assert load(tmp_path / "measured.json") == GOOD
    (tmp_path / "other.json").write_text('{"machine": 3}', encoding="utf-8")
    with pytest.raises(ValueError, match="no measurements of this version"):
        load(tmp_path / "other.json")


def test_what_was_measured_before_a_run_was_stopped_is_not_measured_again(tmp_path: Path) -> None:
    path, runs = tmp_path / "resizes.json", list[int]()

    def measure() -> list[ResizeTime]:
        runs.append(1)
        return list(GOOD.resizes)

    for _ in range(2):
        assert measured_once(path, list[ResizeTime], measure) == list(GOOD.resizes)
    assert len(runs) == 1
    path.write_text("[{", encoding="utf-8")
    with pytest.raises(ValueError, match="no measurements of this version"):
        measured_once(path, list[ResizeTime], measure)


@pytest.mark.parametrize(
    "key",
    [
        *("real-shrink", "real-expand", "real-data", "real-processors"),
        *("real-residual-idle", "real-residual-steps", "real-interference"),
        *("real-throughput", "real-vacated"),
    ],
)
def test_what_holds_is_reproduced(key: str) -> None:
    assert judged(GOOD, key).verdict is Verdict.REPRODUCED


@pytest.mark.parametrize(
    ("key", "measured"),
    [
        ("real-shrink", replace(GOOD, resizes=resizes(9))),
        (
            "real-data",
            replace(GOOD, resizes=tuple(replace(one, stalled_s=0.1) for one in resizes())),
        ),
        (
            "real-residual-idle",
            replace(GOOD, residual=(replace(GOOD.residual[0], loads=(0.002, 0.0021)),)),
        ),
        (
            "real-residual-steps",
            replace(GOOD, residual=(replace(GOOD.residual[1], loads=(0.05, 0.04)),)),
        ),
        (
            "real-interference",
            replace(GOOD, interference=(replace(GOOD.interference[0], rigid=(12.0, 12.1, 12.2)),)),
        ),
        (
            "real-throughput",
            replace(
                GOOD,
                sharing=(replace(SHARED, jobs=(job("Job 1", (4,) * 12, 0.01), SHARED.jobs[1])),),
            ),
        ),
        (
            "real-vacated",
            replace(
                GOOD,
                sharing=(
                    replace(
                        SHARED,
                        jobs=(replace(SHARED.jobs[0], load=SHARED.jobs[1].load), SHARED.jobs[1]),
                    ),
                ),
            ),
        ),
    ],
)
def test_what_does_not_hold_is_said(key: str, measured: EquipartitionMeasurements) -> None:
    assert judged(measured, key).verdict is Verdict.NOT


def test_a_throughput_that_comes_back_in_part_is_a_direction() -> None:
    late = job("Job 1", (8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 6, 6), 0.01)
    found = judged(
        replace(GOOD, sharing=(replace(SHARED, jobs=(late, SHARED.jobs[1])),)), "real-throughput"
    )
    assert found.verdict is Verdict.DIRECTION


def test_the_report_names_the_machine_and_has_the_figures(tmp_path: Path) -> None:
    report = EvaluationReport(
        paper="P",
        title="T",
        sections=sections(GOOD, (draw_resizes, draw_residual, draw_sharing)),
        values="measures",
        measures={},
        settings={},
        stand_ins=(),
        totals=Totals(failures=(), cases=0, stored=0, broken=(), core_s=0.0),
    )
    written = {path.relative_to(tmp_path).as_posix() for path in write_report(report, tmp_path)}
    assert {
        "resize-time/resize-time.png",
        "residual/residual-load.png",
        f"sharing-{SHARED.pes}/sharing.png",
        "resize-time/measures.csv",
    } <= written
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "Measured on A, 2 cores" in text
    # 3 ms per MB on a processor are 0.75 ms for each of the four MB that move.
    assert "0.8 ms for each MB that moves" in text
    assert "2.0 ms for each processor" in text
    rows = (tmp_path / "resize-time" / "measures.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(GOOD.resizes)


def test_throughput_is_counted_in_bins_from_the_begin_on() -> None:
    steps = [(9.0, 0), (10.0, 10), (10.3, 13), (10.6, 16), (11.2, 28)]
    found = throughput(steps, 10.0)
    assert [round(at_s, 3) for at_s, _ in found] == [0.3, 0.9]
    assert [rate for _, rate in found] == pytest.approx([10.0, 20.0])
    assert throughput([], 0.0) == ()


def test_a_mean_of_no_values_is_none() -> None:
    series = ((1.0, 2.0), (2.0, 4.0), (3.0, 9.0))
    assert mean_between(series, 1.0, 3.0) == 3.0
    assert mean_between(series, 4.0, 5.0) != mean_between(series, 4.0, 5.0)
