"""The evaluation of the CP scheduler: instances, cases, and verdicts of both outcomes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from unit.experiments.eurora_folder import JOBS, published

from wattfold.simulator.papers.constraint.case import (
    FAMILIES,
    PRESSED,
    RAW,
    WEEK,
    ConstraintPlan,
    Folder,
    FolderError,
    InstanceCase,
)
from wattfold.simulator.papers.constraint.evaluation import (
    Evaluation,
    findings_of,
)
from wattfold.simulator.papers.constraint.jobs import jobs_of
from wattfold.simulator.papers.constraint.measure import measure, table_of
from wattfold.simulator.papers.constraint.report import report_of
from wattfold.simulator.papers.constraint.settings import (
    CP,
    FIFO,
    LOOK,
    MEASURES,
    OURS,
    POLICIES,
    TEST_1,
    WINDOWS,
    ConstraintAssumptions,
    stand_ins,
)
from wattfold.simulator.papers.report import write_report
from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Verdict
from wattfold.simulator.sweep.case import Case, Done, case_key
from wattfold.simulator.workloads.errors import LogError


@pytest.fixture
def plan(tmp_path: Path) -> ConstraintPlan:
    return ConstraintPlan(
        settings=ConstraintAssumptions(), folder=Folder.at(published(tmp_path / "eurora"))
    )


def test_a_raw_instance_is_its_trace(plan: ConstraintPlan) -> None:
    jobs, read = jobs_of(plan.case(RAW, "hist_30_b.log_crypt", FIFO))
    assert jobs.job_ids.tolist() == [1000 + number for number in range(JOBS // 4, JOBS)]
    assert {read.requests[job].cores for job in jobs.job_ids.tolist()} == {16, 8, 4}


def test_a_window_is_cut_from_the_union_and_pressed(plan: ConstraintPlan) -> None:
    case = plan.case(PRESSED, WINDOWS[0].name, FIFO)
    jobs, _ = jobs_of(case)
    assert len(jobs) == JOBS
    assert jobs.submit_s[:3].tolist() == pytest.approx([0.0, 90.0, 180.0])
    assert len(WINDOWS) == len(set(WINDOWS)) == 12


def test_a_window_beyond_the_union_is_refused(plan: ConstraintPlan) -> None:
    with pytest.raises(ValueError, match=rf"{JOBS} jobs; the window 300 x0\.05 is beyond"):
        jobs_of(plan.case(PRESSED, TEST_1.name, FIFO))


def test_weeks_are_drawn_from_the_union_and_the_same_again(plan: ConstraintPlan) -> None:
    case = plan.case(WEEK, "2", FIFO)
    jobs, read = jobs_of(case)
    again, _ = jobs_of(case)
    other, _ = jobs_of(plan.case(WEEK, "3", FIFO))
    assert jobs.equals(again)
    assert not jobs.equals(other)
    assert len(set(jobs.job_ids.tolist())) == len(jobs) > JOBS
    assert set(jobs.preceding_jobs.tolist()) <= set(read.requests)
    assert jobs.submit_s.max() <= 7 * 86400
    wider, _ = jobs_of(replace(case, settings=ConstraintAssumptions(week_factor=1.54)))
    assert len(wider) < 0.7 * len(jobs)


def test_drawn_jobs_ask_for_what_they_were_read_with(plan: ConstraintPlan) -> None:
    table, read_as = table_of(plan.case(WEEK, "1", FIFO))
    _, read = jobs_of(plan.case(WEEK, "1", FIFO))
    assert table.units is not None
    assert table.waits is not None
    assert table.units.cores.tolist() == [read.requests[job_id].cores for job_id in read_as]
    hours = {0: 1, 1: 6, 2: 24, 3: 0.5}
    queues = [hours[(job_id - 1000) % 4] for job_id in read_as]
    assert (table.waits.max_ns / 3600e9).tolist() == queues


def test_a_queue_that_is_not_listed_is_told(plan: ConstraintPlan) -> None:
    (plan.folder.path / "system_queues").write_text("debug 60\n")
    with pytest.raises(LogError, match="says nothing of queue 'parallel'"):
        table_of(plan.case(RAW, "hist_30_a.log_crypt", FIFO))


def test_predicted_powers_add_up_over_jobs_that_run_at_once(plan: ConstraintPlan) -> None:
    case = plan.case(RAW, "hist_30_a.log_crypt", FIFO)
    assert measure(case)["predicted_w_peak"] == 0.0
    lines = "".join(f"{1000 + number}.host;10\n" for number in range(JOBS))
    (plan.folder.path / "power_predictions.gz").write_bytes(gzip.compress(lines.encode()))
    found = measure(case)
    # Four nodes of 16 cores: the longest runs overlap with the next two.
    assert 20.0 <= found["predicted_w_peak"] <= 40.0
    assert found["jobs"] == 3 * JOBS // 4


def test_the_model_runs_where_few_wait_and_everywhere_if_asked(plan: ConstraintPlan) -> None:
    assert CP in plan.policies(RAW)
    assert CP not in plan.policies(PRESSED)
    everywhere = replace(plan, cp=True)
    assert everywhere.policies(WEEK) == POLICIES
    labels = {case.label for family in FAMILIES for case in plan.cases(family)}
    assert len(labels) == sum(len(plan.cases(family)) for family in FAMILIES)


def test_a_folder_that_lacks_something_says_what(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="traces: No such file"):
        Folder.at(tmp_path)
    folder = published(tmp_path / "eurora")
    before = Folder.at(folder).digest
    (folder / "system_queues").write_text("debug 60\n")
    assert Folder.at(folder).digest != before
    (folder / "nodes_64").unlink()
    with pytest.raises(FolderError, match="nodes_64"):
        Folder.at(folder)


Told = Callable[[InstanceCase], float]


def samples_of(plan: ConstraintPlan, family: str, wqt: Told) -> Samples:
    cases = plan.cases(family)
    values = {
        case.label: dict.fromkeys(MEASURES, 0.05) | {"wqt": wqt(case), "nl": wqt(case)}
        for case in cases
    }
    for case in cases:
        values[case.label] |= {"tr_s": wqt(case), "wqt_mean": wqt(case)}
    done = {
        case_key(cast("Case", case), "v"): Done(values=values[case.label], cpu_s=1.0)
        for case in cases
    }
    return Samples(done, "v")


def verdicts(plan: ConstraintPlan, family: str, wqt: Told) -> dict[str, tuple[Verdict, str]]:
    judged = findings_of(plan, family, samples_of(plan, family, wqt)).judgements
    return {one.claim.key: (one.verdict, one.why) for one in judged}


def test_a_loss_is_named_and_sums_are_judged_by_the_better_baseline(plan: ConstraintPlan) -> None:
    lost = WINDOWS[5].name

    def wqt(case: InstanceCase) -> float:
        ours = 90.0 if case.instance == lost else 50.0
        return {OURS: ours, CP: 40.0, FIFO: 100.0, LOOK: 900.0}.get(case.policy, 80.0)

    found = verdicts(replace(plan, cp=True), PRESSED, wqt)
    assert found["pressed-wqt-each"] == (Verdict.NOT, f"lost: {lost}")
    assert found["pressed-wqt-sum"][0] is Verdict.DIRECTION
    assert found["pressed-nl-sum"][0] is Verdict.REPRODUCED
    assert found["pressed-ao_s"][0] is Verdict.REPRODUCED
    assert found["test-1"][0] is Verdict.REPRODUCED
    assert found["test-2"][0] is Verdict.NOT


def test_what_is_never_worse_and_what_is_far_better_holds(plan: ConstraintPlan) -> None:
    modelled = replace(plan, cp=True)
    found = verdicts(
        modelled, PRESSED, lambda case: {OURS: 10.0, CP: 2000.0}.get(case.policy, 100.0)
    )
    assert found["pressed-wqt-each"] == (Verdict.REPRODUCED, "on every one")
    assert {found[f"pressed-{name}-sum"][0] for name in ("wqt", "nl", "tr_s")} == {
        Verdict.REPRODUCED
    }
    assert (found["test-1"][0], found["test-2"][0]) == (Verdict.NOT, Verdict.REPRODUCED)
    assert {one for one, _ in verdicts(plan, RAW, lambda case: 1.0).values()} == {
        Verdict.REPRODUCED
    }
    weeks = verdicts(
        plan, WEEK, lambda case: {OURS: 64.0}.get(case.policy, 100.0) + int(case.instance)
    )
    assert weeks["weeks-wqt"][0] is Verdict.REPRODUCED


def test_claims_without_their_cases_are_undecided(plan: ConstraintPlan) -> None:
    for family in FAMILIES:
        judged = findings_of(plan, family, Samples({}, "v")).judgements
        assert {one.verdict for one in judged} == {Verdict.UNDECIDED}


def test_the_report_has_the_published_table_and_every_instance(
    plan: ConstraintPlan, tmp_path: Path
) -> None:
    quick = replace(plan, quick=True, cp=True)
    samples = samples_of(quick, PRESSED, lambda case: 12.5)
    evaluation = Evaluation(
        plan=quick,
        findings=(findings_of(quick, PRESSED, samples),),
        totals=Totals(failures=(), cases=5, stored=0, broken=(), core_s=1.0),
    )
    report = report_of(evaluation, stand_ins(quick.settings), lambda *_: [])
    files = write_report(report, tmp_path / "out")
    assert {path.name for path in files} == {"measures.csv", "verdicts.json", "report.md"}
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| test 2 | constraint-cp | 2441.3 | 376 | 16774800 | 34.82 |" in text
    assert f"| {TEST_1.name} | 12.5 / 12 / 12; 50 |" in text
    assert "quick: few instances" in text
    document = json.loads((tmp_path / "out" / "verdicts.json").read_text())
    told = document["experiments"][0]["instances"]
    assert [one["policy"] for one in told] == list(POLICIES)


@pytest.mark.parametrize(
    "fields",
    [{"budget_share": 0.0}, {"week_factor": 0.0}, {"cap_min_w": 200.0}, {"base_w": -1.0}],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="got"):
        ConstraintAssumptions(**fields)
