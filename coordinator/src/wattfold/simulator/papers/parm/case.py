"""Cases of the evaluation: single simulations that can be sent to another process.

A case of a log identifies the log by its digest; the path only locates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from wattfold.simulator.papers.parm.settings import (
    CLUSTER_BASELINE_NODES,
    CLUSTER_BUDGET_W,
    CLUSTER_JOBS,
    CLUSTER_NODES,
    FULL_CAP_W,
    LARGE_BASELINE_NODES,
    LARGE_BUDGET_W,
    LARGE_JOBS,
    ParmAssumptions,
)
from wattfold.simulator.workloads.annotations import CLUSTER_CAPS_W, LARGE_CAPS_W

BASELINE_MAX = "baseline"
BASELINE_MIN = "baseline-min"
BASELINES = (BASELINE_MAX, BASELINE_MIN)
VARIANTS = ("noMM", "noSE", "wSE")
PRICED = "wSE-priced"
"""Our variant: wSE that knows the cost of a resize and plans again when a job may be resized."""
CLUSTER_SETS = ("SetL", "SetH")
LARGE_SETS = {"Set1": 0, "Set2": 5000, "Set3": 10_000}
"""Position of the first job of each set in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmLog:
    """A log of jobs."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParmCase:
    """A set of jobs, a machine and a policy."""

    jobs: str
    """A name of `CLUSTER_SETS` or `LARGE_SETS`."""
    seed: int
    count: int
    """Number of jobs of the set, from its first."""
    gamma: float
    """Factor for arrival times."""
    nodes: int
    budget_w: float
    policy: str
    """One of `BASELINES` or of `VARIANTS`, or `PRICED`."""
    caps_w: tuple[float, ...]
    """Selectable caps of a variant; the single cap of a baseline."""
    alpha: float
    """Weight of waiting of a variant; 0 for a baseline."""
    settings: ParmAssumptions
    log: ParmLog | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether it runs without PARM."""
        return self.policy in BASELINES

    @property
    def label(self) -> str:
        """Label for people and file names."""
        words = [self.jobs, f"g{self.gamma:g}", self.policy, f"N{self.nodes}"]
        words.append(f"{self.caps_w[0]:g}W" if self.is_baseline else f"P{len(self.caps_w)}")
        if not self.is_baseline:
            words.append(f"a{self.alpha:g}")
        words.append(f"s{self.seed}")
        if self.log is not None and self.count != LARGE_JOBS:
            words.append(f"{self.count}jobs")
        return " ".join(words)

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {
            "jobs": self.jobs,
            "seed": self.seed,
            "count": self.count,
            "gamma": self.gamma,
            "nodes": self.nodes,
            "budget_w": self.budget_w,
            "policy": self.policy,
            "caps_w": list(self.caps_w),
            "alpha": self.alpha,
            "settings": self._settings(),
            "log": self.log.sha256 if self.log else "",
        }

    def _settings(self) -> dict[str, object]:
        """Return the settings, except those that the case states itself or does not depend on."""
        known = self.settings.document()
        unused = {"nodes", "alpha"}
        unused |= {"estimates"} if self.log is None else {"cluster_size_least", "cluster_size_most"}
        return {name: value for name, value in known.items() if name not in unused}


def cluster_case(jobs: str, seed: int, policy: str, settings: ParmAssumptions) -> ParmCase:
    """Return a case of the cluster: a baseline on the nodes that it can power, a variant on all."""
    baseline = policy in BASELINES
    return ParmCase(
        jobs=jobs,
        seed=seed,
        count=CLUSTER_JOBS,
        gamma=1.0,
        nodes=CLUSTER_BASELINE_NODES if baseline else CLUSTER_NODES,
        budget_w=CLUSTER_BUDGET_W,
        policy=policy,
        caps_w=(FULL_CAP_W,) if baseline else CLUSTER_CAPS_W,
        alpha=0.0 if baseline else settings.alpha,
        settings=settings,
    )


def large_case(
    jobs: str,
    seed: int,
    gamma: float,
    policy: str,
    settings: ParmAssumptions,
    log: ParmLog,
    count: int = LARGE_JOBS,
) -> ParmCase:
    """Return a case of the large machine.

    The baseline at maximum size ignores annotations, so that all seeds are one case.
    """
    baseline = policy in BASELINES
    return ParmCase(
        jobs=jobs,
        seed=0 if policy == BASELINE_MAX else seed,
        count=count,
        gamma=gamma,
        nodes=LARGE_BASELINE_NODES if baseline else settings.nodes,
        budget_w=LARGE_BUDGET_W,
        policy=policy,
        caps_w=(FULL_CAP_W,) if baseline else LARGE_CAPS_W,
        alpha=0.0 if baseline else settings.alpha,
        settings=settings,
        log=log,
    )


def with_caps(case: ParmCase, caps_w: tuple[float, ...]) -> ParmCase:
    """Return the case with other selectable caps."""
    return replace(case, caps_w=caps_w)


def with_alpha(case: ParmCase, alpha: float) -> ParmCase:
    """Return the case with another weight of waiting."""
    return replace(case, alpha=alpha)
