"""The watch over a resource manager, the texts of Slurm, and the settings of `[slurm]`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from unit.core.stage import Stage, on

from wattfold.contract.ids import JobId, NodeId
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.config.settings import Config, load
from wattfold.coordinator.adapters.config.values import ConfigError
from wattfold.coordinator.adapters.resource_manager import slurm as texts
from wattfold.coordinator.adapters.resource_manager.admission import Admission, offered_w
from wattfold.coordinator.adapters.resource_manager.comments import Commenter
from wattfold.coordinator.adapters.resource_manager.hostlist import names_in
from wattfold.coordinator.adapters.resource_manager.port import ManagerError, ManagerFacts
from wattfold.coordinator.adapters.resource_manager.watch import ManagerWatch
from wattfold.coordinator.core.model.resource_manager import (
    ManagedEnd,
    ManagedJob,
    ManagedNode,
    ManagedState,
    ManagerConfigured,
    ManagerLost,
    ManagerSeen,
)


class FakeManager:
    """A resource manager in memory."""

    name = "slurm"

    def __init__(self) -> None:
        self.jobs: dict[JobId, ManagedJob] = {}
        self.nodes: tuple[ManagedNode, ...] = ()
        self.results: dict[JobId, ManagedEnd] = {}
        self.comments: list[dict[JobId, str]] = []
        self.offers: list[int] = []
        self.fault = ""

    def _answers(self) -> None:
        if self.fault:
            raise ManagerError(self.fault)

    async def read(self) -> ManagerFacts:
        self._answers()
        return ManagerFacts(jobs=tuple(self.jobs.values()), nodes=self.nodes)

    async def ends(self, job_ids: Collection[JobId]) -> tuple[ManagedEnd, ...]:
        self._answers()
        return tuple(self.results.get(j) or ManagedEnd(job_id=j, lost=True) for j in job_ids)

    async def tell(self, comments: Mapping[JobId, str]) -> None:
        self._answers()
        self.comments.append(dict(comments))

    async def offer(self, watts: int) -> None:
        self._answers()
        self.offers.append(watts)

    def run(self, number: int, **fields: object) -> ManagedJob:
        job = ManagedJob(
            job_id=JobId(f"slurm-{number}"),
            state=ManagedState.RUNNING,
            name="a",
            user="ada",
            uid=7,
            partition="main",
            submitted="1",
            started="2",
            cores=1,
            nodes=(NodeId("n0"),),
            label=str(number),
        )
        self.jobs[job.job_id] = replace(job, **fields)  # type: ignore[arg-type]
        return self.jobs[job.job_id]


class Watched:
    """A core that follows a fake resource manager."""

    def __init__(self, budget_w: float = 1000) -> None:
        self.stage = Stage(budget_w)
        self.stage.send(ManagerConfigured(name="slurm"))
        self.stage.up("n0")
        self.manager = FakeManager()
        self.seconds = 0.0
        self.posted: list[object] = []
        state = lambda: self.stage.core.state  # noqa: E731
        self.admission = Admission(self.manager, state, lambda: self.seconds)
        self.watch = ManagerWatch(self.manager, state, self._post, 1.0, self.admission)
        self.commenter = Commenter(self.manager, state, 1.0)

    def _post(self, event: object) -> None:
        self.posted.append(event)
        self.stage.send(event)  # type: ignore[arg-type]

    def look(self) -> list[object]:
        """Ask once, and return the new events."""
        before = len(self.posted)
        asyncio.run(self.watch.look())
        return self.posted[before:]

    def seen(self, *jobs: ManagedJob, complete: bool = False, **more: object) -> ManagerSeen:
        return ManagerSeen(manager="slurm", complete=complete, jobs=jobs, **more)  # type: ignore[arg-type]


def test_first_all_jobs_then_what_changed() -> None:
    site = Watched()
    first = site.manager.run(1)
    assert site.look() == [site.seen(first, complete=True)]
    assert site.look() == []
    second = site.manager.run(2)
    assert site.look() == [site.seen(second)]
    changed = site.manager.run(2, state=ManagedState.SUSPENDED)
    assert site.look() == [site.seen(changed)]
    site.manager.nodes = (ManagedNode(node_id=NodeId("n0"), state="drained"),)
    assert site.look() == [site.seen(nodes=site.manager.nodes)]
    assert site.stage.core.state.manager.nodes == {"n0": "drained"}


def test_the_end_of_a_job_is_asked_for() -> None:
    site = Watched()
    site.manager.run(1)
    site.look()
    del site.manager.jobs[JobId("slurm-1")]
    end = ManagedEnd(job_id=JobId("slurm-1"), exit_code=4)
    site.manager.results[end.job_id] = end
    assert site.look() == [site.seen(ended=(end,))]
    assert site.stage.job("slurm-1").exit_code == 4


def test_a_gap_is_one_event_and_then_all_jobs_again() -> None:
    site = Watched()
    kept = site.manager.run(1)
    site.manager.run(2)
    site.look()
    site.manager.fault = "squeue did not answer within 10 s"
    assert site.look() == [ManagerLost(manager="slurm", reason=site.manager.fault)]
    assert site.look() == []
    del site.manager.jobs[JobId("slurm-2")]
    site.manager.fault = ""
    end = ManagedEnd(job_id=JobId("slurm-2"), lost=True)
    assert site.look() == [site.seen(kept, complete=True, ended=(end,))]
    assert site.stage.core.state.manager.reachable


def test_a_fault_between_two_questions_loses_no_end() -> None:
    site = Watched()
    site.manager.run(1)
    site.look()
    del site.manager.jobs[JobId("slurm-1")]

    async def failing(job_ids: Collection[JobId]) -> tuple[ManagedEnd, ...]:
        raise ManagerError("late")

    site.manager.ends = failing  # type: ignore[method-assign]
    assert site.look() == [ManagerLost(manager="slurm", reason="late")]
    assert not site.stage.job("slurm-1").final


def test_watts_are_offered_when_they_change_after_a_gap_and_from_time_to_time() -> None:
    site = Watched(50)
    assert offered_w(site.stage.core.state) == 30
    site.look()
    site.look()
    assert site.manager.offers == [30]
    site.stage.budget(40, deadline_s=60)
    site.look()
    assert site.manager.offers == [30, 20]
    site.manager.fault = "down"
    site.look()
    site.manager.fault = ""
    site.look()
    assert site.manager.offers == [30, 20, 20]
    site.seconds = 60.0
    site.look()
    assert site.manager.offers == [30, 20, 20, 20]


def test_comments_are_sent_when_they_change() -> None:
    site = Watched()
    site.manager.run(1)
    site.look()
    asyncio.run(site.commenter.tell())
    asyncio.run(site.commenter.tell())
    first = "cap 10 W of 50 W per node, budget 1000 W"
    assert site.manager.comments == [{JobId("slurm-1"): first}]
    site.stage.plan(on("slurm-1", "n0:0", cap_w=40))
    site.manager.fault = "down"
    asyncio.run(site.commenter.tell())
    site.manager.fault = ""
    asyncio.run(site.commenter.tell())
    assert site.manager.comments[1:] == [{JobId("slurm-1"): first.replace("10 W of", "40 W of")}]


LINE = "12|12_3|RUNNING|ada|1000|main|4|n[1-2]|100|200|1-00:00:01|None|a|b"


def test_a_line_of_squeue_is_a_job() -> None:
    (job,) = texts._facts(LINE, "").jobs
    assert (job.job_id, job.label, job.name) == ("slurm-12", "12_3", "a|b")
    assert (job.nodes, job.cores, job.cores_each) == (("n1", "n2"), 4, 2)
    assert (job.submitted, job.started, job.limit_ns) == ("100", "200", 86_401 * NS_PER_S)
    waiting = LINE.replace("RUNNING", "PENDING").replace("None", "Priority")
    (job,) = texts._facts(waiting, "").jobs
    assert (job.state, job.reason, job.nodes) == (ManagedState.PENDING, "Priority", ())


@pytest.mark.parametrize("line", ["12|x", LINE.replace("|4|", "|four|")])
def test_other_lines_of_squeue_are_errors(line: str) -> None:
    with pytest.raises(ManagerError):
        texts._facts(line, "")


def test_nodes_are_told_once_and_only_if_they_are_not_available() -> None:
    found = texts._facts("", "n1|idle\nn2|drained\nn2|drained\nn3|powered_down\nn4|mixed").nodes
    assert [(node.node_id, node.state) for node in found] == [
        ("n2", "drained"),
        ("n3", "powered_down"),
    ]


def test_ends_of_slurm() -> None:
    text = "1 COMPLETED 0\n2 FAILED 768\n3 TIMEOUT 0\n4 CANCELLED 15\n5 NODE_FAIL 0\n6 RUNNING 0"
    ends = {end.job_id: end for end in texts._ends(text)}
    assert [end.exit_code for end in ends.values()] == [0, 3, 0, 143, 0]
    assert ends[JobId("slurm-3")].timed_out
    assert ends[JobId("slurm-4")].cancelled
    assert ends[JobId("slurm-5")].lost
    assert list(texts._open_numbers(text)) == ["6"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("a", ["a"]),
        ("n[08-10],m", ["n08", "n09", "n10", "m"]),
        ("r[1-2]n[3,5]-ib", ["r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib"]),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert names_in(text) == names


@pytest.mark.parametrize("text", ["n[1", "n[x]", "n]", "n[1-9999999]"])
def test_texts_that_are_no_lists_of_nodes(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|more than"):
        names_in(text)


def test_a_comment_is_one_line_without_quotes() -> None:
    assert texts._plain('a "b" \\ c\nd') == "a b  cd"


def config(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return load(path, {})


def test_the_table_selects_the_guest_mode(tmp_path: Path) -> None:
    assert config(tmp_path, "budget_w = 100.0").slurm is None
    found = config(tmp_path, 'policy = "equipartition"\n[slurm]\npoll_s = 2').slurm
    assert found is not None
    assert (found.poll_s, found.reservation, found.licence_total) == (2.0, "wattfold", 0)
    with pytest.raises(ConfigError, match="does not choose the caps"):
        config(tmp_path, 'policy = "fifo-easy"\n[slurm]')
    with pytest.raises(ConfigError, match="is not a name"):
        config(tmp_path, '[slurm]\nreservation = "a b"')
    with pytest.raises(ConfigError, match=r"unknown setting slurm\.pol_s"):
        config(tmp_path, "[slurm]\npol_s = 1")
