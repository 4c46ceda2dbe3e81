"""Jobs, machines and a bookkeeping engine for PARM on a pool."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wattfold.coordinator.models.pass_model import APPLICATIONS, PassProfile
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmSettings
from wattfold.coordinator.policies.port import SizeRequest
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.pool_parm import dram_levels, pool_parm, resize_price

S = 1_000_000_000
W = 1_000_000
LEANMD = replace(APPLICATIONS["LeanMD"], average_parallelism=64.0, sigma=0.3, t1_s=40_000.0)
"""Application with the strongest dependence on the clock frequency."""
JACOBI = replace(APPLICATIONS["Jacobi2D"], average_parallelism=64.0, sigma=0.3, t1_s=40_000.0)
"""Application with the weakest dependence on the clock frequency."""


@dataclass(frozen=True, kw_only=True)
class Request:
    low: int = 1
    high: int = 8
    submit_s: float = 0.0
    malleable: bool = True
    priority: float = 1.0
    profile: PassProfile = LEANMD


def job_table(requests: Sequence[Request]) -> JobTable:
    count = len(requests)
    return JobTable(
        job_ids=np.arange(count),
        submit_ns=np.asarray([round(r.submit_s * S) for r in requests], dtype=np.int64),
        size_min=np.asarray([r.low for r in requests], dtype=np.int64),
        size_max=np.asarray([r.high for r in requests], dtype=np.int64),
        run_ns=np.ones(count, dtype=np.int64),
        estimate_ns=np.ones(count, dtype=np.int64),
        priority=np.asarray([r.priority for r in requests]),
        users=np.zeros(count, dtype=np.int64),
        malleable=np.asarray([r.malleable for r in requests], dtype=np.bool_),
        profiles=tuple(r.profile for r in requests),
    )


@dataclass
class Shares:
    """The jobs of a table, with progress set by a test."""

    table: JobTable
    of: dict[int, float] = field(default_factory=dict)

    def ask(self, job: int) -> SizeRequest:
        table = self.table
        return SizeRequest(
            int(table.size_min[job]),
            int(table.size_max[job]),
            float(table.priority[job]),
            int(table.submit_ns[job]),
            resizable=bool(table.malleable[job]),
        )

    def held(self, job: int) -> None:
        """Do nothing: the scheduler of a pool remembers its assignments."""

    def profile(self, job: int, kind: object) -> PassProfile:
        return self.table.profiles[job]

    def done(self, job: int, now_ns: int) -> float:
        return self.of.get(job, 0.0)


@dataclass
class Pool:
    """A scheduler and its current assignments."""

    scheduler: ParmScheduler
    machine: Machine
    nodes: int
    spendable_uw: int
    shares: Shares
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    told: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scheduler.attach(self.shares)
        self.give(self.nodes, self.spendable_uw)

    def give(self, nodes: int, spendable_uw: int) -> None:
        self.nodes, self.spendable_uw = nodes, spendable_uw
        self.scheduler.site(self.machine.site(spendable_uw, nodes))

    def submit(self, *jobs: int, now_s: float = 0.0) -> None:
        for job in jobs:
            self.scheduler.submit(job, round(now_s * S))

    def end(self, job: int, now_s: float = 0.0) -> None:
        del self.runs[job], self.told[job]
        self.scheduler.end(job, round(now_s * S))

    def decide(self, now_s: float = 0.0) -> list[tuple[int, int, int]]:
        """Return the changed jobs with their sizes and caps."""
        changes = self.scheduler.decide(round(now_s * S)).changes
        for job, size, cap_uw, dram_uw, *_ in changes:
            given = (size, cap_uw, dram_uw)
            assert self.told.get(job) != given, "told of a job that does not change"
            self.runs[job], self.told[job] = (size, cap_uw), given
        return [change[:3] for change in changes]

    def dram_cap_uw(self, job: int) -> int:
        """DRAM cap of a running job; 0 = the default cap."""
        return self.told[job][2]

    @property
    def taken(self) -> tuple[int, int]:
        """Nodes and microwatts above idle of all running jobs."""
        nodes = sum(size for size, _ in self.runs.values())
        power_uw = 0
        for job, (size, cap_uw) in self.runs.items():
            dram_uw = self.dram_cap_uw(job) or self.machine.dram_uw
            above_uw = self.machine.dynamic_uw(cap_uw) + dram_uw - self.machine.dram_uw
            power_uw += size * max(above_uw, 0)
        return nodes, power_uw

    @property
    def sizes(self) -> dict[int, int]:
        return {job: size for job, (size, _) in self.runs.items()}

    @property
    def caps_w(self) -> dict[int, float]:
        return {job: cap_uw / W for job, (_, cap_uw) in self.runs.items()}


def pool(
    requests: Sequence[Request], *, nodes: int = 8, power_w: float = 1e6, **settings: Any
) -> Pool:
    machine, table = Machine.of_watts(nodes), job_table(requests)
    scheduler = parm_on(table, machine, **settings)
    return Pool(scheduler, machine, nodes, round(power_w * W), Shares(table))


def parm_on(
    table: JobTable,
    machine: Machine,
    *,
    price_resizes: bool = False,
    dram_levels_uw: tuple[int, ...] = (),
    **settings: Any,
) -> ParmScheduler:
    price = resize_price(machine) if price_resizes else None
    dram = dram_levels(machine, dram_levels_uw)
    own = {key: settings.pop(key) for key in ("version", "caps_uw", "revisits") if key in settings}
    settings = {"patience": 0.0, **settings}
    rules = ParmRules(settings=ParmSettings(**settings), resize_price=price, dram=dram, **own)
    return pool_parm(table, machine, rules)


def random_requests(rng: random.Random, count: int, nodes: int) -> list[Request]:
    out = []
    for _ in range(count):
        low = rng.randint(1, nodes)
        profile = replace(
            rng.choice(list(APPLICATIONS.values())),
            average_parallelism=rng.uniform(1, 3 * nodes),
            sigma=rng.random(),
            t1_s=rng.uniform(10, 5000),
        )
        out.append(
            Request(
                low=low,
                high=rng.randint(low, nodes + 2),
                submit_s=rng.uniform(0, 100),
                malleable=rng.random() < 0.7,
                priority=rng.choice([0.5, 1.0, 4.0]),
                profile=profile,
            )
        )
    return out
