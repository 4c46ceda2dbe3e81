"""A real Charm++ job over several nodes, submitted by the command and checked from all sides."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from system.charm.compiled import BLOCKS as CPP_BLOCKS
from system.charm.compiled import Kind, compiled, result_of
from system.site.live_site import MARK, LiveSite, wait_until

from wattfold.v1 import coordinator_pb2 as pb

ROOT = Path(__file__).resolve().parents[3]
RODS = ROOT / "runtime_shims/examples/blocks.py"
GATED = Path(__file__).with_name("blocks.py")
BLOCKS = 16
ENDLESS = ["1000000", str(BLOCKS), "300"]
PATH = ":".join(entry for entry in sys.path if entry)


class NodesJob:
    """A job of mode map on all nodes of a site, of two cores each, that counts its objects."""

    blocks = BLOCKS

    def __init__(self, site: LiveSite, *command: str, cwd: Path | None = None) -> None:
        self.site = site
        self.most = len(site.plan.nodes)
        self.folder = cwd or site.work
        # Submitted as by a user: the test sets no servers, ports or maps.
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
        """The program's own last count of objects on its PEs."""
        lines = re.findall(
            r"(?:blocks|objects|moved(?: to| \d+)?|start \d+) \[(.*)\]$", self.text(), re.MULTILINE
        )
        return [int(count) for count in lines[-1].split(",")] if lines else []

    def nodes(self) -> tuple[list[str], list[str]]:
        """Nodes that it holds, and nodes where it is resident."""
        shares = self.site.job(self.id).shares
        return (
            [share.node_id for share in shares if share.cpus and not share.resident],
            [share.node_id for share in shares if share.resident],
        )

    def resize(self, size: int) -> None:
        self.site.wattfold("resize", self.id, str(size))

    def on(self, size: int) -> pb.Job:
        """Wait until coordinator, agents and program agree on the first ``size`` nodes."""
        all_nodes = [node.node_id for node in self.site.plan.nodes]
        wait_until(f"{size} nodes", lambda: self.nodes() == (all_nodes[:size], all_nodes[size:]))
        return self._settled(all_nodes[:size])

    def on_any(self, size: int) -> pb.Job:
        """Wait for ``size`` nodes of any choice, because the choice depends on the agents."""
        wait_until(f"{size} nodes", lambda: [*map(len, self.nodes())] == [size, self.most - size])
        return self._settled(self.nodes()[0])

    def _settled(self, held: list[str]) -> pb.Job:
        pe_map = "".join("11" if node.node_id in held else "00" for node in self.site.plan.nodes)
        wait_until("the objects", lambda: self._are_on(pe_map))
        job = wait_until(f"map {pe_map}", lambda: self._mapped(pe_map))
        self.check_counts(job)
        return job

    def check_counts(self, job: pb.Job) -> None:
        """All objects exist, some on every PE of the map and none on other PEs."""
        counts = [pe.objects for pe in job.processors]
        assert sum(counts) == self.blocks
        assert [bool(count) for count in counts] == [digit == "1" for digit in job.processor_map]

    def _are_on(self, pe_map: str) -> bool:
        """Whether the program itself finds all of its objects on the PEs of the map."""
        found = self.counted()
        used = [bool(count) for count in found] == [digit == "1" for digit in pe_map]
        return used and sum(found) == self.blocks

    def check_result(self) -> None:
        """The job has ended with the right result, wherever its objects were."""
        ended = self.site.ended(self.id)
        assert (ended.state, ended.exit_code) == (pb.JOB_STATE_COMPLETED, 0), self.text()
        found = re.search(r"^end (\d+) (\d+)$", self.text(), re.MULTILINE)
        assert found is not None
        assert int(found[2]) == self.expected(int(found[1]))

    def expected(self, steps: int) -> int:
        """Result of the program with a gate."""
        return self.blocks * sum(sum(range(2000)) + step for step in range(steps))

    def _mapped(self, pe_map: str) -> pb.Job | None:
        job = self.site.job(self.id)
        return job if job.map_applied and job.processor_map == pe_map else None


class GatedJob(NodesJob):
    """The charm4py program with a gate; it ends when its file exists."""

    def __init__(self, site: LiveSite, stop: Path) -> None:
        super().__init__(site, sys.executable, str(GATED), str(stop))


class CppJob(NodesJob):
    """The C++ example with a gate."""

    blocks = CPP_BLOCKS

    def __init__(self, site: LiveSite, stop: Path) -> None:
        built = compiled(Kind.MAP)
        super().__init__(site, "./charmrun", "./blocks", str(stop), cwd=built)

    def expected(self, steps: int) -> int:
        return result_of(steps)
