"""Builder of the scheduler of a case, which refuses cases with jobs that can never start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wattfold.coordinator.models.forecast import USER
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.backfill.counts import AT_ONCE
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.backfill.pass_settings import PassSettings
from wattfold.coordinator.policies.description import Pool
from wattfold.coordinator.policies.port import Scheduler
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.schedulers.predicting_scheduler import PredictingScheduler
from wattfold.simulator.runs.case import SimulationCase

if TYPE_CHECKING:
    from wattfold.simulator.engine.schedulers.named_scheduler import JobsThatShare
    from wattfold.simulator.engine.sleep.site_state import SiteState


def counts(case: SimulationCase) -> bool:
    """Whether its policy decides by counting whole identical nodes."""
    return case.policy.entry.variant.pool in COUNTING


def machine_of(case: SimulationCase) -> Machine | NodeMachine:
    """Return the machine for the policy of a case, with numbered nodes if jobs share them."""
    machine = case.machine
    if counts(case) or isinstance(machine, NodeMachine):
        return machine
    if machine.torus or case.placement != "any":
        raise ValueError(f"{case.policy.name} uses named nodes, which are not placed on a network")
    return NodeMachine.of_counted(machine, int(case.policy.values().get("cores", 1)))


def scheduler_of(
    case: SimulationCase, table: JobTable, nodes: SiteState | None = None
) -> Scheduler:
    """Return the policy of a case on its machine, or on ``nodes`` that sleep. Raises ValueError."""
    _check_idle_charge(case)
    made = _made(case, table) if nodes is None else _named(case, table, nodes)
    outlasts = not _kills_at_limit(case, table)
    by_profiles = case.policy.entry.variant.pool is Pool.PARM and not isinstance(
        case.machine, NodeMachine
    )
    if not case.predict and (by_profiles or not outlasts):
        return made
    if by_profiles:
        raise ValueError(
            f"{case.policy.name} in a pool of counted nodes plans with profiles and not with "
            "the times of users; omit --predict, or describe its --machine"
        )
    method = case.predict or USER
    return PredictingScheduler(table, made, method, outlasts=outlasts)


def _made(case: SimulationCase, table: JobTable) -> Scheduler:
    if isinstance(case.machine, NodeMachine):
        return _by_node(case, table)
    pool = case.policy.entry.variant.pool
    return MAKERS[pool](case, table) if pool is not None else _named(case, table)


def _backfilling(case: SimulationCase, table: JobTable) -> Scheduler:
    choice, settings = case.policy, case.policy.chosen()
    cap_uw = case.counted.cap_uw_max if choice.cap_uw is None else choice.cap_uw
    _check_sizes(case, table, cap_uw)
    return EasyScheduler(
        method=choice.name,
        cap_uw=choice.cap_uw,
        size=settings.size,
        kills_at_limit=_kills_at_limit(case, table),
        # Under conservative backfilling, run times are exact and all promises hold.
        passes=settings.passes if isinstance(settings, PassSettings) else AT_ONCE,
    )


def _uniform(case: SimulationCase, table: JobTable) -> Scheduler:
    machine = case.counted
    from wattfold.simulator.engine.schedulers.uniform_scheduler import (
        UniformScheduler,
        uniform_cap_uw,
    )

    _check_sizes(case, table, uniform_cap_uw(machine, machine.nodes, _spare_uw(case)))
    return UniformScheduler(
        machine,
        size=case.policy.chosen().size,
        kills_at_limit=_kills_at_limit(case, table),
    )


def _parm(case: SimulationCase, table: JobTable) -> Scheduler:
    choice, machine = case.policy, case.counted
    from wattfold.coordinator.policies.parm.policy import Parm
    from wattfold.simulator.engine.schedulers.pool_parm import dram_levels, pool_parm, resize_price

    policy = choice.entry.service(choice.values())
    assert isinstance(policy, Parm), "a policy of this family"
    _check_least_power(case, table, policy.settings.levels)
    by_links = choice.price_resizes and case.restarts is None
    beyond = replace(
        policy.rules,
        caps_uw=choice.caps_uw,
        resize_price=resize_price(machine) if by_links else None,
        dram=dram_levels(machine, choice.dram_levels_uw),
    )
    return pool_parm(table, machine, beyond)


def _slowdown_driven(case: SimulationCase, table: JobTable) -> Scheduler:
    from wattfold.coordinator.policies.slowdown_driven.pool import (
        CheckedSlowdownScheduler,
        SlowdownScheduler,
    )
    from wattfold.coordinator.policies.slowdown_driven.rules import NodeSharing

    settings, cap_uw, machine = case.policy.chosen(), case.policy.cap_uw, machine_of(case)
    assert isinstance(machine, NodeMachine), "jobs share the cores of its nodes"
    _check_sizes(case, table, machine.classes[0].cap_uw_max if cap_uw is None else cap_uw)
    cores, ranks = machine.classes[0].cores, settings.ranks
    _check_ranks(ranks, cores)
    if settings.guests > 1:
        raise ValueError(
            f"{case.policy.name} with several guests of a mate needs named nodes; describe "
            "them with --machine, or leave guests at 1"
        )
    made = CheckedSlowdownScheduler if settings.check else SlowdownScheduler
    return made(
        rules=settings,
        sharing=(
            NodeSharing(lends=False, borrows=False, least=ranks),
            NodeSharing(lends=False, borrows=True, least=ranks),
            NodeSharing(lends=True, borrows=True, least=ranks),
        ),
        kind_of=sharing_kinds(case, table),
        cap_uw=cap_uw,
        kills_at_limit=_kills_at_limit(case, table),
        passes=settings.passes,
        profiles=table.profiles,
    )


def sharing_kinds(case: SimulationCase, table: JobTable) -> bytes:
    """Return how each job shares cores under slowdown-driven, drawn from the seed.

    The values are 0 for no sharing, 1 for borrowing, and 2 for borrowing and lending.
    """
    lenders, share = case.source.malleable_share, float(case.policy.chosen().moldable)
    drawn = np.random.default_rng(np.random.SeedSequence(case.seed)).random(len(table))
    lends = drawn < lenders
    rest = (drawn - lenders) / max(1 - lenders, 1e-9)
    moldable = ~lends & (rest < share)
    return (moldable + 2 * lends).astype(np.uint8).tobytes()


def _equipartition(case: SimulationCase, table: JobTable) -> Scheduler:
    from wattfold.coordinator.policies.equipartition.policy import EquipartitionScheduler

    settings, machine = case.policy.chosen(), case.counted
    least_uw = machine.cap_uw_max if settings.power == "fewer" else machine.cap_uw_min
    _check_fed(case, table.size_min, table, least_uw)
    return EquipartitionScheduler(settings)


def _by_node(case: SimulationCase, table: JobTable) -> Scheduler:
    """Return the service's policy on a machine from a file."""
    choice = case.policy
    if case.messages is not None or case.placement != "any":
        raise ValueError("--machine is for the pool, and chooses nodes without --placement")
    if choice.cap_uw is not None or choice.caps_uw is not None or choice.price_resizes:
        raise ValueError("--cap, --caps and --price-resizes are for counted pools")
    if choice.dram_levels_uw:
        raise ValueError("--dram-levels is for counted pools")
    if shares_alike(case, table):
        return _slowdown_driven(case, table)
    choice.check_unlimited("not on this --machine")
    return _named(case, table)


