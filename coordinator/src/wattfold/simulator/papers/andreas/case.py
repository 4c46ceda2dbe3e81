"""Cases of the evaluation: single simulations that can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wattfold.simulator.papers.andreas.settings import (
    BASELINES,
    BUDGET_SHARES,
    CAPPED,
    CAPS_NODES,
    COMPOSED,
    CONSTANT,
    GAP_SEEDS,
    JOBS_A_NODE,
    NODES,
    OURS,
    PAPERS,
    POLICIES,
    PRICE_NODES,
    PRICES,
    QUICK_GAP_SEEDS,
    QUICK_NODES,
    QUICK_SEEDS,
    SCENARIOS,
    SEEDS,
    UNAWARE,
    WAITING,
    AndreasAssumptions,
    Scenario,
)

SCENARIO, PRICE, CAPS, GAP = "scenarios", "prices", "caps", "gap"
FAMILIES = (SCENARIO, PRICE, CAPS, GAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCase:
    """One policy on the jobs of a seed."""

    family: str
    scenario: int
    nodes: int
    seed: int
    policy: str
    """One of `POLICIES` or the variants in `settings`."""
    settings: AndreasAssumptions
    price: str = CONSTANT
    """One of `PRICES`."""
    budget_share: float = 1.0
    """Budget above the charge at minimum limits, as a fraction of the machine's maximum."""

    @property
    def where(self) -> Scenario:
        """The scenario."""
        return next(one for one in SCENARIOS if one.number == self.scenario)

    @property
    def jobs(self) -> int:
        """Number of submitted jobs."""
        return self.nodes * JOBS_A_NODE

    @property
    def label(self) -> str:
        """Label for people and file names."""
        parts = [self.family, str(self.scenario), f"{self.nodes}nodes", f"s{self.seed}"]
        parts += [self.policy, self.price] if self.family == PRICE else [self.policy]
        parts += [f"{self.budget_share:g}"] if self.family == CAPS else []
        return " ".join(parts)

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {
            "family": self.family,
            "scenario": self.scenario,
            "nodes": self.nodes,
            "seed": self.seed,
            "policy": self.policy,
            "price": self.price,
            "budget_share": self.budget_share,
            "settings": self.settings.document(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCase:
    """The heuristics on a small problem, compared with the best plan."""

    seed: int
    settings: AndreasAssumptions

    @property
    def label(self) -> str:
        """Label for people and file names."""
        return f"{GAP} s{self.seed}"

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {"family": GAP, "seed": self.seed, "settings": self.settings.document()}


AnyCase = TrainingCase | GapCase


@dataclass(frozen=True, slots=True, kw_only=True)
class AndreasPlan:
    """Plan of the evaluation. ``seeds`` 0 and ``nodes`` () = the defaults."""

    settings: AndreasAssumptions
    seeds: int = 0
    nodes: tuple[int, ...] = ()
    quick: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of the machines of the scenarios."""
        return self.nodes or (QUICK_NODES if self.quick else NODES)

    def seeds_of(self, family: str) -> range:
        """Return the seeds of a family."""
        if family == GAP:
            return range(QUICK_GAP_SEEDS if self.quick else GAP_SEEDS)
        return range(self.seeds or (QUICK_SEEDS if self.quick else SEEDS))

    def group(
        self,
        family: str,
        scenario: int,
        nodes: int,
        policy: str,
        *,
        price: str = CONSTANT,
        budget_share: float = 1.0,
    ) -> list[TrainingCase]:
        """Return a case per seed.

        GPU limits need composed jobs, as measured jobs have no power curves.
        """
        settings = self.settings
        if family == CAPS:
            settings = replace(settings, workload=COMPOSED)
        return [
            TrainingCase(
                family=family,
                scenario=scenario,
                nodes=nodes,
                seed=seed,
                policy=policy,
                settings=settings,
                price=price,
                budget_share=budget_share,
            )
            for seed in self.seeds_of(family)
        ]

    def gaps(self) -> list[GapCase]:
        """Return the cases of small problems."""
        return [GapCase(seed=seed, settings=self.settings) for seed in self.seeds_of(GAP)]

    def cases(self, family: str) -> list[AnyCase]:
        """Return all cases of a family, the small ones first."""
        if family == GAP:
            return [*self.gaps()]
        return [case for group in self.groups(family) for case in group]

    def groups(self, family: str) -> Iterator[list[TrainingCase]]:
        """Yield the cases of a family, grouped by everything except the seed."""
        if family == SCENARIO:
            for nodes in self.sizes:
                for one in SCENARIOS:
                    for policy in (*POLICIES, *WAITING, PAPERS):
                        yield self.group(family, one.number, nodes, policy)
        elif family == PRICE:
            for price in PRICES:
                aware = () if price == CONSTANT else (UNAWARE,)
                for policy in (OURS, *aware, *BASELINES, *WAITING):
                    yield self.group(family, 1, PRICE_NODES, policy, price=price)
        elif family == CAPS:
            for share in BUDGET_SHARES:
                for policy in (CAPPED, *POLICIES):
                    yield self.group(family, 1, CAPS_NODES, policy, budget_share=share)
