"""Slowdown-driven in the service, over named nodes, starts the same jobs as the pool."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
from property.pool.test_slowdown_pool import CORES, MACHINE, random_jobs, run, scheduler
from unit.pool.pools import S

from wattfold.coordinator.core.model.jobs.assignment import Assignment
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView
from wattfold.coordinator.policies.port import JobInformation
from wattfold.coordinator.policies.slowdown_driven.choice import INFINITE, MateEnd
from wattfold.coordinator.policies.slowdown_driven.policy import SlowdownDriven
from wattfold.coordinator.policies.slowdown_driven.rules import PowerSharing, SharingSettings
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler

KINDS = (JobKind.RIGID, JobKind.MOLDABLE, JobKind.MALLEABLE)
RANKS = 4


class Served(NamedPolicyScheduler):
    """The policy of the service, for jobs on whole nodes that share as their kinds allow."""

    def __init__(self, jobs: JobTable, policy: SlowdownDriven, kinds: list[int]) -> None:
        super().__init__(jobs, MACHINE, policy, policy.name)
        self._of = kinds

        self._since: dict[int, tuple[int, float]] = {}
        """Time of the last change of a job, and its share of done work at that time."""

    def attach(self, jobs: JobInformation) -> None:
        super().attach(jobs)
        # A pool's own scheduler does not know the actual progress of jobs.
        self.held, self.out_of_use = self._known.held, self._known.out_of_use
        self.foretold_ns, self.arrived_ns = self._known.foretold_ns, self._known.arrived_ns
        self._known = self  # type: ignore[assignment]

    def done(self, job: int, now_ns: int) -> float:
        """Progress as the service counts it: by estimates."""
        view, (since_ns, share) = self._views[job], self._since[job]
        assert view.current is not None
        return share + (now_ns - since_ns) / 1e9 / view.current.expected_total_s

    def _take(self, job: int, view: JobView, assignment: Assignment, now_ns: int) -> None:
        share = self.done(job, now_ns) if job in self._since else 0.0
        self._since[job] = now_ns, share
        super()._take(job, view, assignment, now_ns)

    def submit(self, job: int, now_ns: int) -> None:
        super().submit(job, now_ns)
        view, kind = self._views[job], KINDS[self._of[job]]
        sharing = (CoreSharing.NO, CoreSharing.BORROW, CoreSharing.BOTH)[self._of[job]]
        spec = replace(view.spec, kind=kind, sharing=sharing, tasks_per_node=RANKS)
        self._views[job] = replace(view, spec=spec)


def test_the_service_starts_what_a_pool_starts() -> None:
    """Without a dynamic cut-off and without mates that may delay the queue head: a pool reconsiders
    a job only after new room or new mates.
    """
    assert sum(map(started_beside, range(60))) > 100


def started_beside(seed: int) -> int:
    """Return the number of jobs that start with mates, if pool and service agree."""
    rng = random.Random(seed)
    jobs = random_jobs(seed, 30)
    # Without an estimate the service assumes an hour.
    jobs = replace(jobs, run_ns=jobs.run_ns + S, estimate_ns=jobs.estimate_ns + S)
    kinds = [rng.choice([0, 1, 2, 2, 2]) for _ in range(len(jobs))]
    most, mates = rng.choice([5.0, 10.0, INFINITE]), rng.randint(1, 3)
    # With thirds of a node, the pool would round work to nanoseconds.
    factor, mapped = rng.choice([0.25, 0.5]), rng.choice([0, 2, 32])
    benefit, free_nodes = rng.random() < 0.5, rng.random() < 0.5
    least_gain = rng.choice([0.0, 0.0, 2.0])
    power = rng.choice([PowerSharing.WATTS, PowerSharing.WATTS, PowerSharing.WEIGH])
    mate_end = rng.choice(list(MateEnd))
    policy = SlowdownDriven(
        SharingSettings(
            max_slowdown=most,
            mates=mates,
            mate_end=mate_end,
            sharing_factor=factor,
            benefit=benefit,
            free_nodes=free_nodes,
            mapped=mapped,
            power=power,
            least_gain=least_gain,
        )
    )
    rules = SharingSettings(
        max_slowdown=most,
        mates=mates,
        mate_end=mate_end,
        sharing_factor=factor,
        benefit=benefit,
        free_nodes=free_nodes,
        mapped=mapped,
        power=power,
        least_gain=least_gain,
    )
    counted = scheduler(jobs, rules, kinds, kills_at_limit=False)
    # As in the service: one decision for all events of a round.
    counted.each_event = False
    pooled = run(jobs, counted, RunTimeModel.WORST_CASE)
    served = run(jobs, Served(jobs, policy, kinds), RunTimeModel.WORST_CASE)
    assert np.allclose(pooled.columns.start_ns, served.columns.start_ns, rtol=0, atol=CORES)
    assert np.allclose(pooled.columns.end_ns, served.columns.end_ns, rtol=0, atol=CORES)
    return counted.started_beside
