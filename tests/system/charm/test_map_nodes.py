"""A real Charm++ job over several nodes gives nodes back while it runs, and takes them again."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.site.live_site import MARK, LiveSite, site_plan, wait_until

from wattfold.v1 import common_pb2
from wattfold.v1 import coordinator_pb2 as pb

RUN = [sys.executable, "-m", "wattfold.shims.charm_start", "--charm4py"]
ROOT = Path(__file__).resolve().parents[3]
RODS = ROOT / "runtime_shims/examples/blocks.py"
BLOCKS = 16
NODES = 3
PATH = ":".join(entry for entry in sys.path if entry)

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        importlib.util.find_spec("charm4py") is None,
        reason="needs charm4py: pip install 'wattfold[charm]'",
    ),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    plan = site_plan(nodes=NODES, policy="fifo-easy", cpu_share=0.9)
    logs = tmp_path_factory.mktemp("site") / "logs"
    with LiveSite(replace(plan, omp_shim=None), logs) as running:
        yield running
    running.check_record()
    assert not running.processes()


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


class NodesJob:
    """A job of mode map on one to three nodes of two cores; its program counts what is on its PEs."""

    def __init__(self, site: LiveSite, *arguments: str, program: Path = RODS) -> None:
        self.site = site
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": PATH, MARK: str(site.folder)}
        self.id = site.submit(
            [*RUN, str(program), *arguments],
            env=env,
            kind=pb.JOB_KIND_MALLEABLE,
            unit=pb.SIZE_UNIT_NODES,
            size_min=1,
            size_max=NODES,
            mode=common_pb2.RESIZE_MODE_MAP,
        )
        site.running(self.id)

    def text(self) -> str:
        return (self.site.work / f"wattfold-{self.id}.out").read_text()

    def counted(self) -> list[int]:
        """What the program itself found last on its PEs."""
        lines = re.findall(r"(?:blocks|moved(?: to)?) \[(.*)\]$", self.text(), re.MULTILINE)
        return [int(count) for count in lines[-1].split(",")] if lines else []

    def nodes(self) -> tuple[list[str], list[str]]:
        """The nodes it holds, and those where it is resident."""
        shares = self.site.job(self.id).shares
        return (
            [share.node_id for share in shares if share.cpus and not share.resident],
            [share.node_id for share in shares if share.resident],
        )

    def resize(self, size: int) -> None:
        self.site.wattfold("resize", self.id, str(size))

    def on(self, size: int) -> pb.Job:
        """Waits until it is on its first so many nodes for everybody who has a say."""
        all_nodes = [node.node_id for node in self.site.plan.nodes]
        wait_until(f"{size} nodes", lambda: self.nodes() == (all_nodes[:size], all_nodes[size:]))
        pe_map = "11" * size + "00" * (NODES - size)
        job = wait_until(f"map {pe_map}", lambda: self._mapped(pe_map))
        counts = [pe.objects for pe in job.processors]
        assert sum(counts) == BLOCKS
        assert [bool(count) for count in counts] == [digit == "1" for digit in pe_map]
        wait_until("the objects", lambda: self.counted() == counts)
        return job

    def _mapped(self, pe_map: str) -> pb.Job | None:
        job = self.site.job(self.id)
        return job if job.map_applied and job.processor_map == pe_map else None


def test_a_node_is_given_back_used_by_another_job_and_taken_again(site: LiveSite) -> None:
    job = NodesJob(site, "1000000", str(BLOCKS), "300")
    job.on(3)
    job.resize(1)
    job.on(1)
    guest = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(guest)
    assert {share.node_id for share in site.job(guest).shares} == {"n1", "n2"}
    print(site.wattfold("show", job.id).stdout, site.wattfold("nodes").stdout)
    job.resize(3)
    site.client.cancel(guest)
    job.on(3)
