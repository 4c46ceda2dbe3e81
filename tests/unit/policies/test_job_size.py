"""Sizes of jobs on whole nodes within the budget, against a search through all sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from unit.policies.snapshots import W, job, node, snapshot

from wattfold.coordinator.core.power.charge import cores_uw
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.coordinator.policies.backfill.job_size import size_key, size_of
from wattfold.coordinator.policies.driver.site_view import site_of

NODES = st.lists(
    st.tuples(st.integers(1, 6), st.integers(16, 30), st.integers(31, 60)), min_size=1, max_size=6
)


@given(nodes=NODES, least=st.integers(1, 6), more=st.integers(0, 6), spare_w=st.integers(0, 250))
def test_the_largest_number_of_nodes_that_the_budget_feeds(
    nodes: list[tuple[int, int, int]], least: int, more: int, spare_w: int
) -> None:
    views = [
        node(f"n{i}", cores, floor_w=low_w, max_w=high_w)
        for i, (cores, low_w, high_w) in enumerate(nodes)
    ]
    fixed_w = sum(view.fixed_uw for view in views) / W
    view = job("a", least, least + more, unit=SizeUnit.NODES)
    site = site_of(snapshot(views, [view], budget_w=fixed_w + spare_w))
    cap_uw = 45 * W
    each_uw = sorted(cores_uw(one.spec, len(one.spec.cpus), cap_uw) for one in views)
    able = [
        size
        for size in range(least, min(least + more, len(views)) + 1)
        # The least size is a matter of the queue: it waits for power.
        if size == least or sum(each_uw[:size]) <= site.spendable_uw
    ]
    assert size_of(view, site, "max", cap_uw) == max(able, default=0)
    assert size_of(view, site, "min", cap_uw) == min(able, default=0)


def test_jobs_with_another_request_have_another_key() -> None:
    fields = {"unit": SizeUnit.NODES}
    plain = size_key(job("a", 1, 4, **fields), 45 * W)
    assert size_key(job("b", 1, 4, time_s=60, **fields), 45 * W) == plain
    others = [
        size_key(job("a", 1, 4, **fields), 40 * W),
        size_key(job("a", 1, 3, **fields), 45 * W),
        size_key(job("a", 2, 4, **fields), 45 * W),
        size_key(job("a", 1, 4), 45 * W),
        *(
            size_key(job("a", 1, 4, **fields, **request), 45 * W)
            for request in ({"memory_bytes": 5}, {"gpus": 1}, {"features": ("x",)})
        ),
    ]
    assert plain not in others
    assert len(set(others)) == len(others)
