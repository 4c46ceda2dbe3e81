"""A site of two emulated nodes on this machine, and jobs with their own launchers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.site.live_site import CPUS, site_plan
from system.steps.launcher_site import LauncherSite


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "system/steps" in str(item.path):
            item.add_marker(pytest.mark.system)


def site_of(folder: Path, agent: str = "") -> LauncherSite:
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    plan = replace(site_plan(nodes=2, cpu_share=1.0, agent=agent), omp_shim=None)
    return LauncherSite(plan, folder / "logs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LauncherSite]:
    """Steps go over unix sockets."""
    with site_of(tmp_path_factory.mktemp("site")) as running:
        yield running
    running.check_end()


@pytest.fixture(scope="module", params=["unix", "tcp"])
def any_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LauncherSite]:
    """Steps go over unix sockets, and over TCP as on a cluster."""
    agent = 'steps_listen = "127.0.0.1:0"\n' if request.param == "tcp" else ""
    with site_of(tmp_path_factory.mktemp("site"), agent) as running:
        yield running
    running.check_end()


@pytest.fixture(autouse=True)
def no_jobs_after(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cancel the jobs of a failed test, so that the next test has the nodes."""
    yield
    for name in ("site", "any_site"):
        if name in request.fixturenames:
            request.getfixturevalue(name).cancel_all()


@pytest.fixture
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to start jobs as another account")
