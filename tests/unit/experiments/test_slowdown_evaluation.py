"""SD-Policy's evaluation: its cases, jobs, single runs, judgements and files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattfold.simulator.papers.report import write_report
from wattfold.simulator.papers.slowdown_driven import curie
from wattfold.simulator.papers.slowdown_driven.case import (
    BEFORE,
    CHOSEN_ON,
    DYNAMIC,
    IDEAL,
    LIMITED,
    NO_LIMIT,
    STATIC,
    WORKLOADS,
    WORTH,
    SlowdownCase,
    SlowdownLog,
    SlowdownPlan,
)
from wattfold.simulator.papers.slowdown_driven.evaluation import (
    EXPERIMENTS,
    Evaluation,
    evaluate,
)
from wattfold.simulator.papers.slowdown_driven.figures import draw
from wattfold.simulator.papers.slowdown_driven.jobs import jobs_of
from wattfold.simulator.papers.slowdown_driven.measure import (
    MEASURES,
    measure,
)
from wattfold.simulator.papers.slowdown_driven.report import report_of
from wattfold.simulator.papers.slowdown_driven.settings import (
    CHOSEN_GAIN,
    SlowdownAssumptions,
    stand_ins,
)
from wattfold.simulator.papers.verdicts import Verdict
from wattfold.simulator.sweep.case import Case, Done, Measure, Outcome
from wattfold.simulator.sweep.store import ResultStore
from wattfold.simulator.sweep.worker import outcome_of
from wattfold.simulator.workloads.cirne import generate_cirne
from wattfold.simulator.workloads.swf_writer import write_swf

BOTH_LOGS = {name: SlowdownLog(path=Path("/none"), sha256=name) for name in ("ricc", "curie")}


class Here:
    """Runs cases in this process."""

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        for place, case in enumerate(cases):
            yield place, outcome_of(measure, case)


class Known:
    """Backend that derives the result of a case from its workload, passes, policy and model."""

    def __init__(self, slowdowns: Mapping[tuple[str, str], float], penalty: float = 1e9) -> None:
        self._slowdowns, self._penalty = slowdowns, penalty
        self.ran: list[str] = []

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        for place, case in enumerate(cases):
            assert isinstance(case, SlowdownCase)
            self.ran.append(case.policy)
            value = self._slowdowns.get((case.passes, case.policy), 1.0)
            values = dict.fromkeys(MEASURES, value) | {
                "jobs": 1000.0,
                "guests": 103.0,
                "mates": 86.0,
                "penalty": self._penalty,
            }
            for row, column, slowdown in ((3, 2, value), (11, 6, 1.0)):
                values[f"cell.{row}.{column}.jobs"] = 10.0
                values[f"cell.{row}.{column}.slowdown"] = slowdown
            values |= {"day.0.jobs": 5.0, "day.0.slowdown": value, "day.0.guests": 2.0}
            yield place, Done(values=values, cpu_s=0.0)


def curie_log(folder: Path) -> SlowdownLog:
    """Jobs of a small log, in processors, on nodes of 16 processors."""
    drawn = generate_cirne(200, 3)
    path = folder / "curie.swf"
    write_swf(drawn.changed(procs=drawn.procs * 16, requested_procs=drawn.procs * 16), path)
    return SlowdownLog(path=path, sha256="small")


def of(evaluation: Evaluation, key: str, mate_end: str = BEFORE) -> Verdict:
    [found] = [
        judgement.verdict
        for findings in evaluation.findings
        for judgement in findings.judgements
        if judgement.claim.key == f"{key}.{findings.plan.mate_end}"
        and findings.plan.mate_end == mate_end
    ]
    return found


def judged(tmp_path: Path, slowdowns: Mapping[tuple[str, str], float], name: str) -> Evaluation:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs=BOTH_LOGS)
    store = ResultStore(tmp_path / "cases")
    return evaluate(plan, [EXPERIMENTS[name]], store=store, backend=Known(slowdowns))


def test_a_case_is_what_decides_its_result() -> None:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs=BOTH_LOGS)
    cases = [
        case
        for one in EXPERIMENTS.values()
        for reading in one.plans(plan)
        for case in one.cases(reading)
    ]
    assert len({json.dumps(case.identity(), sort_keys=True) for case in cases}) == len(
        {case.label for case in cases}
    )
    other = SlowdownPlan(settings=SlowdownAssumptions(looked=5, least_gain=3.0), logs=BOTH_LOGS)

    def changed(passes: str, policy: str) -> bool:
        one, two = (p.cases("ricc", passes, policy)[0].identity() for p in (plan, other))
        return one != two

    assert not changed(IDEAL, STATIC)
    assert not changed(IDEAL, "10")
    assert changed(LIMITED, STATIC)
    assert changed(IDEAL, WORTH)


def test_logs_are_one_workload_and_drawn_ones_have_seeds() -> None:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs={"curie": BOTH_LOGS["curie"]})
    assert plan.workloads == ("cirne", "cirne-exact", "curie")
    assert plan.missing == ("ricc",)
    assert len(plan.cases("curie", IDEAL, STATIC)) == 1
    assert [case.seed for case in plan.cases("cirne", IDEAL, STATIC)] == [0, 1, 2]


def test_exact_requests_are_run_times() -> None:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs={}, quick=True)
    [exact, _, _] = plan.cases("cirne-exact", IDEAL, STATIC)
    [loose, _, _] = plan.cases("cirne", IDEAL, STATIC)
    ours, theirs = jobs_of(exact), jobs_of(loose)
    assert np.array_equal(ours.estimate_ns, ours.run_ns)
    assert np.array_equal(ours.run_ns, theirs.run_ns)
    assert (theirs.estimate_ns > theirs.run_ns).any()


def test_a_small_log_is_run_by_every_policy(tmp_path: Path) -> None:
    log = curie_log(tmp_path)
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs={"curie": log}, only=("curie",))
    [case] = plan.cases("curie", LIMITED, "10")
    table = jobs_of(case)
    assert len(table) == 200
    assert table.size_max.max() <= 128
    values = {
        policy: measure(plan.cases("curie", IDEAL, policy)[0])
        for policy in (STATIC, "10", DYNAMIC, WORTH)
    }
    for found in values.values():
        assert found["jobs"] == 200
        assert sum(v for name, v in found.items() if name.endswith(".jobs")) == 400
    assert values[STATIC]["guests"] == 0


def test_claims_hold_where_the_numbers_are_the_papers(tmp_path: Path) -> None:
    slowdowns = {(LIMITED, STATIC): 1.0, (LIMITED, "10"): 0.3, (IDEAL, STATIC): 1.0}
    result = judged(tmp_path, slowdowns, "a")
    assert of(result, "a.slowdown.curie") is Verdict.REPRODUCED
    assert of(result, "a.ten.curie") is Verdict.REPRODUCED
    assert of(result, "a.ideal.curie") is Verdict.NOT
    assert of(result, "a.grows.ricc") is Verdict.NOT


def test_claims_fail_where_sharing_does_harm(tmp_path: Path) -> None:
    harm = {(passes, STATIC): 0.5 for passes in (IDEAL, LIMITED)}
    result = judged(tmp_path, harm, "a")
    for workload in ("cirne", "ricc", "curie"):
        assert of(result, f"a.slowdown.{workload}") is Verdict.NOT
        assert of(result, f"a.ideal.{workload}") is Verdict.NOT


def test_every_claim_on_sharing_is_judged_in_both_readings(tmp_path: Path) -> None:
    result = judged(tmp_path, {}, "a")
    before, after = (
        {one.claim.key.removesuffix(f".{found.plan.mate_end}") for one in found.judgements}
        for found in result.findings
    )
    assert {key for key in before if "table1" not in key} == after
    assert not any(key.startswith("a.published") for key in before)


def test_the_gain_is_chosen_on_logs_outside_the_paper(tmp_path: Path) -> None:
    logs = BOTH_LOGS | {name: SlowdownLog(path=Path("/none"), sha256=name) for name in CHOSEN_ON}
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs=logs)
    experiment, store = EXPERIMENTS["gain"], ResultStore(tmp_path / "cases")
    tried = {case.policy for case in experiment.cases(plan) if case.workload in WORKLOADS}
    # With a chosen gain of 0, the variant is the policy of the paper without a limit.
    assert (CHOSEN_GAIN, tried) == (0.0, {STATIC, NO_LIMIT})
    result = evaluate(plan, [experiment], store=store, backend=Known({(LIMITED, WORTH): 0.5}))
    # Any gain halves the slowdown, so the first gain is the best.
    assert of(result, "gain.best") is Verdict.NOT
    assert of(result, "gain.ricc") is Verdict.REPRODUCED
    harm = Known({(passes, STATIC): 0.5 for passes in (IDEAL, LIMITED)})
    result = evaluate(plan, [experiment], store=ResultStore(tmp_path / "harm"), backend=harm)
    assert of(result, "gain.best") is Verdict.REPRODUCED
    assert of(result, "gain.ricc") is Verdict.NOT


def test_limits_that_keep_nobody_from_lending_are_not_run(tmp_path: Path) -> None:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs=BOTH_LOGS, only=("ricc",))
    backend = Known({(IDEAL, "0"): 3.0}, penalty=7.0)
    store = ResultStore(tmp_path / "cases")
    result = evaluate(plan, [EXPERIMENTS["a"]], store=store, backend=backend)
    shared = [DYNAMIC, WORTH, "0", "5"]
    assert sorted(backend.ran) == sorted([STATIC, *shared, *shared] * 2)
    assert result.totals.cases == 18
    samples = result.findings[0].samples
    slowdowns = [
        samples.values(plan.cases("ricc", IDEAL, limit)[0])["slowdown"]
        for limit in ("0", "50", "10", "5")
    ]
    assert slowdowns == [3.0, 3.0, 3.0, 1.0]
    again = Known({}, penalty=7.0)
    result = evaluate(plan, [EXPERIMENTS["a"]], store=store, backend=again)
    assert not again.ran
    assert result.totals.stored == 18


def test_a_run_is_the_same_under_a_limit_that_no_mate_came_up_to() -> None:
    plan = SlowdownPlan(settings=SlowdownAssumptions(), logs={}, seeds=(3,))
    [free] = plan.cases("cirne", LIMITED, "0")
    free = replace(free, count=900)
    found = measure(free)
    most = found["penalty"]
    assert most > 1
    at_least, above = (
        dict(measure(replace(free, policy=f"{limit!r}"))) for limit in (most, most * 1.001)
    )
    assert {name for name in found if found[name] != above[name]} <= {"wall_s"}
    assert at_least["penalty"] < most


def test_curie_is_judged_by_guests_categories_and_days(tmp_path: Path) -> None:
    result = judged(tmp_path, {(LIMITED, "10"): 0.3}, "b")
    for key in ("b.guests", "b.mates", "b.small", "b.peaks"):
        assert of(result, key) is Verdict.REPRODUCED
    harm = judged(tmp_path / "harm", {(LIMITED, "10"): 3.0}, "b")
    assert of(harm, "b.small") is Verdict.NOT
    assert of(harm, "b.peaks") is Verdict.NOT


def test_models_are_judged_by_the_greater_of_both_passes(tmp_path: Path) -> None:
    result = judged(tmp_path, {}, "c")
    assert of(result, "c.slowdown.curie") is Verdict.REPRODUCED


def test_categories_come_back_as_they_were(tmp_path: Path) -> None:
    plan = SlowdownPlan(
        settings=SlowdownAssumptions(), logs={"curie": curie_log(tmp_path)}, only=("curie",)
    )
    result = evaluate(
        plan, [EXPERIMENTS["b"]], store=ResultStore(tmp_path / "cases"), backend=Here()
    )
    findings, _ = result.findings
    [case] = plan.cases("curie", IDEAL, STATIC)
    held = curie.categories_of(findings.samples, case)
    assert held.jobs.sum() == 200
    assert np.isnan(held.slowdown[held.jobs == 0]).all()
    days = curie.day_series(findings.samples, case)
    assert len(days["day"]) == len(days["slowdown"]) == len(days["guests"])
    files = write_report(
        report_of(result, stand_ins(SlowdownAssumptions(), quick=False), draw), tmp_path / "out"
    )
    names = {path.name for path in files}
    assert {"report.md", "verdicts.json", "measures.csv"} <= names
    assert {"figures-4-to-6-ideal.png", "figure-7-limited.png"} <= names
    report = (tmp_path / "out" / "report.md").read_text()
    assert "20,476 jobs" in report
    assert "(b-before/figure-7-ideal.png)" in report
    assert "(b-after/figure-7-ideal.png)" in report


@pytest.mark.parametrize(
    "wrong", [{"looked": 0}, {"every_s": 0.0}, {"sharing_factor": 1.0}, {"tested": 0}]
)
def test_stand_ins_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="got"):
        SlowdownAssumptions(**wrong)  # type: ignore[arg-type]
