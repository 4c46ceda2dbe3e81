"""A malleable Charm++ job shrinks for a newcomer and expands again: objects, cores, commands."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from system.site.live_site import LiveSite, thread_masks, wait_until

from wattfold.contract.cpuset import CpuSet
from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

RUN = [sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py"]
ROOT = Path(__file__).resolve().parents[3]
RODS = ROOT / "runtime_shims/examples/blocks.py"
GATED = ROOT / "tests/system/charm/gated.py"
HOT = 1 << 40
"""Heat in the rod."""
ENDLESS = ["1000000", "16", "300"]

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=1, cpu_share=0.8, coordinator="map_deadline_s = 2.0")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


class CharmJob:
    """A job of mode map on one or two cores."""

    def __init__(self, site: LiveSite, program: Path, *arguments: str, low: int = 1) -> None:
        self.site = site
        self.id = site.submit(
            [*RUN, str(program), *arguments],
            kind=pb.JOB_KIND_MALLEABLE,
            size_min=low,
            size_max=2,
            mode=common_pb2.RESIZE_MODE_MAP,
        )
        site.running(self.id)

    def text(self) -> str:
        return (self.site.work / f"wattfold-{self.id}.out").read_text()

    def counted(self) -> list[int]:
        """The program's own last count on its PEs."""
        lines = re.findall(r"(?:blocks|moved(?: to)?) \[(.*)\]$", self.text(), re.MULTILINE)
        return [int(count) for count in lines[-1].split(",")] if lines else []

    def reach(self, pe_map: str, counts: list[int]) -> pb.Job:
        """Wait until coordinator, kernel and the program agree; return the job."""
        cores = pe_map.count("1")
        wait_until(f"{cores} cores", lambda: self.held() == cores)
        wait_until("the objects", lambda: self.counted() == counts)
        wait_until("the kernel's masks", lambda: self.masks() == {cores})
        job = wait_until(f"map {pe_map} with {counts}", lambda: self._mapped(pe_map, counts))
        assert [pe.enabled for pe in job.processors] == [digit == "1" for digit in pe_map]
        return job

    def masks(self) -> set[int]:
        """Number of cores on which the kernel lets the processes of the PEs run."""
        pids = [pe.pid for pe in self.site.job(self.id).processors]
        return {len(mask) for pid in pids for mask in thread_masks(pid).values()}

    def held(self) -> int:
        return sum(len(CpuSet.parse(share.cpus)) for share in self.site.job(self.id).shares)

    def _mapped(self, pe_map: str, counts: list[int]) -> pb.Job | None:
        job = self.site.job(self.id)
        told = [pe.objects for pe in job.processors]
        applied = job.map_applied and job.processor_map == pe_map
        return job if applied and told == counts else None


def test_a_charm_job_shrinks_for_a_newcomer_and_expands_again(site: LiveSite) -> None:
    job = CharmJob(site, RODS, *ENDLESS)
    before = job.reach("11", [8, 8])
    guest = site.submit(["sleep", "1000"])
    site.running(guest)
    shrunk = job.reach("10", [16, 0])
    assert not shrunk.confined
    # The residual PE is the same process, with its CPU time and memory.
    assert [pe.pid for pe in shrunk.processors] == [pe.pid for pe in before.processors]
    assert all(pe.cpu_ns and pe.memory_bytes for pe in shrunk.processors)
    assert "PEs 1 of 2: 10" in site.wattfold("queue").stdout
    sheet = site.wattfold("show", job.id).stdout
    assert "PEs 1 of 2: 10" in sheet
    assert re.search(rf"residual +PE 1, process {shrunk.processors[1].pid}, .* of CPU time", sheet)
    explained = site.wattfold("explain", job.id).stdout
    assert "Its objects may be on 1 of its 2 PEs (10)" in explained
    assert "Residual PEs: 1" in explained
    shown = site.shown(job.id)
    assert (shown["processor_map"], shown["map_applied"]) == ("10", True)
    assert shown["processors"][1]["objects"] == 0
    site.client.cancel(guest)
    job.reach("11", [8, 8])
    assert site.job(job.id).resizes == 2
    # It was not queried before it could answer.
    assert "Unknown CCS handler" not in job.text()


def test_an_agent_killed_in_between_is_followed_by_one_that_goes_on(site: LiveSite) -> None:
    job = CharmJob(site, RODS, *ENDLESS)
    job.reach("11", [8, 8])
    site.kill_agent(0)
    guest = site.submit(["sleep", "1000"])
    site.start_agent(0)
    site.running(guest)
    job.reach("10", [16, 0])
    site.kill_agent(0)
    site.start_agent(0)
    job.reach("10", [16, 0])
    site.client.cancel(guest)
    job.reach("11", [8, 8])


def test_a_program_that_is_late_is_confined_marked_and_followed_later(site: LiveSite) -> None:
    gate = site.work / "gate"
    gate.unlink(missing_ok=True)
    job = CharmJob(site, GATED, str(gate))
    wait_until("it is up", lambda: site.job(job.id).map_applied)
    guest = site.submit(["sleep", "1000"])
    # The newcomer does not wait for it longer than the deadline.
    site.running(guest)
    wait_until("the kernel's masks", lambda: job.masks() == {1})
    late = wait_until("marked", lambda: _if_confined(site.job(job.id)))
    assert late.processor_map == "11"
    assert late.map_message == "the program has not reached its next step"
    assert [pe.objects for pe in late.processors] == [4, 4]
    sheet = site.wattfold("show", job.id).stdout
    assert "confined by its mask" in sheet
    assert "the program has not reached its next step" in sheet
    assert "PEs 2 of 2: 11, change pending" in site.wattfold("queue").stdout
    gate.touch()
    assert not job.reach("10", [8, 0]).confined
    site.client.cancel(guest)
    job.reach("11", [4, 4])
    gate.with_name("gate.end").touch()
    assert site.ended(job.id).state == pb.JOB_STATE_COMPLETED
    gate.with_name("gate.end").unlink()


def _if_confined(job: pb.Job) -> pb.Job | None:
    return job if job.confined and not job.map_applied else None


def test_the_result_is_that_of_a_run_alone_and_progress_is_told(site: LiveSite) -> None:
    steps, blocks, cells = size = (600, 8, 6000)
    job = CharmJob(site, RODS, *map(str, size))
    wait_until("it is up", lambda: site.job(job.id).map_applied)
    wait_until("progress", lambda: site.job(job.id).progress.done > 0)
    assert site.job(job.id).progress.total == steps
    guest = site.submit(["sleep", "1000"])
    wait_until("objects have moved", lambda: job.counted() == [8, 0])
    site.client.cancel(guest)
    assert site.ended(job.id).state == pb.JOB_STATE_COMPLETED
    assert result(job.text()) == (str(HOT), str(HOT), str(checksum(steps, blocks, cells)))


def result(text: str) -> tuple[str, ...]:
    (found,) = re.findall(r"^heat (\d+) of (\d+), checksum (\d+)$", text, re.MULTILINE)
    return tuple(found)


def checksum(steps: int, blocks: int, cells: int) -> int:
    """The checksum of the whole rod, computed here in one piece."""
    rod = np.zeros(blocks * cells + 2, dtype=np.int64)
    rod[1 + blocks // 2 * cells + cells // 2] = HOT
    for _ in range(steps):
        quarter = rod >> 2
        rod -= 2 * quarter
        rod[1:-1] += quarter[:-2] + quarter[2:]
        rod[[0, -1]] = 0
    return int(np.arange(blocks * cells) @ rod[1:-1]) % 1_000_000_007
