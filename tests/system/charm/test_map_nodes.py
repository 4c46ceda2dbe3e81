"""A real Charm++ job over several nodes gives nodes back while it runs, and takes them again."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from system.charm.test_charm_balancer import STOCK, build
from system.site.live_site import MARK, LiveSite, site_plan, wait_until

from wattfold.v1 import coordinator_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]
RODS = ROOT / "runtime_shims/examples/blocks.py"
GATED = Path(__file__).with_name("blocks.py")
BLOCKS = 16
NODES = 3
RESIZES = int(os.environ.get("WATTFOLD_MAP_RESIZES", "8"))
"""More of them take about a second each."""
ENDLESS = ["1000000", str(BLOCKS), "300"]
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
    """A job of mode map on up to three nodes of two cores, which counts what is on its PEs."""

    def __init__(
        self, site: LiveSite, *command: str, blocks: int = BLOCKS, cwd: Path | None = None
    ) -> None:
        self.site, self.blocks = site, blocks
        self.most = len(site.plan.nodes)
        self.folder = cwd or site.work
        # As a user does: nothing here knows of servers, ports or maps.
        done = site.wattfold(
            *("submit", "--nodes", f"1-{self.most}", "--resize", "map"),
            *("--env", f"PYTHONPATH={PATH}", "--env", f"{MARK}={site.folder}"),
            *("--", *command),
            cwd=cwd,
        )
        self.id = done.stdout.strip()
        site.running(self.id)

    def text(self) -> str:
        return (self.folder / f"wattfold-{self.id}.out").read_text()

    def counted(self) -> list[int]:
        """What the program itself found last on its PEs."""
        lines = re.findall(
            r"(?:blocks|objects|moved(?: to| \d+)?|start \d+) \[(.*)\]$", self.text(), re.MULTILINE
        )
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
        pe_map = "11" * size + "00" * (self.most - size)
        job = wait_until(f"map {pe_map}", lambda: self._mapped(pe_map))
        counts = [pe.objects for pe in job.processors]
        assert sum(counts) == self.blocks
        assert [bool(count) for count in counts] == [digit == "1" for digit in pe_map]
        wait_until("the objects", lambda: self._are_on(pe_map))
        return job

    def _are_on(self, pe_map: str) -> bool:
        """Whether the program itself finds all of its objects on the PEs of the map."""
        found = self.counted()
        used = [bool(count) for count in found] == [digit == "1" for digit in pe_map]
        return used and sum(found) == self.blocks

    def check_result(self) -> None:
        """Of the program with a gate: it is what it comes to wherever its blocks were."""
        found = re.search(r"^end (\d+) (\d+)$", self.text(), re.MULTILINE)
        assert found is not None
        steps = range(int(found[1]))
        assert int(found[2]) == BLOCKS * sum(sum(range(2000)) + step for step in steps)

    def _mapped(self, pe_map: str) -> pb.Job | None:
        job = self.site.job(self.id)
        return job if job.map_applied and job.processor_map == pe_map else None


def test_a_node_is_given_back_used_by_another_job_and_taken_again(site: LiveSite) -> None:
    job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
    job.on(3)
    job.resize(1)
    job.on(1)
    guest = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(guest)
    assert {share.node_id for share in site.job(guest).shares} == {"n1", "n2"}
    sheet = site.wattfold("show", job.id).stdout
    assert "PEs 2 of 6: 110000" in sheet
    assert "residual on    n1, without cores of its own" in sheet
    assert site.node(1).job_ids == [guest]
    assert site.node(1).resident_job_ids == [job.id]
    assert f"residual: {job.id}" in site.wattfold("nodes").stdout
    # What is left of it there counts as residual, all of it.
    used = wait_until("residual work", lambda: site.job(job.id).residual_cpu_ns)
    assert used < site.job(job.id).cpu_ns
    refused = site.wattfold("resize", job.id, "4", check=None)
    assert refused.returncode
    job.resize(3)
    site.client.cancel(guest)
    job.on(3)
    assert "Unknown CCS handler" not in job.text()
    # From three nodes to one, and to three again: what that has cost was told and learnt.
    (cost,) = site.client.list_profiles(site.job(job.id).spec.app).profiles[0].resize_costs
    assert cost.changes == 2
    assert 0 < cost.stalled_ns <= cost.took_ns
    assert cost.moved_bytes > 0
    assert "stalls it for about" in site.wattfold("show", job.id).stdout


def test_kills_in_between_leave_objects_nodes_and_result_as_they_are(site: LiveSite) -> None:
    stop = site.work / "stop"
    job = NodesJob(site, sys.executable, str(GATED), str(stop))
    job.on(3)
    job.resize(2)
    site.kill_agent(2)
    site.start_agent(2)
    job.on(2)
    # Of the node where the map is told, before it is.
    site.kill_agent(0)
    job.resize(1)
    site.start_agent(0)
    job.on(1)
    # Of a node where it is resident: the next agent knows that it holds nothing there.
    site.kill_agent(1)
    site.start_agent(1)
    guest = site.submit(["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=2, size_max=2)
    site.running(guest)
    site.coordinator.kill()
    site.coordinator.wait()
    site.restart_coordinator()
    job.on(1)
    site.client.cancel(guest)
    job.resize(3)
    job.on(3)
    stop.touch()
    ended = site.ended(job.id)
    assert (ended.state, ended.exit_code) == (pb.JOB_STATE_COMPLETED, 0)
    job.check_result()
    wait_until("no process of it is left", lambda: not [*_named(site, GATED.name)])


@pytest.mark.timeout(60 + 20 * RESIZES)
def test_objects_are_all_there_after_any_resize(site: LiveSite) -> None:
    stop, rng = site.work / "stop-random", random.Random(13)
    job = NodesJob(site, sys.executable, str(GATED), str(stop))
    size = NODES
    for _ in range(RESIZES):
        size = rng.choice([other for other in range(1, NODES + 1) if other != size])
        job.resize(size)
        job.on(size)
    assert site.job(job.id).resizes == RESIZES
    stop.touch()
    assert site.ended(job.id).state == pb.JOB_STATE_COMPLETED
    job.check_result()


def test_a_node_lost_under_residual_processes_fails_the_job_with_its_name(site: LiveSite) -> None:
    job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
    job.on(3)
    job.resize(2)
    job.on(2)
    site.kill_agent(2)
    for pid in _of_node(site, "n2"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until("its end is on its way", lambda: site.job(job.id).state != pb.JOB_STATE_RUNNING)
    site.start_agent(2)
    ended = site.ended(job.id)
    assert ended.state in (pb.JOB_STATE_LOST, pb.JOB_STATE_FAILED)
    assert "residual processes on n2" in ended.message
    wait_until("no process of it is left", lambda: not [*_named(site, "blocks.py")])


def test_a_program_in_cpp_gives_nodes_back_and_takes_them_again(
    site: LiveSite, tmp_path: Path
) -> None:
    build(STOCK, tmp_path)
    stop = tmp_path / "stop"
    command = ("./charmrun", "./blocks", str(stop))
    job = NodesJob(site, *command, blocks=32, cwd=tmp_path)
    # It counts its objects at balancing steps, so not before the first map it is told.
    for size in (1, 2, 3, 1, 3):
        job.resize(size)
        job.on(size)
    stop.touch()
    assert site.ended(job.id).state == pb.JOB_STATE_COMPLETED


@pytest.mark.parametrize("policy", ["equipartition", "parm-wse"])
def test_a_policy_takes_a_node_for_a_newcomer_and_gives_it_back(
    policy: str, tmp_path: Path
) -> None:
    plan = replace(site_plan(nodes=2, policy=policy, cpu_share=0.9), omp_shim=None)
    with LiveSite(plan, tmp_path / "logs") as site:
        job = NodesJob(site, sys.executable, str(RODS), *ENDLESS)
        job.on(2)
        guest = site.submit(
            ["sleep", "1000"], unit=pb.SIZE_UNIT_NODES, size_min=1, size_max=1, priority=100.0
        )
        job.on(1)
        assert [share.node_id for share in site.running(guest).shares] == ["n1"]
        site.client.cancel(guest)
        job.on(2)
        site.cancel_all()
    site.check_record()


def _named(site: LiveSite, word: str) -> Iterator[int]:
    for pid in site.processes():
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                yield pid


def _of_node(site: LiveSite, node_id: str) -> Iterator[int]:
    """Processes of jobs on a node, their keepers included."""
    run_dir = os.fsencode(site.folder / node_id)
    for pid in site.processes():
        with contextlib.suppress(OSError):
            told = Path(f"/proc/{pid}/environ").read_bytes()
            if b"WATTFOLD_JOB_ID=" in told and b"SHIM_ENDPOINT=ipc://" + run_dir in told:
                yield pid
