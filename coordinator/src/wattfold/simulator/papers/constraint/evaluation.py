"""Families of instances and their claims, with judgement of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from wattfold.simulator.papers import families as families_of
from wattfold.simulator.papers.constraint.case import (
    BUDGET,
    PRESSED,
    RAW,
    WEEK,
    WEIGHTS,
    ConstraintPlan,
    short,
)
from wattfold.simulator.papers.constraint.measure import measure
from wattfold.simulator.papers.constraint.settings import (
    AO_MAX_S,
    AO_S,
    BASELINES,
    CP,
    FIFO,
    NL_SHARE,
    OURS,
    PREDICTED,
    PUBLISHED_WEEKS,
    TEST_1,
    TEST_2,
    TR_SHARE,
    WALLTIME,
    WEIGHTED,
    WQT_SHARE,
)
from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    interval_text,
    near,
)
from wattfold.simulator.results.intervals import Interval, ratio_of_means
from wattfold.simulator.sweep.case import Case
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore
from wattfold.simulator.workloads.workload import Floats

_DECIDES = (
    "wattfold.contract",
    *(f"wattfold.coordinator.{name}" for name in ("core", "policies", "solvers")),
    "wattfold.simulator.engine",
    *(f"wattfold.simulator.papers.constraint.{name}" for name in ("case", "jobs", "measure")),
    *(f"wattfold.simulator.workloads.{name}" for name in ("unit_traces", "trace_tables")),
)
"""Modules whose source determines the results."""
TITLES = {
    RAW: "Raw traces",
    PRESSED: "Pressed windows of 700 jobs",
    BUDGET: "Pressed windows under a power budget",
    WEEK: "Weeks",
    WEIGHTS: "Weights of lateness, chosen on the first half of the jobs",
}
LESS = 1e-9
"""Relative tolerance: the same sum in another order may differ."""


Findings = families_of.FamilyFindings[ConstraintPlan, str]
Evaluation = families_of.FamilyEvaluation[ConstraintPlan, str]


def evaluate(
    plan: ConstraintPlan,
    families: Sequence[str],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Run all cases without a result and judge every claim. Raises as `evaluated` does."""
    return families_of.evaluated(
        plan,
        families,
        [case for family in families for case in plan.cases(family)],
        measure,
        _DECIDES,
        findings_of,
        store=store,
        backend=backend,
        progress=progress,
    )


def findings_of(plan: ConstraintPlan, family: str, samples: Samples) -> Findings:
    """Return a family with its judged claims."""
    judge = _ConstraintJudge(plan, family, samples)
    claims: dict[str, Callable[[], list[Judgement]]] = {
        RAW: judge.raw,
        PRESSED: judge.pressed,
        BUDGET: judge.budget,
        WEEK: judge.weeks,
        WEIGHTS: judge.weights,
    }
    return Findings(
        family=family,
        title=TITLES[family],
        plan=plan,
        samples=samples,
        judgements=tuple(claims[family]()),
    )


