"""Families of cases and their claims, with judgement of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from wattfold.simulator.papers import families as families_of
from wattfold.simulator.papers.andreas.case import (
    CAPS,
    GAP,
    PRICE,
    SCENARIO,
    AndreasPlan,
)
from wattfold.simulator.papers.andreas.measure import measure
from wattfold.simulator.papers.andreas.settings import (
    BASELINES,
    BUDGET_SHARES,
    CAPPED,
    CAPS_NODES,
    CONSTANT,
    GAP_MEAN,
    OURS,
    PAPERS,
    PRICE_NODES,
    PRICES,
    PUBLISHED_CALL_S,
    SCENARIOS,
    UNAWARE,
    WAITING,
    Scenario,
)
from wattfold.simulator.papers.samples import Samples, judged
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    above,
    at_most,
    interval_text,
    near,
)
from wattfold.simulator.results.intervals import (
    Interval,
    mean_interval,
    ratio_of_means,
)
from wattfold.simulator.sweep.case import Case
from wattfold.simulator.sweep.progress import SweepProgress
from wattfold.simulator.sweep.run import Backend
from wattfold.simulator.sweep.store import ResultStore
from wattfold.simulator.workloads.workload import Floats

_DECIDES = (
    "wattfold.contract",
    *(f"wattfold.coordinator.{name}" for name in ("core", "models", "policies", "solvers")),
    *(f"wattfold.simulator.{name}" for name in ("engine", "results.metrics")),
    "wattfold.simulator.results.training_costs",
    *(
        f"wattfold.simulator.papers.andreas.{name}"
        for name in ("case", "choices", "jobs", "measure", "measured", "prices", "profiles")
    ),
)
"""Modules whose source determines the results."""
TITLES = {
    SCENARIO: "Both scenarios",
    PRICE: "Prices that change",
    CAPS: "Limits of GPUs under a power budget",
    GAP: "Gap to the best plan of small problems",
}
SAME = 1e-9


Findings = families_of.FamilyFindings[AndreasPlan, str]
Evaluation = families_of.FamilyEvaluation[AndreasPlan, str]


def evaluate(
    plan: AndreasPlan,
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


def findings_of(plan: AndreasPlan, family: str, samples: Samples) -> Findings:
    """Return a family with its judged claims."""
    judge = _AndreasJudge(plan, samples)
    claims: dict[str, Callable[[], list[Judgement]]] = {
        SCENARIO: judge.scenarios,
        PRICE: judge.prices,
        CAPS: judge.caps,
        GAP: judge.gap,
    }
    return Findings(
        family=family,
        title=TITLES[family],
        plan=plan,
        samples=samples,
        judgements=tuple(claims[family]()),
    )


class _AndreasJudge:
    """Judge of the claims of one family."""

    def __init__(self, plan: AndreasPlan, samples: Samples) -> None:
        self._plan, self._samples = plan, samples

    def scenarios(self) -> list[Judgement]:
        found = []
        for one in SCENARIOS:
            found += [self._saving(one), self._below_each(one, BASELINES, "below")]
            found += [self._below_each(one, WAITING, "below-waiting"), self._strongest(one)]
            found += [self._energy(one), self._makespan(one)]
            found += [self._search(one), self._call(one)]
        return found

    def prices(self) -> list[Judgement]:
        return [self._knowing(price) for price in PRICES if price != CONSTANT]

    def caps(self) -> list[Judgement]:
        return [self._limits(share) for share in BUDGET_SHARES]

    def gap(self) -> list[Judgement]:
        claim = Claim(
            key="gap",
            text=f"the plan of one call is within {GAP_MEAN:.0%} of the best one in the mean",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            gaps = self._gaps("gap")
            found = mean_interval(gaps)
            paper = mean_interval(self._gaps("gap_greedy"))
            own = self._gaps("gap_own")
            text = f"{interval_text(found, '{:.2%}')}, at most {gaps.max():.1%}, and of our "
            text += f"objective {interval_text(mean_interval(own), '{:.2%}')}, at most "
            text += f"{own.max():.1%}; the paper's "
            median = float(np.median(self._gaps("gap_greedy")))
            text += f"search {interval_text(paper, '{:.0%}')}, median {median:.1%}"
            return (
                text,
                at_most(
                    max(found, mean_interval(own), key=lambda interval: interval.mean), GAP_MEAN
                ),
                found,
            )

        return [judged(claim, judge)]

    def _gaps(self, name: str) -> Floats:
        proven = self._samples.sample(self._plan.gaps(), "proven")
        return self._samples.sample(self._plan.gaps(), name)[proven > 0]

    def _saving(self, scenario: Scenario) -> Judgement:
        claim = Claim(
            key=f"saving-{scenario.number}",
            text=f"total cost is {scenario.published_saving:.0%} below that of FIFO, EDF and "
            f"priority scheduling on average, scenario {scenario.number}",
            source=f"section V-B, scenario {scenario.number}",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            parts = [
                1
                - self._totals(scenario, OURS, nodes)
                / self._baselines(scenario, nodes).mean(axis=0)
                for nodes in self._plan.sizes
            ]
            saving = mean_interval(np.mean(parts, axis=0))
            each = ", ".join(
                f"{policy} {1 - self._ratio(scenario, policy).mean:.0%}" for policy in BASELINES
            )
            measured = f"{interval_text(saving, '{:.1%}')} ({each})"
            return measured, near(saving, scenario.published_saving, 0.0), saving

        return judged(claim, judge)

    def _below_each(self, scenario: Scenario, baselines: tuple[str, ...], key: str) -> Judgement:
        which = "each baseline's" if baselines == BASELINES else "that of each waiting baseline"
        claim = Claim(
            key=f"{key}-{scenario.number}",
            text=f"total cost is below {which} in every run, scenario {scenario.number}",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, None]:
            lost, runs = [], 0
            for nodes in self._plan.sizes:
                ours = self._totals(scenario, OURS, nodes)
                theirs = self._baselines(scenario, nodes, baselines)
                runs += theirs.size
                lost += [
                    f"{baselines[place]} at {nodes} nodes, seed {seed}"
                    for place, seed in np.argwhere(theirs <= ours).tolist()
                ]
            text = f"{runs - len(lost)} of {runs}"
            if not lost:
                return text, Ruling(verdict=Verdict.REPRODUCED, why="in every one"), None
            return text, Ruling(verdict=Verdict.NOT, why=f"lost: {', '.join(lost)}"), None

        return judged(claim, judge)

    def _strongest(self, scenario: Scenario) -> Judgement:
        claim = Claim(
            key=f"strongest-{scenario.number}",
            text="total cost is below that of the strongest baseline of each run, waiting "
            f"baselines included, scenario {scenario.number}",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            parts = []
            for nodes in self._plan.sizes:
                theirs = self._baselines(scenario, nodes, (*BASELINES, *WAITING)).min(axis=0)
                parts.append(1 - self._totals(scenario, OURS, nodes) / theirs)
            saving = mean_interval(np.mean(parts, axis=0))
            return f"by {interval_text(saving, '{:.1%}')}", above(saving, 0.0), saving

        return judged(claim, judge)

    def _below_baselines(self, scenario: Scenario, measure: str) -> Interval:
        """Return our relative saving over the baselines' mean in a measure, over all sizes."""
        parts = []
        for nodes in self._plan.sizes:
            theirs = [self._sample(scenario, policy, nodes, measure) for policy in BASELINES]
            parts.append(1 - self._sample(scenario, OURS, nodes, measure) / np.mean(theirs, axis=0))
        return mean_interval(np.mean(parts, axis=0))

    def _energy(self, scenario: Scenario) -> Judgement:
        claim = Claim(
            key=f"energy-{scenario.number}",
            text="energy costs less than under the baselines on average, "
            f"scenario {scenario.number}",
            source="section V-B, first plot of the figures",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            saving = self._below_baselines(scenario, "energy_eur")
            return f"by {interval_text(saving, '{:.1%}')}", above(saving, 0.0), saving

        return judged(claim, judge)

    def _makespan(self, scenario: Scenario) -> Judgement:
        claim = Claim(
            key=f"makespan-{scenario.number}",
            text=f"all jobs are done sooner, scenario {scenario.number}",
            source="section V-B",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            gain = self._below_baselines(scenario, "makespan_h")
            return f"by {interval_text(gain, '{:.1%}')}", above(gain, 0.0), gain

        return judged(claim, judge)

    def _search(self, scenario: Scenario) -> Judgement:
        claim = Claim(
            key=f"search-{scenario.number}",
            text="our objective and search cost no more than the paper's with "
            f"{self._plan.settings.iterations} passes in the end, scenario {scenario.number}",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            ratio = self._ratio(scenario, PAPERS)
            return f"x {interval_text(ratio, '{:.3f}')}", at_most(ratio, 1.0), ratio

        return judged(claim, judge)

    def _call(self, scenario: Scenario) -> Judgement:
        nodes = self._plan.sizes[-1]
        claim = Claim(
            key=f"call-{scenario.number}",
            text=f"a call takes less than {PUBLISHED_CALL_S:g} s in the mean, {nodes} nodes and "
            f"{10 * nodes} jobs, scenario {scenario.number}",
            source="section V-B",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            found = mean_interval(self._sample(scenario, OURS, nodes, "call_s"))
            most = float(self._sample(scenario, OURS, nodes, "call_s_max").max())
            text = f"{interval_text(found, '{:.3f}')} s, longest {most:.2f} s"
            return text, at_most(found, PUBLISHED_CALL_S), found

        return judged(claim, judge)

    def _knowing(self, price: str) -> Judgement:
        claim = Claim(
            key=f"price-{price}",
            text=f"knowing the prices costs no more in total than knowing their mean: {price}",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            knows, not_so = (
                self._samples.sample(
                    self._plan.group(PRICE, 1, PRICE_NODES, policy, price=price), "total_eur"
                )
                for policy in (OURS, UNAWARE)
            )
            ratio = ratio_of_means(knows, not_so)
            return f"x {interval_text(ratio, '{:.3f}')}", at_most(ratio, 1.0), ratio

        return judged(claim, judge)

    def _limits(self, share: float) -> Judgement:
        claim = Claim(
            key=f"caps-{share:g}",
            text=f"choosing limits costs no more in total, budget share {share:g}",
            source="ours",
        )

        def judge() -> tuple[str, Ruling, Interval]:
            with_limits, without = (
                self._samples.sample(
                    self._plan.group(CAPS, 1, CAPS_NODES, policy, budget_share=share), "total_eur"
                )
                for policy in (CAPPED, OURS)
            )
            ratio = ratio_of_means(with_limits, without)
            return f"x {interval_text(ratio, '{:.3f}')}", at_most(ratio, 1.0), ratio

        return judged(claim, judge)

    def _sample(self, scenario: Scenario, policy: str, nodes: int, name: str) -> Floats:
        cases = self._plan.group(SCENARIO, scenario.number, nodes, policy)
        return self._samples.sample(cast("list[Case]", cases), name)

    def _totals(self, scenario: Scenario, policy: str, nodes: int) -> Floats:
        return self._sample(scenario, policy, nodes, "total_eur")

    def _baselines(
        self, scenario: Scenario, nodes: int, baselines: tuple[str, ...] = BASELINES
    ) -> Floats:
        """Return total costs, a row per baseline."""
        return np.array([self._totals(scenario, policy, nodes) for policy in baselines])

    def _ratio(self, scenario: Scenario, policy: str) -> Interval:
        """Return our total cost relative to another policy's, as a mean over all machines."""
        parts = [
            self._totals(scenario, OURS, nodes) / self._totals(scenario, policy, nodes)
            for nodes in self._plan.sizes
        ]
        return mean_interval(np.mean(parts, axis=0))
