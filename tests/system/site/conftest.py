"""One site for all tests of a module if they do not disturb each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from system.site.live_site import CPUS, LiveSite, built, site_plan, wait_until


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "system/site" in str(item.path):
            item.add_marker(pytest.mark.system)


@pytest.fixture(scope="module")
def start_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LiveSite]]:
    """Start sites. Each is ended, and its record checked, after the last test of the module."""
    if not built():
        pytest.skip("no example programs; run scripts/build_shims")
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    started: list[LiveSite] = []

    def start(**settings: object) -> LiveSite:
        folder = tmp_path_factory.mktemp("site")
        site = LiveSite(site_plan(**settings), folder / "logs").__enter__()  # type: ignore[arg-type]
        started.append(site)
        return site

    yield start
    for site in started:
        site.stop()
    for site in started:
        site.check_record()
        wait_until("all processes have ended", lambda site=site: not site.processes())
