"""Random changes of the nodes of real Charm++ jobs, with agents and coordinator killed."""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.charm.nodes_job import CppJob, GatedJob, NodesJob
from system.site.live_site import LiveSite, site_plan, wait_until

NODES = 4
RESIZES = int(os.environ.get("WATTFOLD_MAP_RESIZES", "8"))
"""Number of resizes. More resizes take about two seconds each."""
SEED = 13

pytestmark = [
    pytest.mark.timeout(120 + 20 * RESIZES),
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LiveSite]:
    plan = site_plan(nodes=NODES, policy="fifo-easy", cpu_share=0.9)
    with LiveSite(replace(plan, omp_shim=None), tmp_path / "logs") as running:
        yield running
    running.check_record()
    assert not running.processes()


class Faults:
    """kill -9 at every third change: of an agent or the coordinator, before or after the order."""

    def __init__(self, site: LiveSite, rng: random.Random) -> None:
        self._site, self._rng = site, rng
        self.agents = self.coordinators = 0

    def order(self, job: NodesJob, size: int, number: int) -> None:
        """Order a size of the job, with a fault or without."""
        if number % 3 != 2:
            job.resize(size)
        elif self._rng.random() < 0.3:
            self._kill_coordinator(job, size)
        else:
            self._kill_agent(job, size)

    def _kill_coordinator(self, job: NodesJob, size: int) -> None:
        job.resize(size)
        self._site.coordinator.kill()
        self._site.coordinator.wait()
        self._site.restart_coordinator()
        self.coordinators += 1

    def _kill_agent(self, job: NodesJob, size: int) -> None:
        index, before = self._rng.randrange(NODES), self._rng.random() < 0.5
        if before:
            self._site.kill_agent(index)
        job.resize(size)
        if not before:
            self._site.kill_agent(index)
        self._site.start_agent(index)
        self.agents += 1


@pytest.mark.parametrize("kind", [GatedJob, CppJob])
def test_objects_are_all_there_after_any_resize_and_any_kill(
    site: LiveSite, tmp_path: Path, kind: type[GatedJob | CppJob]
) -> None:
    rng, stop = random.Random(SEED), tmp_path / "stop"
    job, faults = kind(site, stop), Faults(site, rng)
    size = NODES
    # The C++ program counts its objects at its first balancing step.
    wait_until("objects", lambda: sum(pe.objects for pe in site.job(job.id).processors))
    job.on(size)
    for number in range(RESIZES):
        job.check_counts(site.job(job.id))
        size = rng.choice([other for other in range(1, NODES + 1) if other != size])
        faults.order(job, size, number)
        job.on_any(size)
    assert site.job(job.id).resizes == RESIZES
    assert faults.agents + faults.coordinators == RESIZES // 3
    stop.touch()
    job.check_result()
