"""Cases of the evaluation: single simulations that can be sent to another process.

A case of a log identifies the log by its digest; the path only locates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.simulator.papers.slowdown_driven.settings import SEEDS

if TYPE_CHECKING:
    from wattfold.simulator.papers.slowdown_driven.settings import SlowdownAssumptions

IDEAL, LIMITED = "ideal", "limited"
BASELINES = (IDEAL, LIMITED)
"""Kinds of backfilling: at every event, or in limited passes."""
BEFORE, AFTER = "before", "after"
READINGS = (BEFORE, AFTER)
"""Required end of a guest: before its mates would end without it, or with the delay by it."""
STATIC = "static"
DYNAMIC = "DynAVGSD"
NO_LIMIT = "0"
"""MAX_SLOWDOWN as infinite."""
WORTH = "worth"
"""Own variant: no limit, but sharing must gain much for a job (`least_gain`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownLog:
    """A log of jobs."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperWorkload:
    """A workload of Table 1, or another log."""

    name: str
    number: int
    """Number in Table 1; 0 = not in the paper."""
    nodes: int
    cores: int
    log_name: str = ""
    """Name of its log file; empty for a drawn workload."""
    logs_nodes: bool = False
    """Whether the log counts nodes, not cores."""


SOURCES = {
    source.name: source
    for source in (
        PaperWorkload(name="cirne", number=1, nodes=1024, cores=48),
        PaperWorkload(name="cirne-exact", number=2, nodes=1024, cores=48),
        PaperWorkload(name="ricc", number=3, nodes=1024, cores=8, log_name="ricc_2010.swf.gz"),
        PaperWorkload(
            name="curie", number=4, nodes=5040, cores=16, log_name="curie_2011_partition10.swf.gz"
        ),
        PaperWorkload(
            name="kth",
            number=0,
            nodes=100,
            cores=16,
            log_name="kth_sp2.swf.gz",
            logs_nodes=True,
        ),
        # With half of the cores lent, their number does not matter. With 16 cores, the core times
        # of its largest jobs would not fit into 64 bits of nanoseconds.
        PaperWorkload(
            name="mira",
            number=0,
            nodes=49_152,
            cores=2,
            log_name="mira_2018.swf.gz",
            logs_nodes=True,
        ),
    )
}

WORKLOADS = tuple(name for name, source in SOURCES.items() if source.number)
CHOSEN_ON = tuple(name for name, source in SOURCES.items() if not source.number)
"""Logs for the choice of the gain of `WORTH`; none of them is in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownCase:
    """A workload under a policy."""

    workload: str
    """A name of `SOURCES`."""
    seed: int
    count: int
    """Number of its first jobs; 0 = all."""
    passes: str
    """One of `BASELINES`."""
    policy: str
    """`STATIC`, `DYNAMIC`, `WORTH`, or MAX_SLOWDOWN as a number (0 = infinite)."""
    model: str
    """``ideal`` or ``worst-case``."""
    mate_end: str = BEFORE
    """One of `READINGS`."""
    settings: SlowdownAssumptions
    log: SlowdownLog | None = None

    @property
    def source(self) -> PaperWorkload:
        """Its workload."""
        return SOURCES[self.workload]

    @property
    def limit(self) -> float | None:
        """MAX_SLOWDOWN if it is fixed, else None."""
        from wattfold.coordinator.policies.slowdown_driven.choice import INFINITE

        if self.policy in (STATIC, DYNAMIC, WORTH):
            return None
        return float(self.policy) or INFINITE

    @property
    def label(self) -> str:
        """Label for people and file names."""
        words = [self.workload, self.passes, policy_name(self.policy)]
        if self.policy != STATIC:
            words += [self.model, self.mate_end]
        if self.policy == WORTH:
            words.append(f"gain {self.settings.least_gain:g}")
        if self.log is None:
            words.append(f"s{self.seed}")
        if self.count:
            words.append(f"{self.count}jobs")
        return " ".join(words)

    def greater(self) -> list[SlowdownCase]:
        """Return the same case under higher limits, the highest first."""
        from wattfold.simulator.papers.slowdown_driven.settings import LIMITS

        if self.limit is None:
            return []
        cases = (replace(self, policy=f"{limit:g}") for limit in LIMITS)
        greater = [case for case in cases if (case.limit or 0.0) > self.limit]
        return sorted(greater, key=lambda case: case.limit or 0.0, reverse=True)

    def identity(self) -> Mapping[str, object]:
        """Return all inputs that determine the result."""
        return {
            "workload": self.workload,
            "seed": self.seed,
            "count": self.count,
            "passes": self.passes,
            "policy": self.policy,
            "model": self.model,
            "mate_end": self.mate_end,
            "settings": self._settings(),
            "log": self.log.sha256 if self.log else "",
        }

    def _settings(self) -> dict[str, object]:
        """Return the settings, except those that the case does not depend on."""
        unused = {"tested"} if self.passes == LIMITED else {"looked", "every_s"}
        if self.policy == STATIC:
            unused |= {"sharing_factor", "tested"}
        if self.policy != WORTH:
            unused.add("least_gain")
        return {
            name: value for name, value in self.settings.document().items() if name not in unused
        }


def policy_name(policy: str) -> str:
    """Return a name for people:

    ``MAXSD 10``, ``MAXSD inf``, ``DynAVGSD``, ``static``, ``worth it``.
    """
    if policy in (STATIC, DYNAMIC):
        return policy
    if policy == WORTH:
        return "worth it (ours)"
    return f"MAXSD {policy}" if float(policy) else "MAXSD inf"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownPlan:
    """Plan of the evaluation."""

    settings: SlowdownAssumptions
    logs: Mapping[str, SlowdownLog]
    """Logs by workload; a workload without its log is left out."""
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    quick: bool = False
    only: tuple[str, ...] = ()
    """Selected workloads; empty: all."""
    mate_end: str = BEFORE
    """Reading of its cases."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """Workloads of Table 1 that can be run, in its order."""
        return tuple(
            name
            for name in WORKLOADS
            if (not SOURCES[name].log_name or name in self.logs)
            and (not self.only or name in self.only)
        )

    @property
    def chosen_on(self) -> tuple[str, ...]:
        """Workloads of `CHOSEN_ON` that can be run."""
        return tuple(name for name in CHOSEN_ON if name in self.logs)

    @property
    def missing(self) -> tuple[str, ...]:
        """Workloads of Table 1 that cannot be run because their log is missing."""
        wanted = self.only or WORKLOADS
        return tuple(name for name in wanted if name not in self.workloads)

    def cases(
        self, workload: str, passes: str, policy: str, model: str = "ideal"
    ) -> list[SlowdownCase]:
        """Return a case for every seed; a single case for a log."""
        from wattfold.simulator.papers.slowdown_driven.settings import QUICK_JOBS

        log = self.logs.get(workload)
        static = policy == STATIC
        return [
            SlowdownCase(
                workload=workload,
                seed=seed,
                count=QUICK_JOBS[workload] if self.quick else 0,
                passes=passes,
                policy=policy,
                model="ideal" if static else model,
                mate_end=BEFORE if static else self.mate_end,
                settings=self.settings,
                log=log,
            )
            for seed in ((0,) if log else self.seeds)
        ]


def quick_seeds(quick: bool) -> tuple[int, ...]:
    """Return the default seeds of drawn workloads."""
    from wattfold.simulator.papers.slowdown_driven.settings import QUICK_SEEDS

    return tuple(range(QUICK_SEEDS if quick else SEEDS))
