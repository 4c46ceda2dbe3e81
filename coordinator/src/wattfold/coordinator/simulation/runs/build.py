"""Makes the parts of a run from its description: jobs, scheduler, simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wattfold.contract.units import ns_from_s
from wattfold.coordinator.policies.easy import EasyScheduler
from wattfold.coordinator.policies.scheduler import Scheduler
from wattfold.coordinator.simulation.pool.engine import PoolSimulation
from wattfold.coordinator.simulation.pool.jobs import JobTable, job_table
from wattfold.coordinator.simulation.runs.case import (
    BACKFILL_POLICIES,
    SimulationCase,
    WorkloadSource,
)
from wattfold.coordinator.simulation.workloads import selection
from wattfold.coordinator.simulation.workloads.annotations import (
    Annotations,
    annotate,
    read_annotations,
)
from wattfold.coordinator.simulation.workloads.odd_rows import OddRowReport
from wattfold.coordinator.simulation.workloads.swf_reader import read_swf
from wattfold.coordinator.simulation.workloads.workload import Workload

MAX_TIME_S = 4e9
MAX_NODE_S = 9e9


def workload_of(
    source: WorkloadSource, nodes: int, most: int, seed: int
) -> tuple[Workload, Annotations | None, OddRowReport]:
    """The jobs in nodes of the machine, what a model says of them, and odd rows of the log.

    ``most`` is the size that larger ones are cut to, if they are.
    Raises WorkloadError for a log that cannot be read, ValueError for a selection without jobs.
    """
    annotations = None
    report = OddRowReport()
    if source.log is not None:
        read = read_swf(source.log, source.odd_rows)
        workload, report = read.workload, read.report
    else:
        workload, annotations = _drawn(source, nodes, seed)
    if source.first or source.count is not None:
        annotations = None
        workload = selection.window(workload, source.first, source.count)
    if not len(workload):
        raise ValueError("the selection has no jobs")
    if source.gamma != 1.0:
        workload = selection.scaled_arrivals(workload, source.gamma)
    if source.procs_per_node > 1:
        # Those of a model count processors; they are drawn anew for nodes.
        annotations = None
        workload = selection.in_nodes(workload, source.procs_per_node)
    if source.cut_sizes:
        workload = selection.cut_sizes(workload, most)
    if source.exact_estimates:
        workload = selection.exact_estimates(workload)
    _check_range(workload)
    # Users may ask for anything; beyond all runs it makes no difference.
    workload = workload.changed(requested_s=np.minimum(workload.requested_s, MAX_TIME_S))
    return workload, annotations, report


def _check_range(workload: Workload) -> None:
    """Times and node times are 64-bit nanoseconds inside: what does not fit is refused here."""
    latest_s, longest_s = float(workload.submit_s.max()), float(workload.run_s.max())
    if latest_s > MAX_TIME_S or longest_s > MAX_TIME_S:
        raise ValueError(
            f"submissions up to {latest_s:.3g} s and runs up to {longest_s:.3g} s: a simulation "
            f"goes no further than {MAX_TIME_S:.0e} s"
        )
    node_s = workload.sizes * np.maximum(workload.run_s, 0.0)
    large = np.flatnonzero(node_s > MAX_NODE_S)
    if len(large):
        raise ValueError(
            f"job {workload.job_ids[large[0]]} holds its nodes for {node_s[large[0]]:.3g} "
            f"node-seconds; a simulation counts up to {MAX_NODE_S:.3g} a job"
        )


def _drawn(source: WorkloadSource, nodes: int, seed: int) -> tuple[Workload, Annotations | None]:
    procs = nodes * source.procs_per_node
    if source.model == "poisson":
        from wattfold.coordinator.simulation.workloads.poisson import generate_poisson

        return generate_poisson(source.jobs, seed, procs=procs, load=source.load)
    # scipy takes its time to load, and only this model needs it.
    from wattfold.coordinator.simulation.workloads.lublin import generate_lublin

    return generate_lublin(source.jobs, seed, procs=procs), None


def jobs_of(case: SimulationCase) -> tuple[JobTable, OddRowReport]:
    """The job table of a run. Raises WorkloadError and ValueError."""
    source, seed = case.source, case.seed
    nodes, most = case.machine.nodes, max(case.nodes_at_full_power, 1)
    workload, annotations, report = workload_of(source, nodes, most, seed)
    if not source.profiles:
        annotations = None
    elif source.annotations is not None:
        annotations = read_annotations(source.annotations)
    elif annotations is None:
        annotations = annotate(workload, seed)
    if annotations is not None and source.cut_sizes:
        annotations = _cut_ranges(annotations, workload)
    table = job_table(
        workload,
        annotations,
        malleable_share=source.malleable_share,
        priorities=dict(source.priorities),
        seed=seed,
    )
    return table, report


def _cut_ranges(annotations: Annotations, workload: Workload) -> Annotations:
    """Least sizes no greater than what `--cut-sizes` left of the greatest."""
    if len(annotations) != len(workload):
        return annotations  # `job_table` says that they are of other jobs
    sizes = np.minimum(annotations.size_min, workload.sizes)
    return replace(annotations, size_min=sizes)


def scheduler_of(case: SimulationCase, table: JobTable) -> Scheduler:
    """The policy of a case, at work on its machine. Raises ValueError."""
    choice, machine = case.policy, case.machine
    if choice.name in BACKFILL_POLICIES:
        _check_sizes(case, table)
        return EasyScheduler(
            method=choice.name,
            cap_uw=choice.cap_uw,
            size=choice.size,
            # Under a budget that falls, jobs with profiles may run past their limits.
            kills_at_limit=case.budget.is_constant or not table.profiles,
        )
    _check_least_power(case, table)
    from wattfold.coordinator.policies.parm import Variant
    from wattfold.coordinator.simulation.pool.parm_scheduler import ParmScheduler

    return ParmScheduler(
        table,
        machine,
        variant=Variant(choice.name.removeprefix("parm-")),
        alpha=choice.alpha,
        sizes_count=choice.sizes_count,
        levels_count=choice.levels_count,
        caps_uw=choice.caps_uw,
        resize_interval_ns=ns_from_s(choice.resize_interval_s),
        gap=choice.gap,
        solver=choice.solver,
        price_resizes=choice.price_resizes,
        dram_levels_uw=choice.dram_levels_uw,
    )


def _check_sizes(case: SimulationCase, table: JobTable) -> None:
    """A job that full power can never feed would keep the queue waiting for ever."""
    machine, choice = case.machine, case.policy
    _check_idle_charge(case)
    cap_uw = machine.cap_uw_max if choice.cap_uw is None else choice.cap_uw
    each_uw = max(machine.dynamic_uw(cap_uw), 1)
    fed = min(machine.nodes, (case.budget.least_uw - machine.idle_total_uw) // each_uw)
    sizes = table.size_min if choice.size == "min" else table.size_max
    large = np.flatnonzero(sizes > fed)
    if len(large):
        raise ValueError(
            f"{len(large)} jobs ask for more than the {fed} nodes that the budget feeds at "
            f"{cap_uw / 1e6:g} W a package, the first is job {table.job_ids[large[0]]} with "
            f"{sizes[large[0]]}: cut the sizes, or use a cap or policy that runs them"
        )


def _check_idle_charge(case: SimulationCase) -> None:
    machine = case.machine
    if case.budget.least_uw <= machine.idle_total_uw:
        raise ValueError(
            f"the budget of {case.budget.least_uw / 1e6:g} W leaves nothing for jobs: "
            f"{machine.nodes} idle nodes are charged {machine.idle_total_uw / 1e6:g} W"
        )


def _check_least_power(case: SimulationCase, table: JobTable) -> None:
    """PARM starts a job at its least size and cap at the earliest; some budgets never do."""
    machine, choice = case.machine, case.policy
    _check_idle_charge(case)
    from wattfold.coordinator.policies.parm_options import spaced_caps

    spare_uw = case.budget.least_uw - machine.idle_total_uw
    ends_w = machine.cap_uw_min / 1e6, machine.cap_uw_max / 1e6
    for job, profile in enumerate(table.profiles):
        caps_uw = choice.caps_uw or spaced_caps(profile, choice.levels_count, *ends_w)
        size = int(table.size_min[job])
        least_uw = size * machine.dynamic_uw(min(caps_uw))
        if least_uw > spare_uw:
            raise ValueError(
                f"job {table.job_ids[job]} needs at least {least_uw / 1e6:.6g} W for its {size} "
                f"nodes beside the charge of idle ones, the budget leaves {spare_uw / 1e6:.6g} W: "
                "cut the sizes, or raise the budget"
            )


def simulation_of(case: SimulationCase, table: JobTable) -> PoolSimulation:
    """The run, ready to go. Raises ValueError for jobs, machine and budget that do not agree."""
    return PoolSimulation(
        table,
        case.machine,
        scheduler_of(case, table),
        case.budget,
        model=case.model,
        placement=case.placement,
        resize_costs=case.resize_costs,
        seed=case.seed,
    )
