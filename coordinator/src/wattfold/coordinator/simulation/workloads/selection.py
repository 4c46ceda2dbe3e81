"""Parts of a workload and changes to its scale. Every function returns a new workload.

Scaling follows PARM's evaluation where it has a rule: arrival times times gamma, sizes cut to the
machine. Odd rows are no matter here; they are treated when a log is read.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from wattfold.coordinator.simulation.workloads.workload import MISSING, Workload


def submitted_between(workload: Workload, start_s: float, end_s: float) -> Workload:
    """Jobs submitted from ``start_s`` up to and without ``end_s``, in seconds of the log."""
    times = workload.submit_s
    return workload.taken((times >= start_s) & (times < end_s))


def with_ids(workload: Workload, least: int, greatest: int) -> Workload:
    """Jobs whose ids lie in a range, both ends included."""
    ids = workload.job_ids
    return workload.taken((ids >= least) & (ids <= greatest))


def with_sizes(workload: Workload, least: int, greatest: int) -> Workload:
    """Jobs whose size lies in a range, both ends included. Jobs without a size have none."""
    sizes = workload.sizes
    return workload.taken((sizes >= least) & (sizes <= greatest))


def with_values(workload: Workload, column: str, values: Collection[int]) -> Workload:
    """Jobs whose value in an integer column is one of those given, for example of partitions."""
    return workload.taken(np.isin(getattr(workload, column), list(values)))


def window(workload: Workload, first: int, count: int | None) -> Workload:
    """So many jobs from a position on, counted from zero; all where count is None.

    Raises ValueError below zero.
    """
    if first < 0 or (count is not None and count < 0):
        raise ValueError(f"a window needs first and count of at least 0, got {first} and {count}")
    end = len(workload) if count is None else first + count
    return workload.taken(np.arange(first, max(min(end, len(workload)), first), dtype=np.int64))


def from_id(workload: Workload, job_id: int) -> Workload:
    """The job of an id and all that follow it. Raises ValueError where there is none."""
    found = np.flatnonzero(workload.job_ids == job_id)
    if not len(found):
        raise ValueError(f"no job has the id {job_id}")
    return window(workload, int(found[0]), None)


def scaled_arrivals(workload: Workload, gamma: float) -> Workload:
    """Times between arrivals times gamma; the first submission stays. Raises ValueError.

    PARM (SC14), section VII: gamma below one makes a log denser.
    """
    if not 0 <= gamma < np.inf:
        raise ValueError(f"gamma must be a number of at least 0, got {gamma}")
    if not len(workload):
        return workload
    first = workload.submit_s.min()
    return workload.changed(submit_s=first + (workload.submit_s - first) * gamma)


def cut_sizes(workload: Workload, greatest: int) -> Workload:
    """Sizes above a machine's cut to it; run times stay. Raises ValueError below 1."""
    if greatest < 1:
        raise ValueError(f"a machine needs at least 1 processor, got {greatest}")
    return workload.changed(
        procs=np.minimum(workload.procs, greatest),
        requested_procs=np.minimum(workload.requested_procs, greatest),
    )


def in_nodes(workload: Workload, procs_per_node: int) -> Workload:
    """Sizes in whole nodes instead of processors, rounded up. Raises ValueError below 1."""
    if procs_per_node < 1:
        raise ValueError(f"a node needs at least 1 processor, got {procs_per_node}")

    def nodes(sizes: np.ndarray) -> np.ndarray:
        return np.where(sizes > 0, -(-sizes // procs_per_node), MISSING)

    changed = workload.changed(
        procs=nodes(workload.procs), requested_procs=nodes(workload.requested_procs)
    )
    header = workload.header
    if header.max_procs is not None:
        header = header.with_value("MaxProcs", -(-header.max_procs // procs_per_node))
    return changed.with_header(header)


def exact_estimates(workload: Workload) -> Workload:
    """Every user asks for exactly the time the job runs."""
    return workload.changed(requested_s=workload.run_s.copy())


def from_zero(workload: Workload) -> Workload:
    """The first submission at time zero; the header's ``UnixStartTime`` moves along."""
    if not len(workload):
        return workload
    first = float(workload.submit_s.min())
    header = workload.header
    if header.unix_start_time_s is not None:
        header = header.with_value("UnixStartTime", header.unix_start_time_s + round(first))
    return workload.changed(submit_s=workload.submit_s - first).with_header(header)
