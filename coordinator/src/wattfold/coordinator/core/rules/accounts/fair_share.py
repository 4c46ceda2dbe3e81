"""Fair share: waiting jobs of accounts and users with much recent use have lower priorities.

The share of a job belongs to its account, or to its user if it has no account of the configuration.
A policy sees the priority of a waiting job multiplied by the factor of its share
(`core/state/fair_share.py`). All policies use priorities, so none has a rule about shares. The
priorities of running jobs stay as they are.

Use is exact: it changes with each event of a job. Factors are computed once a minute while jobs
wait.
"""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.core.model.account import EVERYBODY
from wattfold.coordinator.core.model.job import PLACED_STATES, Job, JobState
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.power.charge import assigned_on_uw
from wattfold.coordinator.core.state.admissions import Holder
from wattfold.coordinator.core.state.fair_share import FairShare, factors_of
from wattfold.coordinator.core.state.state import State

PERIOD_NS = 60 * NS_PER_S


def holder_of(state: State, spec: JobSpec) -> str:
    """Return the holder of the share that a job uses."""
    if spec.account in state.accounts:
        return str(Holder("account", spec.account))
    return str(Holder("user", spec.user))


def factor_of(state: State, job: Job) -> float:
    """Return the factor for the priority of a waiting job."""
    factors = state.fair_share.factors
    return factors.get(holder_of(state, job.spec), 1.0) if factors else 1.0


def weighted(state: State, job: Job, spec: JobSpec) -> JobSpec:
    """Return the submission of a waiting job with the priority that policies see."""
    factor = factor_of(state, job)
    return spec if factor == 1.0 else replace(spec, priority=spec.priority * factor)


def configured(state: State, half_life_ns: int, now_ns: int) -> None:
    """Use another half-life, before accounts and shares change. 0 = forget all use."""
    fair = state.fair_share
    if not (fair.half_life_ns and half_life_ns):
        fair = state.fair_share = FairShare(half_life_ns=half_life_ns)
    else:
        # The jobs are counted again with the next event, because their accounts may change.
        for job in state.index.open.values():
            fair.change_rate(holder_of(state, job.spec), -job.shared_uw, now_ns)
        for use in fair.uses.values():
            use.settle(now_ns, fair.half_life_ns)
        fair.half_life_ns, fair.weighed_ns = half_life_ns, -1
    for job in state.index.open.values():
        job.shared_uw = 0


def enforce(state: State, now_ns: int) -> None:
    """Count the changes of an event, and compute the factors if it is time."""
    fair = state.fair_share
    if not fair.half_life_ns:
        return
    touched = state.index.touched
    everything = touched.everything or fair.weighed_ns < 0
    for job_id in [*state.index.open] if everything else sorted(touched.jobs):
        job = state.jobs.get(job_id)
        if job is not None:
            _count(state, job, now_ns)
    if fair.weighed_ns < 0 or now_ns >= fair.weighed_ns + PERIOD_NS:
        _weigh(state, now_ns)


def next_ns(state: State) -> int:
    """Return when factors are due; 0 = no job waits for them."""
    fair = state.fair_share
    if not (fair.half_life_ns and fair.uses) or len(state.index.open) <= len(state.placed()):
        return 0
    return fair.weighed_ns + PERIOD_NS


def parts(state: State, now_ns: int) -> dict[str, tuple[float, float, float]]:
    """Return share, part of all recent use, and factor by holder."""
    shares, uses = _shares(state), _uses(state, now_ns)
    used, shared = sum(uses.values()), sum(shares.values())
    factors = factors_of(uses, shares)
    return {
        holder: (
            share / shared,
            uses.get(holder, 0.0) / used if used else 0.0,
            factors.get(holder, 1.0),
        )
        for holder, share in shares.items()
    }


def _count(state: State, job: Job, now_ns: int) -> None:
    """Follow the power of a job."""
    power_uw = 0
    if job.state in PLACED_STATES and job.target is not None:
        specs = {
            share.node_id: node.spec
            for share in job.target.shares
            if (node := state.nodes.get(share.node_id)) is not None and node.spec is not None
        }
        power_uw = assigned_on_uw(job.target, specs, state.settings.dram_cap_uw)
    if power_uw != job.shared_uw:
        holder = holder_of(state, job.spec)
        state.fair_share.change_rate(holder, power_uw - job.shared_uw, now_ns)
        job.shared_uw = power_uw


def _weigh(state: State, now_ns: int) -> None:
    fair = state.fair_share
    fair.weighed_ns = now_ns
    for use in fair.uses.values():
        use.settle(now_ns, fair.half_life_ns)
    fair.uses = {holder: use for holder, use in fair.uses.items() if use.uj >= 1 or use.rate_uw}
    before, fair.factors = fair.factors, factors_of(_uses(state, now_ns), _shares(state))
    if before == fair.factors:
        return
    for job in state.index.open.values():
        holder = holder_of(state, job.spec)
        if job.state is JobState.PENDING and before.get(holder) != fair.factors.get(holder):
            state.index.touch_job(job)
            state.plan_needed = state.plan_needed or "priorities changed by fair share"


def _uses(state: State, now_ns: int) -> dict[str, float]:
    fair = state.fair_share
    found = {}
    for holder, use in fair.uses.items():
        current = replace(use)
        current.settle(now_ns, fair.half_life_ns)
        found[holder] = current.uj
    return found


def _shares(state: State) -> dict[str, float]:
    """Return the shares of all accounts, and of the users with jobs or recent use."""
    holders = dict.fromkeys(state.fair_share.uses)
    holders |= {holder_of(state, job.spec): None for job in state.index.open.values()}
    found = {str(Holder("account", one.name)): one.share for one in state.accounts.values()}
    others = state.user_limits.get(EVERYBODY)
    for holder in holders:
        kind, _, name = holder.partition(" ")
        if kind == "user":
            user = state.user_limits.get(name, others)
            found[holder] = user.share if user is not None else 1.0
    return found