def shares_alike(case: SimulationCase, table: JobTable) -> bool:
    """Whether slowdown-driven has its own scheduler for this machine, as for --nodes."""
    machine, choice = case.machine, case.policy
    assert isinstance(machine, NodeMachine), "the nodes of a file"
    alike = machine.counted is not None and table.units is None
    own = choice.entry.variant.pool is Pool.SLOWDOWN_DRIVEN
    return own and alike and choice.chosen().guests == 1


def _named(case: SimulationCase, table: JobTable, nodes: SiteState | None = None) -> Scheduler:
    """Return the service's policy on named nodes, which may sleep."""
    machine, choice = machine_of(case), case.policy
    assert isinstance(machine, NodeMachine), "policies that count have schedulers of their own"
    # Counted pools do not need the modules for named nodes.
    from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler

    policy = choice.entry.service(choice.values())
    restart_ns = case.preemption.restart_ns if case.preemption is not None else 0
    make: Callable[..., NamedPolicyScheduler] = NamedPolicyScheduler
    if nodes is not None:
        from wattfold.simulator.engine.sleep.sleeping_scheduler import SleepingNodesScheduler

        make = partial(SleepingNodesScheduler, nodes=nodes)
    return make(
        table,
        machine,
        policy,
        choice.name,
        case.budget,
        restart_ns=restart_ns,
        ready=ready_of(choice.name),
        sharing=_sharing_of(case, table),
    )


