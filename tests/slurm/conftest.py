"""Fixtures of a real Slurm. Without Slurm, all tests of this folder are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wattfold.coordinator.demo.beside_slurm.cluster import SlurmCluster, missing, slurm_cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing()
    for item in items:
        if "tests/slurm" in str(item.path):
            item.add_marker(pytest.mark.system)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """One node with two CPUs."""
    with slurm_cluster() as cluster:
        yield cluster
