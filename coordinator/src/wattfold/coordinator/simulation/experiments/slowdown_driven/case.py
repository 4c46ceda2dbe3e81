"""One simulation of the evaluation, small enough to be sent to another process and to name a file.

A case of a log names the log by its digest; the path is only where to find it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import SEEDS

if TYPE_CHECKING:
    from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import Settings

IDEAL, LIMITED = "ideal", "limited"
BASELINES = (IDEAL, LIMITED)
"""How backfilling is done: at every event, or in limited passes."""
STATIC = "static"
DYNAMIC = "DynAVGSD"
WORTH = "worth"
"""Not the paper's: no limit, but a job shares only where it gains much (`Settings.least_gain`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log of jobs."""

    path: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A workload of Table 1."""

    name: str
    number: int
    """In Table 1."""
    nodes: int
    cores: int
    log_name: str = ""
    """Of its log's file; empty for one that is drawn."""


SOURCES = {
    source.name: source
    for source in (
        Source(name="cirne", number=1, nodes=1024, cores=48),
        Source(name="cirne-exact", number=2, nodes=1024, cores=48),
        Source(name="ricc", number=3, nodes=1024, cores=8, log_name="ricc_2010.swf.gz"),
        Source(
            name="curie", number=4, nodes=5040, cores=16, log_name="curie_2011_partition10.swf.gz"
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownCase:
    """A workload under a policy."""

    workload: str
    """A name of `SOURCES`."""
    seed: int
    count: int
    """Its first jobs; 0 = all."""
    passes: str
    """One of `BASELINES`."""
    policy: str
    """`STATIC`, `DYNAMIC`, `WORTH`, or MAX_SLOWDOWN as a number (0 = infinite)."""
    model: str
    """``ideal`` or ``worst-case``."""
    settings: Settings
    log: Log | None = None

    @property
    def source(self) -> Source:
        """Its workload."""
        return SOURCES[self.workload]

    @property
    def limit(self) -> float | None:
        """MAX_SLOWDOWN where it is fixed."""
        from wattfold.coordinator.policies.slowdown_driven_choice import INFINITE

        if self.policy in (STATIC, DYNAMIC, WORTH):
            return None
        return float(self.policy) or INFINITE

    @property
    def label(self) -> str:
        """For people and file names."""
        words = [self.workload, self.passes, policy_name(self.policy)]
        if self.policy != STATIC:
            words.append(self.model)
        if self.log is None:
            words.append(f"s{self.seed}")
        if self.count:
            words.append(f"{self.count}jobs")
        return " ".join(words)

    def greater(self) -> list[SlowdownCase]:
        """The same under greater limits, the greatest first."""
        from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import LIMITS

        if self.limit is None:
            return []
        cases = (replace(self, policy=f"{limit:g}") for limit in LIMITS)
        greater = [case for case in cases if (case.limit or 0.0) > self.limit]
        return sorted(greater, key=lambda case: case.limit or 0.0, reverse=True)

    def identity(self) -> Mapping[str, object]:
        """All that decides the result."""
        return {
            "workload": self.workload,
            "seed": self.seed,
            "count": self.count,
            "passes": self.passes,
            "policy": self.policy,
            "model": self.model,
            "settings": self._settings(),
            "log": self.log.sha256 if self.log else "",
        }

    def _settings(self) -> dict[str, object]:
        """The stand-ins without those the case does not depend on."""
        unused = {"tested"} if self.passes == LIMITED else {"looked", "every_s"}
        if self.policy == STATIC:
            unused |= {"sharing_factor", "tested"}
        if self.policy != WORTH:
            unused.add("least_gain")
        return {
            name: value for name, value in self.settings.document().items() if name not in unused
        }


def policy_name(policy: str) -> str:
    """For people: ``MAXSD 10``, ``MAXSD inf``, ``DynAVGSD``, ``static``, ``worth it``."""
    if policy in (STATIC, DYNAMIC):
        return policy
    if policy == WORTH:
        return "worth it (ours)"
    return f"MAXSD {policy}" if float(policy) else "MAXSD inf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    settings: Settings
    logs: Mapping[str, Log]
    """By workload; one without its log is left out."""
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    quick: bool = False
    only: tuple[str, ...] = ()
    """Workloads that are wanted; empty: all."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """Those that can be run, in the order of Table 1."""
        return tuple(
            name
            for name, source in SOURCES.items()
            if (not source.log_name or name in self.logs) and (not self.only or name in self.only)
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that cannot, for want of a log."""
        wanted = self.only or tuple(SOURCES)
        return tuple(name for name in wanted if name not in self.workloads)

    def cases(
        self, workload: str, passes: str, policy: str, model: str = "ideal"
    ) -> list[SlowdownCase]:
        """A case for every seed; one for a log."""
        from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import QUICK_JOBS

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
                settings=self.settings,
                log=log,
            )
            for seed in ((0,) if log else self.seeds)
        ]


def quick_seeds(quick: bool) -> tuple[int, ...]:
    """Usual seeds of workloads that are drawn."""
    from wattfold.coordinator.simulation.experiments.slowdown_driven.settings import QUICK_SEEDS

    return tuple(range(QUICK_SEEDS if quick else SEEDS))
