"""Builder of the parts of a run from its description: jobs and simulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.price_holds import held_until_ns
from wattfold.simulator.engine.ramped_pool import RampedPool
from wattfold.simulator.engine.running_jobs.jobs import (
    JobTable,
    UnitColumns,
    job_table,
    on_range,
)
from wattfold.simulator.engine.sleep.sleeping_machine import SleepingMachine
from wattfold.simulator.engine.sleep.sleeping_pool import SleepingPool
from wattfold.simulator.runs.case import SimulationCase, WorkloadSource
from wattfold.simulator.runs.limits import job_limits
from wattfold.simulator.runs.schedulers import counts, machine_of, scheduler_of
from wattfold.simulator.runs.sleep import at_floors, at_rest, site_of, sleeping_nodes
from wattfold.simulator.workloads import selection
from wattfold.simulator.workloads.annotations import (
    RANGE_W,
    Annotations,
    annotate,
    read_annotations,
)
from wattfold.simulator.workloads.job_requests import JobRequest, read_requests
from wattfold.simulator.workloads.log_reader import read_log
from wattfold.simulator.workloads.odd_rows import (
    FaultKind,
    OddRowPolicy,
    OddRowReport,
    Treatment,
)
from wattfold.simulator.workloads.swf_reader import ReadLog
from wattfold.simulator.workloads.workload import Ints, Workload

WHOLE_NODES = JobRequest()
MAX_TIME_S = 4e9
MAX_NODE_S = 9e9


def workload_of(
    source: WorkloadSource, nodes: int, most: int, seed: int
) -> tuple[ReadLog, Ints, Annotations | None]:
    """Return the jobs in nodes of the machine, with the report of invalid rows.

    Also returns their processors, and the annotations of a model. ``most`` is the maximum size if
    sizes are cut. Raises WorkloadError for a log that cannot be read, ValueError for a selection
    without jobs.
    """
    annotations = None
    if source.log is not None:
        read = read_log(source.log, _odd_rows(source))
        workload = read.workload
    else:
        workload, annotations = _drawn(source, nodes, seed)
        read = ReadLog(workload=workload, report=OddRowReport())
    if source.log is not None and not len(workload):
        raise ValueError(f"{source.log}: the log has no jobs")
    if source.first or source.count is not None:
        annotations = None
        workload = selection.window(workload, source.first, source.count)
    if not len(workload):
        raise ValueError(
            f"the selection of jobs of {source.name} is empty; change --first or --count"
        )
    if source.gamma != 1.0:
        workload = selection.scaled_arrivals(workload, source.gamma)
    procs = workload.sizes
    if source.procs_per_node > 1:
        # Sizes of a model count processors; they are drawn again in nodes.
        annotations = None
        workload = selection.in_nodes(workload, source.procs_per_node)
    if source.cut_sizes:
        workload = selection.cut_sizes(workload, most)
    if source.exact_estimates:
        workload = selection.exact_estimates(workload)
    _check_range(workload)
    # Users may request any time; limits beyond all run times make no difference.
    workload = workload.changed(requested_s=np.minimum(workload.requested_s, MAX_TIME_S))
    return replace(read, workload=workload), procs, annotations


def _odd_rows(source: WorkloadSource) -> OddRowPolicy:
    """Keep runs beyond their limit while reading the log if the limit will end these jobs."""
    asked, rule = source.odd_rows, FaultKind.RUN_OVER_REQUESTED
    if not source.ends_at_limit or asked.treatment(rule) is not Treatment.REPAIR:
        return asked
    return replace(asked, exceptions={**asked.exceptions, rule: Treatment.KEEP})


def _check_range(workload: Workload) -> None:
    """Refuse times and node times that do not fit into 64-bit nanoseconds."""
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
        from wattfold.simulator.workloads.poisson import generate_poisson

        return generate_poisson(source.jobs, seed, procs=procs, load=source.load)
    # scipy loads slowly, and only this model needs it.
    from wattfold.simulator.workloads.lublin import generate_lublin

    return generate_lublin(source.jobs, seed, procs=procs), None


def jobs_of(case: SimulationCase) -> tuple[JobTable, OddRowReport]:
    """Return the job table of a run. Raises WorkloadError and ValueError."""
    source, seed = case.source, case.seed
    if source.training is not None:
        return _training_jobs(source, source.training, case.machine), OddRowReport()
    nodes, most = case.machine.nodes, source.size_most or max(case.nodes_at_full_power, 1)
    read, procs, annotations = workload_of(source, nodes, most, seed)
    workload = read.workload
    if not source.profiles:
        annotations = None
    elif source.annotations is not None:
        annotations = read_annotations(source.annotations)
    elif annotations is None:
        if not source.ends_at_limit:
            # As for jobs without profiles: a job that runs longer than requested ends at that
            # limit.
            run_s = np.minimum(workload.run_s, workload.estimates_s)
            workload = workload.changed(run_s=run_s)
        annotations = annotate(workload, seed)
    if annotations is not None:
        annotations = replace(annotations, range_w=RANGE_W)
        if source.cut_sizes:
            annotations = _cut_ranges(annotations, workload)
    table = job_table(
        workload,
        annotations,
        malleable_share=source.malleable_share,
        priorities=dict(source.priorities),
        units=_units(source, read, procs),
        ends_at_limit=source.ends_at_limit,
        queue_waits=dict(source.queue_waits),
        seed=seed,
    )
    return table, read.report


def _training_jobs(source: WorkloadSource, path: Path, machine: Machine | NodeMachine) -> JobTable:
    """Raises LogError for files, ValueError for jobs that no node can run."""
    if source.epoch_times is None or not isinstance(machine, NodeMachine):
        raise ValueError("training jobs need a table of epoch times, and nodes with GPUs")
    from wattfold.simulator.engine.trainings.training_table import training_table
    from wattfold.simulator.workloads.training_files import (
        read_epoch_times,
        read_training_jobs,
    )

    return training_table(read_training_jobs(path), read_epoch_times(source.epoch_times), machine)


def _units(source: WorkloadSource, read: ReadLog, procs: Ints) -> UnitColumns | None:
    """Return the requests of jobs to each node; None if all jobs request whole nodes.

    A file of requests overrides the log.
    """
    workload, requests = read.workload, read.requests
    if source.requests is not None:
        requests = {**requests, **read_requests(source.requests)}
    found = [requests.get(job_id, WHOLE_NODES) for job_id in workload.job_ids.tolist()]
    cores = np.array([one.cores for one in found], dtype=np.int64)
    if source.share_nodes:
        parts = (procs < source.procs_per_node) & (cores == 0)
        cores = np.where(parts, np.maximum(procs, 0), cores)
    if not cores.any() and all(one == WHOLE_NODES for one in found):
        return None
    return UnitColumns(
        cores=cores,
        memory_bytes=np.array([one.memory_bytes for one in found], dtype=np.int64),
        gpus=np.array([one.gpus for one in found], dtype=np.int64),
        features=tuple(one.features for one in found),
    )


def _cut_ranges(annotations: Annotations, workload: Workload) -> Annotations:
    """Cut minimum sizes to the maximum sizes that `--cut-sizes` leaves."""
    if len(annotations) != len(workload):
        return annotations  # `job_table` reports that they belong to other jobs
    sizes = np.minimum(annotations.size_min, workload.sizes)
    return replace(annotations, size_min=sizes)


def counted_case(case: SimulationCase, table: JobTable) -> SimulationCase:
    """Return the case on a counted pool, if its machine was given by node and counting is exact.

    Counting is exact for policies that count, if all nodes are identical and all jobs request whole
    nodes. The record is then the same and comes sooner.
    """
    machine = case.machine
    if not isinstance(machine, NodeMachine):
        if table.units is not None:
            raise ValueError("jobs that share nodes or ask for more than cores need --machine")
        return case
    counted = machine.counted
    if case.sleep is not None or counted is None or table.units is not None or not counts(case):
        return case
    return replace(case, machine=counted)


def on_machine(table: JobTable, machine: Machine | NodeMachine) -> JobTable:
    """Return the jobs with their profiles for the machine, if all nodes have one range of caps."""
    nodes = machine.classes if isinstance(machine, NodeMachine) else (machine,)
    ranges = {(one.cap_uw_min, one.cap_uw_max) for one in nodes}
    return on_range(table, *ranges.pop()) if len(ranges) == 1 else table


def simulation_of(case: SimulationCase, table: JobTable) -> PoolSimulation:
    """Return the run, ready to start.

    Raises ValueError for inconsistent jobs, machine or budget.
    """
    limits = job_limits(case, table)
    case = counted_case(case, table)
    table = on_machine(table, case.machine)
    options: dict[str, Any] = {
        "model": case.model,
        "placement": case.placement,
        "resize_costs": case.resize_costs,
        "seed": case.seed,
        "preemption": case.preemption,
        "restart_ns": case.restarts.total_ns if case.restarts else None,
        "prices": case.prices,
        "begin_ns": _held_until_ns(case, table),
        "limits": limits,
    }
    if case.ramp is not None:
        return _ramped(case, case.ramp, table, options)
    if case.sleep is None:
        scheduler = scheduler_of(case, table)
        return PoolSimulation(table, machine_of(case), scheduler, case.budget, **options)
    start_ns = int(table.submit_ns[0]) if len(table) else 0
    if isinstance(case.machine, NodeMachine) or not counts(case):
        machine = machine_of(case)
        assert isinstance(machine, NodeMachine), "its nodes have names"
        nodes = site_of(case, machine, start_ns)
        charged = at_floors(machine)
        scheduler = scheduler_of(replace(case, machine=charged), table, nodes)
        return SleepingMachine(table, charged, scheduler, case.budget, nodes=nodes, **options)
    case = at_rest(case)
    sleep, scheduler = sleeping_nodes(case, start_ns), scheduler_of(case, table)
    return SleepingPool(table, case.counted, scheduler, case.budget, sleep=sleep, **options)


def _ramped(
    case: SimulationCase, ramp: RampLimits, table: JobTable, options: dict[str, Any]
) -> RampedPool:
    if ramp.fall_uw_per_s:
        raise ValueError("--fall-limit needs --level messages; a pool limits only the rise")
    if case.sleep is not None or not counts(case):
        raise ValueError("--rise-limit is for counted nodes that do not sleep")
    scheduler = scheduler_of(case, table)
    return RampedPool(table, case.counted, scheduler, case.budget, ramp=ramp, **options)


def _held_until_ns(case: SimulationCase, table: JobTable) -> Ints | None:
    if case.prices is None or not case.price_hold_ns:
        return None
    return held_until_ns(table, case.prices.tariff.price, case.price_hold_ns)
