"""Strategies for problems that are small enough for exhaustive search."""

import numpy as np
from hypothesis import strategies as st

from wattfold.coordinator.solvers.allocator.problem import AllocationProblem, CapacityRow


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    tight_rows: bool = True,
    rows_max: int = 1,
    node_rows: bool = False,
    scales: tuple[float, ...] = (1.0,),
) -> AllocationProblem:
    """A few jobs with a few options each; job values are multiplied by random scales.

    With ``node_rows`` two rows limit the units of some jobs, as the cores of a node do.
    """
    jobs = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(0, 4), min_size=jobs, max_size=jobs))
    total = sum(counts)

    def integers(low: int, high: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        values = draw(st.lists(st.integers(low, high), min_size=total, max_size=total))
        return np.asarray(values, dtype=np.int64)

    units = integers(0, 8)
    rows = []
    if tight_rows and node_rows:
        node_of = draw(st.lists(st.integers(0, 2), min_size=jobs, max_size=jobs))
        for node in range(2):  # Jobs of the third row are on no node.
            own = np.flatnonzero(np.repeat(node_of, counts) == node)
            limit = draw(st.integers(0, 16))
            rows.append(CapacityRow(option_indices=own, coefficients=units[own], limit=limit))
    row_count = draw(st.integers(0, rows_max)) if tight_rows and total else 0
    for _ in range(row_count):
        members = sorted(draw(st.sets(st.integers(0, total - 1), min_size=1)))
        rows.append(
            CapacityRow(
                option_indices=np.asarray(members, dtype=np.int64),
                coefficients=units[members],
                limit=draw(st.integers(0, 12)),
            )
        )
    factor = draw(st.lists(st.sampled_from(scales), min_size=jobs, max_size=jobs))
    return AllocationProblem(
        job_of=np.repeat(np.arange(jobs, dtype=np.int32), counts),
        units=units,
        power_uw=integers(0, 400_000_001),
        value=integers(1, 10_000) / 16.0 * np.repeat(factor, counts),
        must_run=np.asarray(draw(st.lists(st.booleans(), min_size=jobs, max_size=jobs))),
        units_max=draw(st.integers(0, 24)),
        power_uw_max=draw(st.integers(0, 1_200_000_000)),
        rows=tuple(rows),
    )