class _ConstraintJudge:
    """Judge of the claims of one family."""

    def __init__(self, plan: ConstraintPlan, family: str, samples: Samples) -> None:
        self._plan, self._family, self._samples = plan, family, samples

    def raw(self) -> list[Judgement]:
        return [self._never_worse(name) for name in ("wqt", "nl", "tr_s")]

    def pressed(self) -> list[Judgement]:
        found = [self._never_worse("wqt")]
        for name, share in (("wqt", WQT_SHARE), ("nl", NL_SHARE), ("tr_s", TR_SHARE)):
            found.append(self._sums(name, share))
        found += [self._time("ao_s", AO_S), self._time("ao_max_s", AO_MAX_S)]
        names = self._plan.instances(PRESSED)
        if TEST_1.name in names:
            found.append(self._model_wins())
        if all(one.name in names for one in TEST_2):
            found.append(self._model_loses())
        return found

    def budget(self) -> list[Judgement]:
        return [self._never_worse("wqt"), self._predicted()]

    def _predicted(self) -> Judgement:
        claim = Claim(
            key="budget-predicted",
            text="with the predicted power of jobs the sum of WQT is less than without",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            with_it = float(self._sample(PREDICTED, "wqt").sum())
            ratio = with_it / float(self._sample(OURS, "wqt").sum())
            verdict = Verdict.REPRODUCED if ratio < 1 else Verdict.NOT
            return f"x {ratio:.3f}", Ruling(verdict=verdict, why="over its windows"), None

        return judged(claim, judge)

    def weeks(self) -> list[Judgement]:
        claim = Claim(
            key="weeks-wqt",
            text="WQT a job is 0.64 of PBSFifo's (there the paper's CP; here constraint)",
            source="section 7.2",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            ratio = ratio_of_means(self._sample(OURS, "wqt_mean"), self._sample(FIFO, "wqt_mean"))
            published = PUBLISHED_WEEKS[CP] / PUBLISHED_WEEKS[FIFO]
            return f"x {interval_text(ratio)}", near(ratio, published, 1.0), ratio

        return [judged(claim, judge)]

    def weights(self) -> list[Judgement]:
        """Judge the default weights against others, and the chosen weights on the other half."""
        default = next(iter(WEIGHTED))
        choice, held_out = self._plan.halves
        claim = Claim(
            key="weights-choice",
            text=f"of {len(WEIGHTED)} pairs of weights, the defaults have the lowest mean of WQT, "
            "NL and TR over the best baseline's on the first half of the jobs",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            means = {name: float(np.mean(self._shares(name, choice))) for name in WEIGHTED}
            best = min(means, key=lambda name: means[name])
            text = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
            verdict = Verdict.REPRODUCED if best == default else Verdict.NOT
            return text, Ruling(verdict=verdict, why=f"the best is {best}"), None

        elsewhere = Claim(
            key="weights-held-out",
            text="with the weights chosen on the first half of the jobs, the sums of WQT, NL and "
            f"TR on the second half are at most {WQT_SHARE:g}, {NL_SHARE:g} and {TR_SHARE:g} of "
            "the best baseline's",
            source="ours",
        )

        def judge_elsewhere() -> tuple[str, Ruling, None]:
            best = min(WEIGHTED, key=lambda name: np.mean(self._shares(name, choice)))
            found = self._shares(best, held_out)
            goals = WQT_SHARE, NL_SHARE, TR_SHARE
            misses = sum(share > goal for share, goal in zip(found, goals, strict=True))
            text = f"{best}: " + ", ".join(f"x {share:.3f}" for share in found)
            if not misses:
                return text, Ruling(verdict=Verdict.REPRODUCED, why="all within"), None
            verdict = Verdict.DIRECTION if max(found) < 1 else Verdict.NOT
            return text, Ruling(verdict=verdict, why=f"{misses} of 3 above"), None

        return [judged(claim, judge), judged(elsewhere, judge_elsewhere)]

    def _shares(self, policy: str, instances: Sequence[str]) -> list[float]:
        """Return sums of WQT, NL and TR over instances, relative to the best baseline."""
        shares = []
        for name in ("wqt", "nl", "tr_s"):
            ours, *theirs = (
                sum(
                    self._samples.values(self._plan.case(WEIGHTS, one, rule))[name]
                    for one in instances
                )
                for rule in (policy, *BASELINES)
            )
            best = min(theirs)
            shares.append(ours / best if best else (1.0 if not ours else np.inf))
        return shares

    def _never_worse(self, name: str) -> Judgement:
        claim = Claim(
            key=f"{self._family}-{name}-each",
            text=f"{name.upper().removesuffix('_S')} of constraint is at most that of the best "
            "baseline on every instance",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            ours, best = self._sample(OURS, name), self._best(name)
            lost = [
                short(instance)
                for instance, mine, theirs in zip(
                    self._plan.instances(self._family), ours, best, strict=True
                )
                if mine > theirs * (1 + LESS)
            ]
            measured = f"{len(ours) - len(lost)} of {len(ours)}"
            if not lost:
                return measured, Ruling(verdict=Verdict.REPRODUCED, why="on every one"), None
            return measured, Ruling(verdict=Verdict.NOT, why=f"lost: {', '.join(lost)}"), None

        return judged(claim, judge)

    def _sums(self, name: str, share: float) -> Judgement:
        claim = Claim(
            key=f"{self._family}-{name}-sum",
            text=f"the sum of {name.upper().removesuffix('_S')} over all windows is at most "
            f"{share:g} of the best baseline's",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            ours = float(self._sample(OURS, name).sum())
            best = min(float(self._sample(policy, name).sum()) for policy in BASELINES)
            ratio = ours / best if best else (1.0 if not ours else np.inf)
            verdict = Verdict.REPRODUCED if ratio <= share else Verdict.NOT
            if share < ratio < 1:
                verdict = Verdict.DIRECTION
            why = "within" if ratio <= share else f"above {share:g}"
            return f"x {ratio:.3f}", Ruling(verdict=verdict, why=why), None

        return judged(claim, judge)

    def _time(self, name: str, most_s: float) -> Judgement:
        what = "mean" if name == "ao_s" else "greatest"
        claim = Claim(
            key=f"{self._family}-{name}",
            text=f"the {what} time of a decision of constraint is at most {most_s:g} s",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            found = float(self._sample(OURS, name).max())
            verdict = Verdict.REPRODUCED if found <= most_s else Verdict.NOT
            why = "on every window" if found <= most_s else "on the slowest window"
            return f"{found:.3g} s", Ruling(verdict=verdict, why=why), None

        return judged(claim, judge)

    def _model_wins(self) -> Judgement:
        claim = Claim(
            key="test-1",
            text="the paper's model has less WQT than both baselines in test 1",
            source="Table 1",
        )

        def judge() -> tuple[str, Ruling, None]:
            return self._model((TEST_1.name,), wins=True)

        return judged(claim, judge)

    def _model_loses(self) -> Judgement:
        claim = Claim(
            key="test-2",
            text="the paper's model has more WQT than both baselines in test 2",
            source="Table 1",
        )

        def judge() -> tuple[str, Ruling, None]:
            return self._model(tuple(one.name for one in TEST_2), wins=False)

        return judged(claim, judge)

    def _model(self, instances: Sequence[str], *, wins: bool) -> tuple[str, Ruling, None]:
        texts, holds = [], []
        for instance in instances:
            values = {
                policy: self._samples.values(self._plan.case(PRESSED, instance, policy))["wqt"]
                for policy in (CP, FIFO, WALLTIME)
            }
            best, worst = (
                min(values[one] for one in BASELINES),
                max(values[one] for one in BASELINES),
            )
            holds.append(values[CP] < best if wins else values[CP] > worst)
            texts.append(f"{values[CP]:.1f} against {values[FIFO]:.1f} and {values[WALLTIME]:.1f}")
        verdict = Verdict.REPRODUCED if all(holds) else Verdict.NOT
        why = f"on {sum(holds)} of {len(holds)} windows that represent it"
        return "; ".join(texts), Ruling(verdict=verdict, why=why), None

    def _sample(self, policy: str, name: str) -> Floats:
        instances = self._plan.instances(self._family)
        cases = [self._plan.case(self._family, one, policy) for one in instances]
        return self._samples.sample(cast("list[Case]", cases), name)

    def _best(self, name: str) -> Floats:
        """Return the values of the better baseline for each instance."""
        best: Floats = np.minimum(*(self._sample(policy, name) for policy in BASELINES))
        return best
