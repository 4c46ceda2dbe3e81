"""A real Charm++ program that restarts itself at the size set by the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.charm.compiled import BLOCKS, Kind, compiled, result_of
from system.site.live_site import MARK, LiveSite, site_plan, thread_masks, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.shims.charm_checkpoint import MEMORY
from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    plan = site_plan(nodes=2, policy="fifo-easy", cpu_share=0.9)
    logs = tmp_path_factory.mktemp("site") / "logs"
    compiled(Kind.REBUILD)
    with LiveSite(replace(plan, omp_shim=None), logs) as running:
        yield running
    running.check_record()
    assert not running.processes()


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


class RebuildJob:
    """`blocks` as a job of mode rebuild on one or two cores of a node, submitted by the command."""

    def __init__(self, site: LiveSite, name: str) -> None:
        self.site, self.stop, self.name = site, site.work / f"{name}.stop", name
        self.folder = compiled(Kind.REBUILD)
        command = ("./charmrun", "./blocks", str(self.stop))
        done = site.wattfold(
            *("submit", "--cores", "1-2", "--resize", "rebuild", "--app", name),
            *("--env", f"{MARK}={site.folder}", "--", *command),
            cwd=self.folder,
        )
        self.id = done.stdout.strip()
        site.running(self.id)

    def text(self) -> str:
        return (self.folder / f"wattfold-{self.id}.out").read_text()

    def counted(self) -> list[int]:
        """The program's own last count on its PEs."""
        lines = re.findall(r"^objects \[(.*)\]$", self.text(), re.MULTILINE)
        return [int(count) for count in lines[-1].split(",")] if lines else []

    def on(self, size: int) -> pb.Job:
        """Wait until coordinator, kernel and program agree on this number of cores."""
        pe_map = "1" * size + "0" * (2 - size)
        wait_until(f"{size} cores", lambda: self._cores() == size)
        job = wait_until(f"map {pe_map}", lambda: self._mapped(pe_map))
        wait_until(f"objects on {size}", lambda: len(self.counted()) == size)
        assert sum(self.counted()) == BLOCKS
        pid = self.site.pid(self.id)
        wait_until("masks", lambda: {len(m) for m in thread_masks(pid).values()} == {size})
        return job

    def _cores(self) -> int:
        return sum(len(CpuSet.parse(share.cpus)) for share in self.site.job(self.id).shares)

    def _mapped(self, pe_map: str) -> pb.Job | None:
        job = self.site.job(self.id)
        return job if job.map_applied and job.processor_map == pe_map else None

    def check_result(self) -> None:
        self.stop.touch()
        ended = self.site.ended(self.id)
        assert (ended.state, ended.exit_code) == (pb.JOB_STATE_COMPLETED, 0), self.text()
        found = re.search(r"^end (\d+) (\d+)$", self.text(), re.MULTILINE)
        assert found is not None
        assert int(found[2]) == result_of(int(found[1]))


def test_a_program_gives_a_core_back_and_takes_it_again_by_its_own_restarts(
    site: LiveSite,
) -> None:
    before = {*MEMORY.iterdir()}
    job = RebuildJob(site, "alone")
    job.on(2)
    site.wattfold("resize", job.id, "1")
    job.on(1)
    guest = site.submit(["sleep", "1000"])
    site.running(guest)
    site.client.cancel(guest)
    site.wattfold("resize", job.id, "2")
    grown = job.on(2)
    assert grown.resizes == 2
    (profile,) = site.client.list_profiles("alone").profiles
    (cost,) = profile.resize_costs
    assert cost.changes == 2
    assert 0 < cost.stalled_ns <= cost.took_ns
    assert "stalls the job for about" in site.wattfold("show", job.id).stdout
    job.check_result()
    # The files in its own folder during the restart are removed.
    assert not [path for path in {*MEMORY.iterdir()} - before if _ours(path)]


def _ours(path: Path) -> bool:
    return path.name.startswith("wattfold-rebuild-") or path.suffix == ".dat"


def test_two_programs_on_a_machine_restart_with_objects_of_their_own(site: LiveSite) -> None:
    jobs = [RebuildJob(site, "one"), RebuildJob(site, "other")]
    for size in (2, 1, 2):
        for job in jobs:
            site.wattfold("resize", job.id, str(size))
        for job in jobs:
            job.on(size)
    for job in jobs:
        job.check_result()


def test_agent_and_coordinator_killed_in_between_change_nothing(site: LiveSite) -> None:
    job = RebuildJob(site, "killed")
    job.on(2)
    index = [node.node_id for node in site.plan.nodes].index(site.job(job.id).shares[0].node_id)
    site.wattfold("resize", job.id, "1")
    site.kill_agent(index)
    site.start_agent(index)
    job.on(1)
    site.wattfold("resize", job.id, "2")
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    job.on(2)
    job.check_result()


def test_a_program_whose_charm_cannot_restart_it_is_refused_with_what_it_lacks(
    site: LiveSite,
) -> None:
    words = ("submit", "--cores", "1-2", "--resize", "rebuild", "--", "./charmrun", "./blocks")
    refused = site.wattfold(*words, cwd=compiled(Kind.MAP), check=None)
    assert refused.returncode
    told = " ".join(refused.stderr.split())
    assert "lacks set_bitmap" in told
    assert "--enable-shrinkexpand" in told
