"""Simulation of one policy on one workload with messages; `run(...)` returns its record.

The cluster comes up before the first submission; times of the record are those of the log. The run
ends when every job has ended, or when nothing can change any more for the remaining jobs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from wattfold.coordinator.core.model.configuration import AccountsConfigured, RampConfigured
from wattfold.coordinator.core.model.node import Curve, NodeSpec
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.sleep.sleep_counts import SleepCounts
from wattfold.simulator.messages.driver import ClusterOptions, SimulatedCluster
from wattfold.simulator.messages.faults import Incident
from wattfold.simulator.messages.meter import MeteredBudget
from wattfold.simulator.messages.record import ClusterRecord, job_columns, series
from wattfold.simulator.messages.site import Submission, node_specs, submissions
from wattfold.simulator.messages.work import SpeedModel

S = 1_000_000_000
STARTUP_NS = 10 * S
STUCK_NS = 600 * S
"""After this time without running or future events, waiting jobs count as never starting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationInputs:
    """Inputs of a simulation besides machine, jobs and policy. Times are those of the log."""

    budget: tuple[MeteredBudget, ...]
    """Budgets in order of time. The first counts from the start, whatever its time."""
    cores_per_node: int = 16
    unit: SizeUnit = SizeUnit.NODES
    """Unit of the sizes of the jobs: whole nodes, or cores of one node."""
    model: SpeedModel | None = None
    """Default: PASS for jobs with profiles, ideal for others."""
    estimates: bool = True
    """Whether policies know the run times that users requested."""
    curve: Curve | None = None
    specs: tuple[NodeSpec, ...] = ()
    """Nodes with the cores of `cores_per_node`; (): equal nodes, as the machine states them."""
    window_ns: int = S
    incidents: tuple[Incident, ...] = ()
    restart: bool = False
    """Malleable jobs change size by restarts, which take `ClusterOptions.restarts`."""
    limits: AccountsConfigured | None = None
    """Limits of users and accounts."""
    until_ns: int | None = None
    """The run stops at this time at the latest."""
    ramp: RampLimits | None = None
    """Limits of the changes of committed power, from just before the first submission on."""
    options: ClusterOptions = ClusterOptions(lease_ns=60 * S)  # noqa: RUF009 - immutable

    def __post_init__(self) -> None:
        times = [step.time_ns for step in self.budget[1:]]
        if not self.budget or times != sorted(times):
            raise ValueError("a budget needs a first value and its changes in order of time")


