"""The evaluation of ANDREAS: jobs, prices, cases, and verdicts of both outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from wattfold.coordinator.models.energy_price import DAY_S, parse_series
from wattfold.simulator.papers.andreas.case import (
    CAPS,
    FAMILIES,
    GAP,
    PRICE,
    SCENARIO,
    AndreasPlan,
    AnyCase,
    GapCase,
    TrainingCase,
)
from wattfold.simulator.papers.andreas.choices import (
    budget_of,
    policy_of,
    price_of,
)
from wattfold.simulator.papers.andreas.evaluation import (
    Evaluation,
    Findings,
    findings_of,
)
from wattfold.simulator.papers.andreas.figures import draw
from wattfold.simulator.papers.andreas.jobs import (
    drawn_jobs,
    epoch_times,
    machine_of,
)
from wattfold.simulator.papers.andreas.measure import measure, run
from wattfold.simulator.papers.andreas.prices import (
    BESIDE_EUR_PER_MWH,
    SPRING,
    WINTER,
    day_ahead,
    series_text,
)
from wattfold.simulator.papers.andreas.profiles import PROFILES, T4, V100
from wattfold.simulator.papers.andreas.report import report_of
from wattfold.simulator.papers.andreas.settings import (
    BASELINES,
    COMPOSED,
    EDF,
    FIFO,
    GAP_MEASURES,
    MEASURED,
    MEASURES,
    OURS,
    PAPERS,
    POLICIES,
    PRICES,
    SCENARIOS,
    SPRING_SPOT,
    TABLE,
    UNAWARE,
    WAITING,
    AndreasAssumptions,
    stand_ins,
)
from wattfold.simulator.papers.report import write_report
from wattfold.simulator.papers.samples import Samples
from wattfold.simulator.papers.swept import Totals
from wattfold.simulator.papers.verdicts import Verdict
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.sweep.case import Case, Done, case_key

SETTINGS = AndreasAssumptions()
COMPOSED_JOBS = AndreasAssumptions(workload=COMPOSED)
FIRST, SECOND = SCENARIOS
PLAN = AndreasPlan(settings=SETTINGS, seeds=2, nodes=(10, 20), quick=True)


# ---- jobs, machines, prices ----------------------------------------------------------------------


def test_more_gpus_are_faster_and_no_model_is_always_so_much_slower() -> None:
    ratios = set()
    for profile in PROFILES:
        for model in (V100, T4):
            seconds = [time.seconds for time in profile.times if time.gpu_model == model]
            assert seconds == sorted(seconds, reverse=True)
        ratios.add(round(profile.t4_ratio, 2))
    assert min(ratios) < 2 < 4 < max(ratios)


def test_jobs_are_drawn_as_the_generator_does() -> None:
    jobs = drawn_jobs(FIRST, 40, 400, 1, COMPOSED_JOBS)
    times = epoch_times(COMPOSED)
    assert [job.job_id for job in jobs] == list(range(1, 401))
    assert jobs[0].submit_s == 0
    slack = []
    for job in jobs:
        able = [
            time.seconds
            for time in times[job.app]
            if time.gpus <= (FIRST.v100 if time.gpu_model == V100 else FIRST.t4)
        ]
        assert job.due_s is not None
        slack.append((job.due_s - job.submit_s) / (job.epochs * min(able)))
    assert min(slack) >= 1
    assert max(slack) <= 3
    assert np.mean(slack) == pytest.approx(2, abs=0.1)
    # 0.003 to 0.015 EUR per second, in hours at 10 EUR.
    assert min(job.weight for job in jobs) >= 1.08
    assert max(job.weight for job in jobs) <= 5.4
    gaps = np.diff([job.submit_s for job in jobs])
    clusters = [gaps[first - 1 : first + 9].mean() for first in range(10, 400, 10)]
    # Gaps between jobs of every second cluster are four times as long.
    assert np.mean(clusters[::2]) / np.mean(clusters[1::2]) == pytest.approx(4, rel=0.4)


def test_a_seed_always_gives_the_same_jobs_and_another_one_others() -> None:
    assert drawn_jobs(FIRST, 10, 30, 4, SETTINGS) == drawn_jobs(FIRST, 10, 30, 4, SETTINGS)
    assert drawn_jobs(FIRST, 10, 30, 4, SETTINGS) != drawn_jobs(FIRST, 10, 30, 5, SETTINGS)
    assert drawn_jobs(FIRST, 10, 30, 4, SETTINGS) != drawn_jobs(SECOND, 10, 30, 4, SETTINGS)


def test_jobs_that_were_measured_are_drawn_as_their_generator_does() -> None:
    jobs = drawn_jobs(SECOND, 40, 400, 1, SETTINGS)
    times = epoch_times(MEASURED)
    assert {job.epochs for job in jobs} == {120, 160, 320}
    share = []
    for job in jobs:
        takes = [job.epochs * time.seconds for time in times[job.app]]
        assert job.due_s is not None
        share.append((job.due_s - job.submit_s - min(takes)) / (max(takes) - min(takes)))
    assert min(share) >= 0
    assert max(share) <= 1
    assert np.mean(share) == pytest.approx(0.5, abs=0.05)
    # Submission rates assume two GPUs per node in both scenarios, so they are equal.
    other = drawn_jobs(FIRST, 40, 400, 1, SETTINGS)
    assert jobs[-1].submit_s == pytest.approx(other[-1].submit_s, rel=0.2)
    ours = drawn_jobs(SECOND, 40, 400, 1, COMPOSED_JOBS)
    assert ours[-1].submit_s < drawn_jobs(FIRST, 40, 400, 1, COMPOSED_JOBS)[-1].submit_s * 0.7


def test_nodes_draw_what_was_measured() -> None:
    v100, t4 = machine_of(SECOND, 10, SETTINGS).classes
    # 530, 700, 870, 1040 W with one to four busy V100, 400 and 470 W with T4.
    assert v100.unused_uw == 360 * 10**6
    assert v100.gpu_uw_max == 170 * 10**6
    assert t4.unused_uw == 330 * 10**6
    assert t4.gpu_uw_max == 70 * 10**6
    one = measure(case(EDF, nodes=10, seed=2))
    hours = one["makespan_h"] * 10
    assert 330 * hours / 1000 <= one["energy_kwh"] <= 700 * hours / 1000


def test_half_of_the_nodes_have_v100() -> None:
    classes = machine_of(SECOND, 11, COMPOSED_JOBS).classes
    assert [(one.gpu_model, one.count, one.gpus) for one in classes] == [(V100, 6, 4), (T4, 5, 2)]
    assert [one.unused_uw // 10**6 for one in classes] == [200 + 4 * 36, 200 + 2 * 10]


@pytest.mark.parametrize("shape", [SPRING, WINTER])
def test_series_have_the_mean_of_the_market_and_what_a_site_pays_beside(
    shape: tuple[int, ...],
) -> None:
    price = day_ahead(shape, 400, 3)
    assert np.mean(price.eur_per_kwh) == pytest.approx(0.0795, rel=0.05)
    site = day_ahead(shape, 400, 3, BESIDE_EUR_PER_MWH)
    assert np.subtract(site.eur_per_kwh, price.eur_per_kwh) == pytest.approx(0.092)
    assert (min(price.eur_per_kwh) < 0) or shape is WINTER
    assert price.times_s[24] == DAY_S


def test_policies_read_the_same_series() -> None:
    price = day_ahead(SPRING, 3, 0)
    again = parse_series(series_text(price))
    assert again.times_s == price.times_s
    assert again.eur_per_kwh == pytest.approx(price.eur_per_kwh)


# ---- cases ---------------------------------------------------------------------------------------


def case(policy: str, **more) -> TrainingCase:
    known = {"family": SCENARIO, "scenario": 1, "nodes": 2, "seed": 0, "settings": SETTINGS}
    return TrainingCase(policy=policy, **(known | more))


def test_all_cases_are_different() -> None:
    for family in FAMILIES:
        cases = PLAN.cases(family)
        keys = {json.dumps(one.identity(), sort_keys=True) for one in cases}
        assert len(keys) == len(cases) > 0
        assert len({one.label for one in cases}) == len(cases)


def test_a_baseline_runs_and_is_charged() -> None:
    record = run(case(EDF))
    found = measure(case(EDF))
    assert found.keys() == MEASURES.keys()
    assert found["jobs"] == 20
    assert found["preemptions"] == 0
    assert found["total_eur"] == pytest.approx(found["energy_eur"] + found["tardiness_eur"])
    assert found["total_eur"] == metrics_of(record).total_eur
    # kWh of all nodes, at the price and the PUE of the paper.
    spent = found["energy_eur"] + found["idle_eur"]
    assert spent == pytest.approx(found["energy_kwh"] * 0.172 * 1.33)
    assert found["committed_w_peak"] * 10**6 <= machine_of(FIRST, 2, SETTINGS).full_uw


def test_ours_pre_empts_and_is_the_same_every_time() -> None:
    few = replace(SETTINGS, iterations=20)
    first, again = (measure(case(PAPERS, settings=few)) for _ in range(2))
    timed = {"call_s", "call_s_max"}
    assert {k: v for k, v in first.items() if k not in timed} == {
        k: v for k, v in again.items() if k not in timed
    }
    assert first["preemptions"] > 0


@pytest.mark.parametrize("price", PRICES)
def test_every_price_is_one_that_policies_take(price: str) -> None:
    for policy in (OURS, FIFO, UNAWARE):
        one = case(policy, family=PRICE, price=price)
        assert policy_of(one).name
        assert np.isfinite(price_of(one).at(3600.0))


def test_a_share_of_the_budget_is_of_what_is_above_the_floors() -> None:
    machine = machine_of(FIRST, 10, SETTINGS)
    half = budget_of(case(OURS, family=CAPS, budget_share=0.5), machine).least_uw
    assert half - machine.idle_total_uw == (machine.full_uw - machine.idle_total_uw) // 2
    assert budget_of(case(OURS), machine).least_uw == machine.full_uw


def test_a_small_problem_has_a_best_plan_that_no_heuristic_beats() -> None:
    found = measure(cast("Case", GapCase(seed=0, settings=replace(SETTINGS, iterations=100))))
    assert found.keys() == GAP_MEASURES.keys()
    assert found["proven"] == 1
    assert found["gap"] >= -1e-6
    assert found["gap_greedy"] >= -1e-6
    assert found["gap_own"] >= -1e-6


# ---- verdicts ------------------------------------------------------------------------------------

Values = dict[str, float]


def samples(of: Callable[[AnyCase], Values | None], family: str) -> Samples:
    done = {}
    for one in PLAN.cases(family):
        values = of(one)
        if values is not None:
            done[case_key(cast("Case", one), "v")] = Done(values=values, cpu_s=1.0)
    return Samples(done, "v")


def plain(one: AnyCase, total_eur: float) -> Values:
    assert isinstance(one, TrainingCase)
    known = dict.fromkeys(MEASURES, 1.0)
    return known | {"total_eur": total_eur * (1 + 0.01 * one.seed), "call_s": 0.02}


def verdicts(found: Findings) -> dict[str, Verdict]:
    return {one.claim.key: one.verdict for one in found.judgements}


def costs(ours: float, papers: float = 50.0) -> Callable[[AnyCase], Values | None]:
    def of(one: AnyCase) -> Values | None:
        assert isinstance(one, TrainingCase)
        known = {OURS: ours} | dict.fromkeys(BASELINES, 100.0)
        return plain(one, known.get(one.policy, papers))

    return of


def test_the_published_saving_is_reproduced_where_it_is_so() -> None:
    found = verdicts(findings_of(PLAN, SCENARIO, samples(costs(38.0), SCENARIO)))
    assert found["saving-1"] is Verdict.REPRODUCED
    assert found["saving-2"] is Verdict.DIRECTION
    assert found["below-1"] is Verdict.REPRODUCED
    assert found["below-waiting-1"] is Verdict.REPRODUCED
    assert found["strongest-1"] is Verdict.REPRODUCED
    assert found["search-1"] is Verdict.REPRODUCED
    assert found["call-1"] is Verdict.REPRODUCED


def test_a_run_that_costs_more_than_a_baseline_is_named() -> None:
    def of(one: AnyCase) -> Values | None:
        assert isinstance(one, TrainingCase)
        worse = (one.policy, one.nodes, one.seed, one.scenario) == (OURS, 20, 1, 1)
        return plain(one, 101.0 if worse else 38.0 if one.policy == OURS else 100.0)

    (judged,) = (
        one
        for one in findings_of(PLAN, SCENARIO, samples(of, SCENARIO)).judgements
        if one.claim.key == "below-1"
    )
    assert judged.verdict is Verdict.NOT
    assert judged.measured == "9 of 12"
    assert "fifo at 20 nodes, seed 1" in judged.why


def test_a_baseline_that_waits_and_costs_less_is_named() -> None:
    def of(one: AnyCase) -> Values | None:
        assert isinstance(one, TrainingCase)
        known = {OURS: 38.0} | dict.fromkeys(WAITING, 37.0)
        return plain(one, known.get(one.policy, 100.0))

    found = verdicts(findings_of(PLAN, SCENARIO, samples(of, SCENARIO)))
    assert found["below-1"] is Verdict.REPRODUCED
    assert found["below-waiting-1"] is Verdict.NOT
    assert found["strongest-1"] is Verdict.NOT


def test_a_search_that_costs_more_in_the_end_is_told() -> None:
    found = verdicts(findings_of(PLAN, SCENARIO, samples(costs(90.0, 30.0), SCENARIO)))
    assert found["search-1"] is Verdict.NOT
    assert found["saving-1"] is Verdict.DIRECTION


def test_without_results_nothing_is_decided() -> None:
    for family in FAMILIES:
        found = verdicts(findings_of(PLAN, family, samples(lambda _: None, family)))
        assert set(found.values()) == {Verdict.UNDECIDED}


@pytest.mark.parametrize("name", ["gap", "gap_own"])
@pytest.mark.parametrize(("gap", "verdict"), [(0.01, Verdict.REPRODUCED), (0.05, Verdict.NOT)])
def test_gaps_of_proven_plans_are_judged(name: str, gap: float, verdict: Verdict) -> None:
    def of(one: AnyCase) -> Values:
        known = dict.fromkeys(GAP_MEASURES, 0.0) | {"proven": 1.0}
        # A solution without a proof does not count.
        return known | ({"proven": 0.0, name: 9.0} if one.seed == 1 else {name: gap})

    assert verdicts(findings_of(PLAN, GAP, samples(of, GAP))) == {"gap": verdict}


def test_limits_and_prices_are_judged_by_ratios() -> None:
    def of(one: AnyCase) -> Values | None:
        assert isinstance(one, TrainingCase)
        less = one.policy == "andreas, limits" or (one.policy == OURS and one.price == TABLE)
        less = less or (one.policy == UNAWARE and one.price == SPRING_SPOT)
        return plain(one, 90.0 if less else 100.0)

    caps = verdicts(findings_of(PLAN, CAPS, samples(of, CAPS)))
    assert set(caps.values()) == {Verdict.REPRODUCED}
    prices = verdicts(findings_of(PLAN, PRICE, samples(of, PRICE)))
    assert prices[f"price-{TABLE}"] is Verdict.REPRODUCED
    assert prices[f"price-{SPRING_SPOT}"] is Verdict.NOT


def draw_scenarios(found: Findings, folder: Path) -> list[Path]:
    return draw(found, folder) if found.family == SCENARIO else []


def test_a_report_has_every_table_and_says_that_it_is_quick(tmp_path: Path) -> None:
    findings = tuple(
        findings_of(PLAN, family, samples(costs(38.0), family))
        for family in (SCENARIO, PRICE, CAPS)
    )
    totals = Totals(failures=(), cases=3, stored=0, broken=(), core_s=1.0)
    evaluation = Evaluation(plan=PLAN, findings=findings, totals=totals)
    report = report_of(evaluation, stand_ins(SETTINGS), draw_scenarios)
    write_report(report, tmp_path)
    assert (tmp_path / SCENARIO / "scenario-2.png").is_file()
    text = (tmp_path / "report.md").read_text()
    assert "quick" in text
    assert all(policy in text for policy in POLICIES)
    rows = (tmp_path / SCENARIO / "measures.csv").read_text().splitlines()
    assert len(rows) == 1 + len(PLAN.cases(SCENARIO))
