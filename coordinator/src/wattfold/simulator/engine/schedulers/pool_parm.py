"""PARM on a simulated pool: it converts the settings and checks that PARM can run there."""

from __future__ import annotations

from dataclasses import replace

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.policies.parm.options import DramLevels
from wattfold.coordinator.policies.parm.scheduler import ParmScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules, ResizePrice, watts_text
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable


def pool_parm(table: JobTable, machine: Machine, rules: ParmRules) -> ParmScheduler:
    """Return the scheduler, which keeps the times of its decisions.

    Raises ValueError for jobs without profiles, and for caps outside the range of the nodes.
    """
    if len(table) and not table.profiles:
        raise ValueError("PARM needs the profiles of its jobs: annotate the workload")
    if rules.caps_uw is None:
        return ParmScheduler(rules, [])
    caps_uw = tuple(sorted(set(rules.caps_uw)))
    low_uw, high_uw = machine.cap_uw_min, machine.cap_uw_max
    if not (caps_uw and low_uw <= caps_uw[0] and caps_uw[-1] <= high_uw):
        raise ValueError(
            f"caps must lie within {w_from_uw(low_uw):g}..{w_from_uw(high_uw):g} W, "
            f"got {watts_text(caps_uw)}"
        )
    return ParmScheduler(replace(rules, caps_uw=caps_uw), [])


def resize_price(machine: Machine) -> ResizePrice:
    """Return the parameters of a resize on a machine."""
    return ResizePrice(memory_mb=machine.memory_mb, link_mb_per_s=machine.link_mb_per_s)


def dram_levels(machine: Machine, caps_uw: tuple[int, ...]) -> DramLevels | None:
    """Return the selectable DRAM caps; None if there are none, which keeps the default cap."""
    if not caps_uw:
        return None
    caps = tuple(sorted(set(caps_uw)))
    return DramLevels(caps_uw=caps, standing_uw=machine.dram_uw, model=DramModel())
