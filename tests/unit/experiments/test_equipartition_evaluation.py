"""The evaluation of equipartition: jobs, cases, and verdicts of both outcomes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattfold.simulator.papers.equipartition import evaluation as module
from wattfold.simulator.papers.equipartition.case import (
    ADAPTIVE,
    SCHEDULERS,
    STALLED,
    TRADITIONAL,
    EquipartitionPlan,
    LoadCase,
)
from wattfold.simulator.papers.equipartition.measure import (
    jobs_of,
    measure,
    program_of,
)
from wattfold.simulator.papers.equipartition.report import report_of
from wattfold.simulator.papers.equipartition.settings import (
    NODES,
    RUN_S,
    EquipartitionAssumptions,
    stand_ins,
)
from wattfold.simulator.papers.report import write_report
from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Verdict
from wattfold.simulator.sweep.case import Done, case_key

CASE = LoadCase(scheduler=ADAPTIVE, load=0.5, jobs=200, seed=1, settings=EquipartitionAssumptions())


def test_the_same_jobs_come_under_every_scheduler_and_load() -> None:
    adaptive, rigid = jobs_of(CASE), jobs_of(replace(CASE, scheduler=TRADITIONAL))
    later = jobs_of(replace(CASE, load=0.25))
    assert adaptive.profiles == rigid.profiles == later.profiles
    assert (adaptive.size_min == rigid.size_min).all()
    assert (rigid.size_min == rigid.size_max).all()
    assert (adaptive.size_max == NODES).all()
    assert np.allclose(later.submit_ns, 2 * adaptive.submit_ns, rtol=1e-6)
    assert 1 <= adaptive.size_min.min() <= adaptive.size_min.max() <= NODES


def test_its_program_takes_what_the_paper_says() -> None:
    program = program_of(EquipartitionAssumptions())
    assert program.time_s(NODES, 60) == pytest.approx(RUN_S)
    assert program.time_s(1, 60) / program.time_s(NODES, 60) == pytest.approx(42.9, abs=0.05)


def test_adaptive_jobs_respond_faster_and_a_stall_costs() -> None:
    found = {name: measure(replace(CASE, scheduler=name)) for name in SCHEDULERS}
    responses = [found[name]["response_s"] for name in (ADAPTIVE, STALLED, TRADITIONAL)]
    assert responses == sorted(responses)
    assert found[TRADITIONAL]["resizes"] == 0 < found[ADAPTIVE]["resizes"]
    assert measure(CASE) == found[ADAPTIVE]


@pytest.mark.parametrize(
    ("adaptive", "verdict"), [(100.0, Verdict.REPRODUCED), (300.0, Verdict.NOT)]
)
def test_a_claim_holds_only_where_it_was_measured(
    adaptive: float, verdict: Verdict, tmp_path: Path
) -> None:
    plan = EquipartitionPlan(settings=EquipartitionAssumptions(), seeds=3)
    one = module.experiments(plan)[0]
    values = {ADAPTIVE: adaptive, STALLED: adaptive, TRADITIONAL: 200.0}
    done = {
        case_key(case, "v"): Done(
            values={
                "response_s": values[case.scheduler] + case.seed,
                "utilisation": 0.5 + 100 / values[case.scheduler],
                "resizes": 1.0,
                "wait_s": 0.0,
                "makespan_s": 1.0,
            },
            cpu_s=1.0,
        )
        for case in plan.all_cases(one.jobs)
    }
    samples = Samples(done, "v")
    judgements = tuple(module._judgements(plan, one, samples))
    assert {judgement.verdict for judgement in judgements} == {verdict}
    findings = module.Findings(
        family=one, title=one.title, plan=plan, samples=samples, judgements=judgements
    )
    totals = Totals(failures=(), cases=len(done), stored=0, broken=(), core_s=1.0)
    whole = module.Evaluation(plan=plan, findings=(findings,), totals=totals)
    files = write_report(report_of(whole, stand_ins(plan.settings), lambda *_: []), tmp_path)
    assert {path.name for path in files} == {"measures.csv", "verdicts.json", "report.md"}
    told = json.loads((tmp_path / "verdicts.json").read_text())["experiments"][0]["claims"]
    assert {claim["verdict"] for claim in told} == {verdict.value}


def test_a_claim_without_its_cases_is_undecided() -> None:
    plan = EquipartitionPlan(settings=EquipartitionAssumptions(), seeds=2)
    one = module.experiments(plan)[0]
    verdicts = {j.verdict for j in module._judgements(plan, one, Samples({}, "v"))}
    assert verdicts == {Verdict.UNDECIDED}


@pytest.mark.parametrize("fields", [{"parallelism": 0.5}, {"sigma": 2.0}, {"stall_s": -1.0}])
def test_settings_that_make_no_sense_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="got"):
        EquipartitionAssumptions(**fields)
