"""Parts of a workload and changes to its scale. Every function returns a new workload.

Scaling follows PARM's evaluation if it has a rule: arrival times are multiplied by gamma, and sizes
are cut to the machine. Invalid rows are handled when a log is read, not here.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from wattfold.simulator.workloads.workload import MISSING, Workload


def submitted_between(workload: Workload, start_s: float, end_s: float) -> Workload:
    """Return jobs submitted from ``start_s`` to before ``end_s``, in seconds of the log."""
    times = workload.submit_s
    return workload.taken((times >= start_s) & (times < end_s))


def with_ids(workload: Workload, min_id: int, max_id: int) -> Workload:
    """Return jobs with IDs in a range, including both ends."""
    ids = workload.job_ids
    return workload.taken((ids >= min_id) & (ids <= max_id))


def with_sizes(workload: Workload, min_size: int, max_size: int) -> Workload:
    """Return jobs with sizes in a range, including both ends; jobs without a size are left out."""
    sizes = workload.sizes
    return workload.taken((sizes >= min_size) & (sizes <= max_size))


def with_values(workload: Workload, column: str, values: Collection[int]) -> Workload:
    """Return jobs with one of these values in an integer column, for example partitions."""
    return workload.taken(np.isin(getattr(workload, column), list(values)))


def window(workload: Workload, first: int, count: int | None) -> Workload:
    """Return ``count`` jobs from a position on, counted from zero; all if count is None.

    Raises ValueError below zero.
    """
    if first < 0 or (count is not None and count < 0):
        raise ValueError(f"a window needs first and count of at least 0, got {first} and {count}")
    end = len(workload) if count is None else first + count
    return workload.taken(np.arange(first, max(min(end, len(workload)), first), dtype=np.int64))


def from_id(workload: Workload, job_id: int) -> Workload:
    """Return the job with an ID and all later jobs. Raises ValueError if it does not exist."""
    found = np.flatnonzero(workload.job_ids == job_id)
    if not len(found):
        raise ValueError(f"no job has the id {job_id}")
    return window(workload, int(found[0]), None)


def scaled_arrivals(workload: Workload, gamma: float) -> Workload:
    """Multiply the times between arrivals by gamma; the first submission stays.

    PARM (SC14), section VII: gamma below one makes a log denser. Raises ValueError.
    """
    if not 0 <= gamma < np.inf:
        raise ValueError(f"gamma must be a number of at least 0, got {gamma}")
    if not len(workload):
        return workload
    first = workload.submit_s.min()
    return workload.changed(submit_s=first + (workload.submit_s - first) * gamma)


def cut_sizes(workload: Workload, max_size: int) -> Workload:
    """Cut sizes to a machine's; run times stay. Raises ValueError below 1."""
    if max_size < 1:
        raise ValueError(f"a machine needs at least 1 processor, got {max_size}")
    return workload.changed(
        procs=np.minimum(workload.procs, max_size),
        requested_procs=np.minimum(workload.requested_procs, max_size),
    )


def in_nodes(workload: Workload, procs_per_node: int) -> Workload:
    """Convert sizes from processors to whole nodes, rounded up. Raises ValueError below 1."""
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
    """Set every requested time to the run time of the job."""
    return workload.changed(requested_s=workload.run_s.copy())


def from_zero(workload: Workload) -> Workload:
    """Move the first submission to time zero; the header's ``UnixStartTime`` moves along."""
    if not len(workload):
        return workload
    first = float(workload.submit_s.min())
    header = workload.header
    if header.unix_start_time_s is not None:
        header = header.with_value("UnixStartTime", header.unix_start_time_s + round(first))
    return workload.changed(submit_s=workload.submit_s - first).with_header(header)
