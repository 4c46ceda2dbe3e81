"""The families of instances, what is claimed of them, and what one run gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from wattfold.coordinator.simulation.experiments import families as families_of
from wattfold.coordinator.simulation.experiments.constraint.case import (
    BUDGET,
    PRESSED,
    RAW,
    WEEK,
    Plan,
    short,
)
from wattfold.coordinator.simulation.experiments.constraint.measure import measure
from wattfold.coordinator.simulation.experiments.constraint.settings import (
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
    WQT_SHARE,
)
from wattfold.coordinator.simulation.experiments.samples import Samples, judged
from wattfold.coordinator.simulation.experiments.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    interval_text,
    near,
)
from wattfold.coordinator.simulation.results.intervals import Interval, ratio_of_means
from wattfold.coordinator.simulation.sweep.case import Case
from wattfold.coordinator.simulation.sweep.progress import SweepProgress
from wattfold.coordinator.simulation.sweep.run import Backend
from wattfold.coordinator.simulation.sweep.store import ResultStore
from wattfold.coordinator.simulation.workloads.workload import Floats

_ROOT = "wattfold.coordinator."
_DECIDES = (
    "wattfold.contract",
    *(_ROOT + name for name in ("core", "policies", "solvers", "simulation.pool")),
    *(_ROOT + f"simulation.experiments.constraint.{name}" for name in ("case", "jobs", "measure")),
    *(_ROOT + f"simulation.workloads.{name}" for name in ("unit_traces", "trace_tables")),
)
"""What decides a result by its source."""
TITLES = {
    RAW: "Raw traces",
    PRESSED: "Pressed windows of 700 jobs",
    BUDGET: "Pressed windows under a power budget",
    WEEK: "Weeks",
}
LESS = 1e-9
"""Relative: the same sum in another order."""


Findings = families_of.Findings[Plan, str]
Evaluation = families_of.Evaluation[Plan, str]


def evaluate(
    plan: Plan,
    families: Sequence[str],
    *,
    store: ResultStore,
    backend: Backend,
    progress: SweepProgress | None = None,
) -> Evaluation:
    """Runs what has no result yet and judges every claim. Raises as `evaluated` does."""
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


def findings_of(plan: Plan, family: str, samples: Samples) -> Findings:
    """A family with its claims judged."""
    judge = _Judge(plan, family, samples)
    claims: dict[str, Callable[[], list[Judgement]]] = {
        RAW: judge.raw,
        PRESSED: judge.pressed,
        BUDGET: judge.budget,
        WEEK: judge.weeks,
    }
    return Findings(
        family=family,
        title=TITLES[family],
        plan=plan,
        samples=samples,
        judgements=tuple(claims[family]()),
    )


class _Judge:
    """Judges the claims of one family."""

    def __init__(self, plan: Plan, family: str, samples: Samples) -> None:
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
        """Of each instance, of the better baseline there."""
        best: Floats = np.minimum(*(self._sample(policy, name) for policy in BASELINES))
        return best