def _sharing_of(case: SimulationCase, table: JobTable) -> JobsThatShare | None:
    """Return how jobs share cores; None if the policy does not share."""
    if case.policy.entry.variant.pool is not Pool.SLOWDOWN_DRIVEN:
        return None
    from wattfold.simulator.engine.schedulers.named_scheduler import JobsThatShare

    settings, machine = case.policy.chosen(), machine_of(case)
    assert isinstance(machine, NodeMachine), "jobs share the cores of its nodes"
    if settings.check:
        raise ValueError(
            f"{case.policy.name}.check needs identical nodes and jobs on whole nodes; omit it"
        )
    _check_ranks(settings.ranks, min(one.cores for one in machine.classes))
    return JobsThatShare(kinds=sharing_kinds(case, table), ranks=settings.ranks)


def _check_ranks(ranks: int, cores: int) -> None:
    if ranks > cores:
        raise ValueError(
            f"{ranks} ranks on each node of {cores} cores: every rank needs its own core"
        )


def ready_of(name: str) -> Callable[[], object] | None:
    """Return a function to call before planning: loops that are not compiled plan differently."""
    entry = registry.find(name)
    family = entry.family.name if entry is not None else ""
    if family == "andreas":
        from wattfold.coordinator.solvers.training.choice import compiled_loops

        return compiled_loops
    if family in ("constraint", "constraint-cp"):
        # Uncompiled, they would plan only the first jobs of a long queue.
        from wattfold.coordinator.solvers.lists.choice import compiled_lists

        return compiled_lists
    return None


MAKERS: dict[Pool, Callable[[SimulationCase, JobTable], Scheduler]] = {
    Pool.BACKFILL: _backfilling,
    Pool.EASY_UNIFORM: _uniform,
    Pool.PARM: _parm,
    Pool.SLOWDOWN_DRIVEN: _slowdown_driven,
    Pool.EQUIPARTITION: _equipartition,
}
COUNTING = frozenset(MAKERS) - {Pool.SLOWDOWN_DRIVEN}


def _kills_at_limit(case: SimulationCase, table: JobTable) -> bool:
    """Whether jobs end at their limits: not with profiles under a changing budget, nor asleep."""
    if case.ramp is not None and table.profiles:
        return False  # Caps below the decided caps delay a job.
    if case.sleep is not None:
        return False  # A boot delays a job, and caps fall for as long as a node falls asleep.
    return case.budget.is_constant or not table.profiles


def _spare_uw(case: SimulationCase) -> int:
    return case.budget.least_uw - case.machine.idle_total_uw


def _check_sizes(case: SimulationCase, table: JobTable, cap_uw: int) -> None:
    """Check sizes: a job that the cap can never feed would block the queue forever."""
    asks_least = case.policy.values().get("size") == "min"
    _check_fed(case, table.size_min if asks_least else table.size_max, table, cap_uw)


def _check_fed(
    case: SimulationCase, sizes: npt.NDArray[np.int64], table: JobTable, cap_uw: int
) -> None:
    machine = case.machine
    counted = machine.counted if isinstance(machine, NodeMachine) else machine
    assert counted is not None, "nodes are alike"
    each_uw = max(counted.dynamic_uw(cap_uw), 1)
    fed = min(machine.nodes, _spare_uw(case) // each_uw)
    large = np.flatnonzero(sizes > fed)
    if len(large):
        raise ValueError(
            f"{len(large)} jobs request more than the {fed} nodes that the budget can power "
            f"at {cap_uw / 1e6:g} W a package; the first is job {table.job_ids[large[0]]} "
            f"with {sizes[large[0]]}. Cut the sizes, or use a cap or policy that runs them"
        )


def _check_idle_charge(case: SimulationCase) -> None:
    machine = case.machine
    if case.budget.least_uw <= machine.idle_total_uw:
        raise ValueError(
            f"the budget of {case.budget.least_uw / 1e6:g} W leaves no power for jobs: "
            f"{machine.nodes} idle nodes are charged {machine.idle_total_uw / 1e6:g} W"
        )


def _check_least_power(case: SimulationCase, table: JobTable, levels: int) -> None:
    """Check that each job can start at PARM's minimum size and cap; some budgets never allow it."""
    machine, choice = case.counted, case.policy
    from wattfold.coordinator.policies.parm.options import spaced_caps

    spare_uw = _spare_uw(case)
    ends_w = machine.cap_uw_min / 1e6, machine.cap_uw_max / 1e6
    for job, profile in enumerate(table.profiles):
        caps_uw = choice.caps_uw or spaced_caps(profile, levels, *ends_w)
        size = int(table.size_min[job])
        least_uw = size * machine.dynamic_uw(min(caps_uw))
        if least_uw > spare_uw:
            raise ValueError(
                f"job {table.job_ids[job]} needs at least {least_uw / 1e6:.6g} W above idle "
                f"for its {size} nodes, but the budget leaves {spare_uw / 1e6:.6g} W; cut "
                "the sizes, or raise the budget"
            )