class _ClusterRun:
    """A run in progress. Cluster time plus ``offset_ns`` is log time."""

    def __init__(
        self, machine: Machine, jobs: JobTable, policy: Policy, experiment: SimulationInputs
    ) -> None:
        self._jobs = jobs
        self._experiment = experiment
        first_ns = int(jobs.submit_ns.min()) if len(jobs) else 0
        self.offset_ns = first_ns - STARTUP_NS
        specs = list(experiment.specs) or node_specs(
            machine,
            experiment.cores_per_node,
            window_ns=experiment.window_ns,
            curve=experiment.curve,
        )
        options = replace(experiment.options, idle_uw=machine.idle_uw)
        self.cluster = SimulatedCluster(specs, policy, experiment.budget[0].budget_uw, options)
        if experiment.limits is not None:
            self.cluster.post(experiment.limits)
        self._to_come = 0
        self.energy_before_uw_ns = 0
        self._idle_since_ns = -1
        self._schedule()

    def _schedule(self) -> None:
        experiment = self._experiment
        model = experiment.model
        if model is None:
            model = SpeedModel.PASS if self._jobs.profiles else SpeedModel.IDEAL
        for submission in submissions(
            self._jobs,
            experiment.cores_per_node,
            unit=experiment.unit,
            model=model,
            estimates=experiment.estimates,
            restarts=experiment.options.restarts if experiment.restart else None,
            accounts=experiment.limits.accounts if experiment.limits else (),
        ):
            self._at(submission.submit_ns, partial(self._submit, submission))
        if experiment.ramp is not None:
            # The nodes are up by then, so their floors are no rise, as in a pool.
            limits = RampConfigured(limits=experiment.ramp)
            self.cluster.clock.at(STARTUP_NS - 1, partial(self.cluster.post, limits))
        for step in experiment.budget[1:]:
            change = partial(self.cluster.set_budget, step.budget_uw, step.deadline_ns)
            self._at(step.time_ns, change)
        for incident in experiment.incidents:
            self._at(incident.time_ns, partial(self.cluster.happen, incident))

    def _at(self, log_ns: int, happening: partial[None]) -> None:
        self._to_come += 1

        def happen() -> None:
            if self.cluster.down:  # A coordinator that is down takes no event: try again.
                self.cluster.clock.later(S, happen)
                return
            self._to_come -= 1
            happening()

        self.cluster.clock.at(log_ns - self.offset_ns, happen)

    def _submit(self, submission: Submission) -> None:
        cluster = self.cluster
        if not cluster.submitted:
            self.energy_before_uw_ns = cluster.meter.drawn_uw_ns
            cluster.meter.sleep = SleepCounts(awake=cluster.meter.sleep.awake)
        if submission.profile is not None:
            cluster.post(submission.profile)
        cluster.submit(submission.job_id, submission.spec, submission.work)

    def finished(self) -> bool:
        """Whether every job has ended, or the remaining jobs can never start."""
        if self._to_come:
            return False
        truth = self.cluster.truth
        if not self.cluster.core.state.open_jobs:
            return True
        if truth.sums.nodes_busy:
            self._idle_since_ns = -1
            return False
        if self._idle_since_ns < 0:
            self._idle_since_ns = self.cluster.now_ns
        return self.cluster.now_ns - self._idle_since_ns >= STUCK_NS


def run(
    machine: Machine, jobs: JobTable, policy: Policy, experiment: SimulationInputs
) -> ClusterRecord:
    """Run a workload to its end. Equal arguments give equal records, except for wall times.

    Raises BrokenInvariantError, or the core's own error, with the seed and the last events.
    """
    began_s = time.perf_counter()
    under_way = _ClusterRun(machine, jobs, policy, experiment)
    cluster, offset_ns = under_way.cluster, under_way.offset_ns
    until_ns = experiment.until_ns
    cluster.run(2**62 if until_ns is None else until_ns - offset_ns, under_way.finished)
    columns = job_columns(cluster, len(jobs), experiment.unit, experiment.cores_per_node, offset_ns)
    meter = cluster.meter
    record = ClusterRecord(
        policy=policy.name,
        seed=experiment.options.seed,
        machine=machine,
        jobs=jobs,
        columns=columns,
        series=series(cluster, offset_ns),
        energy_uj=max(meter.until_last_end_uw_ns - under_way.energy_before_uw_ns, 0) // S,
        peak_committed_uw=meter.peak_committed_uw,
        peak_drawn_uw=meter.peak_drawn_uw,
        over_budget_ns=meter.bound_over_ns,
        rounds=cluster.rounds,
        solver_ns=np.array(cluster.solver_ns, dtype=np.int64),
        wall_s=time.perf_counter() - began_s,
        events=cluster.events,
        drawn_over_budget_ns=meter.drawn_over_ns,
        peak_bound_uw=meter.peak_bound_uw,
        responses=tuple(replace(r, time_ns=r.time_ns + offset_ns) for r in meter.responses),
        clashes=cluster.clashes,
        unfinished=tuple(np.flatnonzero(columns.end_ns < 0).tolist()),
    )
    if not experiment.options.settings.sleep.decides:
        return record
    nodes, counts = cluster.core.state.nodes.values(), meter.sleep
    counts.boots = sum(node.boots for node in nodes)
    counts.failed = sum(node.failed_boots for node in nodes)
    return record.with_sleep(counts)
