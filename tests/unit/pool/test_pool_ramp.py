"""A pool under a ramp limit: the limit holds in the series, and the service gives the same runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from wattfold.contract.units import uw_from_w
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.record import RunRecord
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, WorkloadSource

W = 1_000_000
MACHINE = Machine.of_watts(16)
LIMITS = RampLimits(rise_uw_per_s=2 * W)
PLAIN = SimulationCase(
    source=WorkloadSource(model="lublin", jobs=60, cut_sizes=True, profiles=True),
    machine=MACHINE,
    budget=BudgetSchedule.constant(MACHINE.full_uw),
    policy=PolicyChoice(name="easy"),
)
RAMPED = replace(PLAIN, ramp=LIMITS)


def run(case: SimulationCase) -> RunRecord:
    simulation = simulation_of(case, jobs_of(case)[0])
    simulation.run()
    return simulation.record()


@pytest.mark.parametrize("policy", ["easy", "fcfs", "parm-wse"])
def test_the_limit_holds_over_every_pair_of_times(policy: str) -> None:
    record = run(replace(RAMPED, policy=PolicyChoice(name=policy)))
    low_uw, last_uw, last_ns = float(MACHINE.idle_total_uw), 0.0, int(record.series.time_ns[0])
    last_uw = low_uw
    for time_ns, power_uw in zip(record.series.time_ns, record.series.committed_uw, strict=True):
        gained_uw = (int(time_ns) - last_ns) * LIMITS.rise_uw_per_s / 1e9
        low_uw = min(low_uw + gained_uw, last_uw)
        assert power_uw <= low_uw + LIMITS.step_of(LIMITS.rise_uw_per_s) + 1
        low_uw, last_uw, last_ns = min(low_uw, float(power_uw)), float(power_uw), int(time_ns)
    assert (record.columns.end_ns >= 0).all()


def test_a_job_runs_longer_and_uses_less_power_while_its_caps_rise() -> None:
    plain, ramped = run(PLAIN), run(RAMPED)
    assert int((ramped.columns.end_ns - ramped.columns.start_ns).sum()) > int(
        (plain.columns.end_ns - plain.columns.start_ns).sum()
    )
    assert np.mean(ramped.columns.mean_cap_uw) < np.mean(plain.columns.mean_cap_uw)


def test_a_limit_that_never_binds_changes_nothing() -> None:
    loose = replace(RAMPED, ramp=RampLimits(rise_uw_per_s=W, step_uw=MACHINE.full_uw))
    plain, ramped = run(PLAIN), run(loose)
    assert np.array_equal(plain.columns.start_ns, ramped.columns.start_ns)
    assert np.array_equal(plain.columns.end_ns, ramped.columns.end_ns)


def test_what_a_pool_cannot_limit_is_refused() -> None:
    falls = replace(RAMPED, ramp=RampLimits(fall_uw_per_s=W))
    with pytest.raises(ValueError, match="--fall-limit needs --level messages"):
        run(falls)
    idle = replace(RAMPED, machine=replace(MACHINE, idle_uw=uw_from_w(1)))
    with pytest.raises(ValueError, match="charged with their floors"):
        run(idle)
