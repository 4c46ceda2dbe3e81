"""PARM's evaluation: its cases, jobs, single runs, judgements and files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wattfold.coordinator.models.pass_model import APPLICATIONS
from wattfold.simulator.papers.parm import large, naive
from wattfold.simulator.papers.parm.case import (
    BASELINE_MAX,
    LARGE_SETS,
    ParmCase,
    ParmLog,
    cluster_case,
    large_case,
    with_alpha,
)
from wattfold.simulator.papers.parm.evaluation import (
    EXPERIMENTS,
    ParmEvaluation,
    evaluate,
)
from wattfold.simulator.papers.parm.figures import draw
from wattfold.simulator.papers.parm.jobs import jobs_of
from wattfold.simulator.papers.parm.measure import MEASURES, machine_of, measure
from wattfold.simulator.papers.parm.outcomes import ParmPlan
from wattfold.simulator.papers.parm.report import report_of
from wattfold.simulator.papers.parm.settings import (
    ALPHAS,
    GAMMAS,
    LEVELS,
    QUICK_GAMMAS,
    ParmAssumptions,
    stand_ins,
)
from wattfold.simulator.papers.report import write_report
from wattfold.simulator.papers.verdicts import Verdict
from wattfold.simulator.sweep.case import Case, Done, FailedCase, Measure, Outcome
from wattfold.simulator.sweep.store import ResultStore
from wattfold.simulator.sweep.worker import outcome_of
from wattfold.simulator.workloads.annotations import (
    SET_H,
    SET_L,
    caps_w,
)
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.swf_writer import write_swf
from wattfold.simulator.workloads.workload import Workload

NO_LOG = ParmLog(path=Path("/nonexistent/log.swf"), sha256="0")


class Here:
    """A backend in this process."""

    def outcomes(self, run: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        for position, case in enumerate(cases):
            yield position, outcome_of(run, case)


class Formula:
    """Backend with invented results for which the paper's claims hold, or do not hold."""

    def __init__(self, values: Mapping[str, float], fails: str = "") -> None:
        self.values, self.fails = values, fails

    def outcomes(self, run: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        for position, case in enumerate(cases):
            assert isinstance(case, ParmCase)
            if self.fails and self.fails in case.label:
                yield position, FailedCase(reason="on purpose")
            else:
                yield position, Done(values=self._values(case), cpu_s=1.0)

    def _values(self, case: ParmCase) -> dict[str, float]:
        noise = 1 + 0.001 * np.sin(97.0 * case.seed)
        faster = self.values.get(case.policy, 1.0)
        if not case.is_baseline:
            faster *= self.values["dense"] ** (0.8 - case.gamma)
            faster *= 1.0 if case.jobs != "Set3" else 0.9
        values = dict.fromkeys(MEASURES, 0.001)
        return values | {
            "completion_s": 6000 / case.gamma / faster * noise,
            "completion_s_max": 60000 / (1 + case.alpha) * noise,
        }


@pytest.fixture
def log(tmp_path: Path) -> ParmLog:
    """A log of a thousand small jobs: enough for the first job set, but not for the others."""
    rng = np.random.default_rng(4)
    path = tmp_path / "small.swf"
    run_s = rng.exponential(3000, 1000) + 60
    workload = Workload.of_columns(
        submit_s=np.sort(rng.uniform(0, 50_000, 1000)),
        run_s=run_s,
        procs=rng.choice([512, 1024, 49_152], 1000, p=[0.6, 0.3, 0.1]),
        requested_s=run_s * 2,
        status=np.ones(1000),
    )
    write_swf(workload, path)
    return ParmLog(path=path, sha256="small")


def test_the_mixes_have_their_mean_beta() -> None:
    assert sum(SET_L.values()) == sum(SET_H.values()) == 10
    for mix, beta in ((SET_L, 0.10), (SET_H, 0.27)):
        mean = sum(weight * APPLICATIONS[name].beta for name, weight in mix.items()) / 10
        assert round(mean, 2) == beta


def test_power_levels_are_the_published_six_or_evenly_spaced() -> None:
    assert caps_w(6) == (30, 33, 36, 44, 50, 60)
    assert caps_w(2) == (30, 60)
    for count in range(2, 9):
        caps = caps_w(count)
        assert len(caps) == count
        assert (caps[0], caps[-1]) == (30, 60)
    with pytest.raises(ValueError, match="at least two"):
        caps_w(1)


def test_the_published_machines() -> None:
    settings = ParmAssumptions()
    assert cluster_case("SetL", 0, BASELINE_MAX, settings).nodes == 28
    case = large_case("Set1", 0, 0.5, BASELINE_MAX, settings, NO_LOG)
    assert (case.nodes, case.budget_w) == (40_960, 4_751_360)
    assert machine_of(case).full_uw == 4_751_360_000_000
    assert naive.nodes_at(30) == 55_248
    assert naive.nodes_at(60) == 40_960


def test_the_cases_of_every_experiment() -> None:
    plan = ParmPlan(seeds=(0, 1), settings=ParmAssumptions(), log=NO_LOG)
    counts = {
        name: len({json.dumps(case.identity()) for case in experiment.cases(plan)})
        for name, experiment in EXPERIMENTS.items()
    }
    sets, gammas = len(LARGE_SETS), len(GAMMAS)
    assert counts == {
        "cluster": 2 * 5 * 2,
        # The baseline at the maximum size is the same for all seeds.
        "large": sets * (gammas * (1 + 3 * 2) + len(QUICK_GAMMAS) * 2),
        "naive": 7 * 2,
        "fairness": len(ALPHAS) * 2,
        "levels": len(LEVELS) * 2,
    }


def test_a_key_knows_what_a_case_depends_on() -> None:
    settings = ParmAssumptions()
    case = large_case("Set1", 0, 0.5, "wSE", settings, NO_LOG)
    same = replace(case, log=ParmLog(path=Path("/elsewhere"), sha256="0"))
    assert same.identity() == case.identity()
    for other in (
        with_alpha(case, 0.5),
        replace(case, log=ParmLog(path=NO_LOG.path, sha256="1")),
        replace(case, settings=ParmAssumptions(memory_mb=1.0)),
        replace(case, count=10),
    ):
        assert other.identity() != case.identity()
    # The case itself states N and alpha, so that sweeps share common cases.
    assert replace(case, settings=ParmAssumptions(alpha=1.0)).identity() == case.identity()


def test_a_set_of_the_cluster_is_the_same_for_all_policies() -> None:
    settings = ParmAssumptions()
    tables = [jobs_of(cluster_case("SetH", 3, policy, settings)) for policy in ("baseline", "wSE")]
    assert np.array_equal(tables[0].submit_ns, tables[1].submit_ns)
    assert np.array_equal(tables[0].run_ns, tables[1].run_ns)
    apps = [profile.app for profile in tables[0].profiles]
    assert sorted(apps) == sorted(name for name, count in SET_H.items() for _ in range(int(count)))
    assert tables[0].run_ns.mean() == pytest.approx(3600e9)
    other = jobs_of(cluster_case("SetH", 4, "wSE", settings))
    assert not np.array_equal(other.run_ns, tables[0].run_ns)
    low = jobs_of(cluster_case("SetL", 3, "wSE", settings))
    assert np.array_equal(low.run_ns, tables[0].run_ns)
    for table in (*tables, low):
        assert table.size_max.max() <= 28
        for job, profile in enumerate(table.profiles):
            at_most = profile.time_s(int(table.size_max[job]), 60.0)
            assert at_most == pytest.approx(table.run_ns[job] / 1e9)


def test_a_set_of_the_log_is_cut_scaled_and_annotated(log: ParmLog) -> None:
    case = large_case("Set1", 1, 0.5, "wSE", ParmAssumptions(), log)
    table = jobs_of(case)
    half, whole = (jobs_of(replace(case, gamma=gamma)) for gamma in (0.4, 0.8))
    assert table.size_max.max() == 40_960
    assert np.allclose(half.submit_ns * 2, whole.submit_ns, atol=2)
    assert np.array_equal(table.estimate_ns, table.run_ns)
    asked = jobs_of(replace(case, settings=ParmAssumptions(estimates="log")))
    assert np.allclose(asked.estimate_ns, 2 * table.run_ns, rtol=1e-6)
    short = jobs_of(replace(case, count=20))
    assert len(short) == 20
    assert short.profiles == table.profiles[:20]


def test_a_log_too_short_for_a_set_says_so(log: ParmLog) -> None:
    with pytest.raises(LogError, match="Set2 is jobs 5000 to 5999, the log has 1000"):
        jobs_of(large_case("Set2", 0, 0.5, "wSE", ParmAssumptions(), log))


@pytest.mark.parametrize("policy", ["baseline", "baseline-min", "noSE", "wSE", "wSE-priced"])
def test_a_run_of_the_log_keeps_the_budget(log: ParmLog, policy: str) -> None:
    case = large_case("Set1", 1, 0.2, policy, ParmAssumptions(), log, 25)
    values = measure(case)
    assert set(values) == set(MEASURES)
    assert values["over_budget_s"] == 0
    assert 0 < values["completion_s"] <= values["completion_s_max"] <= values["makespan_s"]
    assert values["nodes"] * (values["cap_w"] + 56) <= case.budget_w
    again = measure(case)
    for name in ("completion_s", "makespan_s", "nodes", "resizes"):
        assert again[name] == values[name]


def test_one_cap_for_all_nodes_slows_the_jobs(log: ParmLog) -> None:
    plan = ParmPlan(seeds=(0,), settings=ParmAssumptions(), log=log)
    [low] = (case for case in naive.cases(plan) if case.nodes == 55_248 and case.is_baseline)
    [full] = (case for case in naive.cases(plan) if case.nodes == 40_960)
    low, full = replace(low, count=3, gamma=1e4), replace(full, count=3, gamma=1e4)
    assert measure(low)["completion_s"] > measure(full)["completion_s"]
    assert measure(low)["cap_w"] == 30


def test_the_cluster_from_the_first_case_to_the_files(tmp_path: Path) -> None:
    plan = ParmPlan(seeds=(0, 1), settings=ParmAssumptions(), quick=True)
    plans = [(EXPERIMENTS["cluster"], plan)]
    store = ResultStore(tmp_path / "cases")
    evaluation = evaluate(plans, store=store, backend=Here())
    totals = evaluation.totals
    assert (totals.cases, totals.stored, totals.failures) == (20, 0, ())
    files = write_report(report_of(evaluation, stand_ins(plan.settings, None), draw), tmp_path)
    assert {path.name for path in files} == {
        "points.csv",
        "figure-4-cluster.png",
        "verdicts.json",
        "report.md",
    }
    report = (tmp_path / "report.md").read_text()
    assert "quick" in report
    assert "parallelism A" in report
    rows = list(csv.DictReader((tmp_path / "cluster" / "points.csv").open()))
    assert len(rows) == 2 * 5 * len(MEASURES)
    assert {row["quick"] for row in rows} == {"quick"}
    document = json.loads((tmp_path / "verdicts.json").read_text())
    assert all(claim["verdict"] in set(Verdict) for claim in document["experiments"][0]["claims"])
    again = evaluate(plans, store=store, backend=Here())
    assert again.totals.stored == 20
    assert again.findings[0].judgements == evaluation.findings[0].judgements


def judged(evaluation: ParmEvaluation) -> dict[str, Verdict]:
    return {
        judgement.claim.key: judgement.verdict
        for findings in evaluation.findings
        for judgement in findings.judgements
    }


def evaluated(tmp_path: Path, backend: Formula, names: Sequence[str]) -> ParmEvaluation:
    plan = ParmPlan(seeds=(0, 1, 2), settings=ParmAssumptions(), log=NO_LOG)
    plans = [(EXPERIMENTS[name], plan) for name in names]
    return evaluate(plans, store=ResultStore(tmp_path / "cases"), backend=backend)


def test_results_as_in_the_paper_are_reproduced(tmp_path: Path) -> None:
    backend = Formula({"noSE": 2.0, "wSE": 2.2, "wSE-priced": 2.4, "dense": 4.2})
    evaluation = evaluated(tmp_path, backend, ["large", "naive"])
    assert set(judged(evaluation).values()) == {Verdict.REPRODUCED}
    [best] = [j for j in evaluation.findings[0].judgements if j.claim.key == "large.5.2x"]
    assert best.measured.startswith("up to 5.2")
    files = write_report(report_of(evaluation, (), draw), tmp_path)
    assert {p.name for p in files if p.suffix == ".png"} == {
        "figure-5-completion.png",
        "table-5-speedup.png",
        "table-6-naive.png",
    }


def test_results_unlike_the_paper_are_not(tmp_path: Path) -> None:
    backend = Formula({"noSE": 0.9, "wSE": 0.8, "dense": 0.5})
    found = judged(evaluated(tmp_path, backend, ["large", "naive"]))
    assert found["large.faster"] is found["large.5.2x"] is found["large.gamma"] is Verdict.NOT
    assert found["large.malleable"] is found["naive.faster"] is Verdict.NOT


def test_sweeps_of_alpha_and_levels_are_judged_and_drawn(tmp_path: Path) -> None:
    backend = Formula({"wSE": 2.0, "dense": 2.0})
    evaluation = evaluated(tmp_path, backend, ["fairness", "levels"])
    found = judged(evaluation)
    assert found["fairness.max"] is Verdict.REPRODUCED
    assert found["fairness.mean"] is Verdict.NOT
    assert found["levels.mean"] is Verdict.NOT
    assert found["levels.flat"] is Verdict.REPRODUCED
    names = {path.name for path in write_report(report_of(evaluation, (), draw), tmp_path)}
    assert {"figure-6-fairness.png", "figure-7-levels.png"} <= names


def test_a_failed_case_leaves_its_claims_undecided(tmp_path: Path) -> None:
    backend = Formula({"noSE": 2.0, "wSE": 2.2, "dense": 4.2}, fails="Set3 g0.2 noSE")
    evaluation = evaluated(tmp_path, backend, ["large"])
    found = judged(evaluation)
    assert len(evaluation.totals.failures) == 3
    assert found["large.faster"] is Verdict.UNDECIDED
    assert found["large.5.2x"] is Verdict.REPRODUCED
    write_report(report_of(evaluation, (), draw), tmp_path)
    assert "Set3 g0.2 noSE" in (tmp_path / "report.md").read_text()


def test_stand_ins_are_checked() -> None:
    for wrong in (
        {"nodes": 40_000},
        {"alpha": -1.0},
        {"memory_mb": 0.0},
        {"cluster_size_most": 29},
        {"estimates": "none"},
        {"parallelism_factor": 0.5},
    ):
        with pytest.raises(ValueError, match=r"\w+"):
            ParmAssumptions(**wrong)  # type: ignore[arg-type]


def test_the_large_machine_needs_a_log() -> None:
    with pytest.raises(ValueError, match="needs a log"):
        large.cases(ParmPlan(seeds=(0,), settings=ParmAssumptions()))
