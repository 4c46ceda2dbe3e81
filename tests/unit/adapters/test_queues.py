"""Queues at submission: named queues, the default queue, and the jobs they accept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.adapters.test_config import complaint, read
from unit.core.stage import Stage, job_spec

from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.queues import (
    limits_in,
    queue_messages,
    queue_of,
    queued,
)
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.rules.snapshot import snapshot
from wattfold.coordinator.models.pass_model import SizeUnit
from wattfold.v1 import coordinator_pb2 as pb

S = 1_000_000_000
SHORT = Queue(
    name="short", priority=4.0, time_limit_ns=60 * S, time_limit_max_ns=90 * S, cores_max=8
)
BOTH = {"default": Queue(name="default"), "short": SHORT}


def test_which_queue_a_job_is_for() -> None:
    assert queue_of("", {}) is None
    assert queue_of("", {"short": SHORT}) is None
    assert queue_of("", BOTH) == Queue(name="default")
    assert queue_of("short", BOTH) is SHORT
    with pytest.raises(InvalidRequestError, match=r"^no queue 'x'; there are: default, short$"):
        queue_of("x", BOTH)
    with pytest.raises(InvalidRequestError, match=r"^no queue 'x'; this site has no queues$"):
        queue_of("x", {})


@pytest.mark.parametrize(
    ("site", "default_s", "max_s"),
    [((0, 0), 60, 90), ((5, 50), 50, 50), ((5, 100), 60, 90)],
)
def test_the_narrower_time_limit_counts(site: tuple[int, int], default_s: int, max_s: int) -> None:
    limits = TimeLimits(default_ns=site[0] * S, max_ns=site[1] * S)
    narrowed = TimeLimits(default_ns=default_s * S, max_ns=max_s * S)
    assert limits_in(SHORT, limits) == narrowed
    assert limits_in(None, limits) == limits
    assert limits_in(Queue(name="any"), limits) == limits


def test_a_job_is_taken_in_with_the_priority_of_its_queue() -> None:
    taken = queued(job_spec(1, 8, priority=2.0), SHORT)
    assert (taken.queue, taken.priority) == ("short", 8.0)
    assert queued(job_spec(1, 8), None) == job_spec(1, 8)


def test_a_job_that_is_too_large() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        queued(job_spec(1, 9), SHORT)
    assert str(caught.value) == "the job requests up to 9 cores; queue short allows at most 8 cores"
    assert queued(job_spec(9, 9, unit=SizeUnit.NODES), SHORT).queue == "short"
    with pytest.raises(InvalidRequestError, match="queue short allows at most 2 nodes"):
        queued(job_spec(3, 3, unit=SizeUnit.NODES), replace(SHORT, nodes_max=2))


def test_queues_are_in_the_state_and_in_snapshots_and_come_back() -> None:
    stage = Stage()
    stage.up("n0")
    stage.send(ev.QueuesConfigured(queues=tuple(BOTH.values())))
    stage.submit("a", job_spec(queue="short", kind=JobKind.RIGID, high=1))
    assert snapshot(stage.core.state, 0).queues == tuple(BOTH.values())
    told = {queue.name: queue for queue in queue_messages(stage.core.state)}
    assert (told["short"].jobs_waiting, told["default"].jobs_waiting) == (1, 0)
    assert told["short"].time_limit_ns_max == 90 * S
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.queues == BOTH
    stage.send(ev.QueuesConfigured(queues=()))
    assert stage.core.state.queues == {}


def test_queues_of_the_configuration(tmp_path: Path) -> None:
    text = """
        [[queue]]
        name = "default"
        [[queue]]
        name = "short"
        priority = 4
        time_limit_s = 60
        time_limit_max_s = 90
        cores_max = 8
        """
    assert read(tmp_path, text).queues == tuple(BOTH.values())


def test_a_queue_says_what_its_jobs_share_that_do_not_say_it(tmp_path: Path) -> None:
    text = "[[queue]]\nname = 'a'\nshare = 'both'\nsharing_factor = 0.25\nmax_slowdown = 0\n"
    text += "[[queue]]\nname = 'b'"
    one, other = read(tmp_path, text).queues
    assert (one.sharing, one.sharing_factor, one.max_slowdown) == (CoreSharing.BOTH, 0.25, 0.0)
    assert (other.sharing, other.sharing_factor) == (CoreSharing.AS_KIND, None)
    nodes = job_spec(2, 2, unit=SizeUnit.NODES)
    assert queued(nodes, one).lends
    assert queued(nodes, one).borrows
    assert not queued(nodes, one).alone
    assert queued(nodes, other).alone
    assert queued(replace(nodes, sharing=CoreSharing.NO), one).alone
    assert queued(replace(nodes, kind=JobKind.RIGID), one).alone, "of no effect"
    stage = Stage()
    stage.send(ev.QueuesConfigured(queues=(one, other)))
    told = [queue.sharing for queue in queue_messages(stage.core.state)]
    assert told == [pb.CORE_SHARING_BOTH, pb.CORE_SHARING_UNSPECIFIED]
    loaded = codec.load_state(codec.dump_state(stage.core.state))
    assert loaded.queues == {"a": one, "b": other}


def test_queues_that_pre_empt_others(tmp_path: Path) -> None:
    text = "[[queue]]\nname = 'a'\npreempts = ['b', 'c', 'b']\n[[queue]]\nname = 'b'\n"
    text += "preempts = ['c']\n[[queue]]\nname = 'c'"
    queues = read(tmp_path, text).queues
    assert [queue.preempts for queue in queues] == [("b", "c"), ("c",), ()]
    stage = Stage()
    stage.send(ev.QueuesConfigured(queues=queues))
    told = [list(queue.preempts) for queue in queue_messages(stage.core.state)]
    assert told == [["b", "c"], ["c"], []]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[queue]]\npriority = 2", "line 1: queue '' needs a valid, unique name"),
        (
            "[[queue]]\nname = 'a'\n[[queue]]\nname = 'a'",
            "line 4: queue 'a' needs a valid, unique name",
        ),
        ("[[queue]]\nname = 'a'\npriorty = 2", "did you mean queue.priority?"),
        ("[[queue]]\nname = 'a'\npriority = 0", "queue.priority = 0 is outside"),
        ("[[queue]]\nname = 'a'\nshare = 'some'", "choose one of no, lend, borrow, both"),
        ("[[queue]]\nname = 'a'\nsharing_factor = 2", "queue.sharing_factor = 2 is outside"),
        (
            "[[queue]]\nname = 'a'\ntime_limit_s = 9\ntime_limit_max_s = 3",
            "time_limit_s = 9 s is above time_limit_max_s = 3 s",
        ),
        ("[[queue]]\nname = 'a'\npreempts = 'b'", "queue.preempts = 'b' is not a list"),
        ("[[queue]]\nname = 'a'\npreempts = [1]", "preempts = [1] must be a list of names"),
        (
            "[[queue]]\nname = 'a'\npreempts = ['x']",
            "line 3: queue a preempts 'x', which does not exist",
        ),
        ("[[queue]]\nname = 'a'\npreempts = ['a']", "queue a preempts itself, directly"),
        (
            "[[queue]]\nname = 'a'\npreempts = ['b']\n[[queue]]\nname = 'b'\npreempts = ['a']",
            "queue a preempts itself, directly or through other queues",
        ),
    ],
)
def test_mistakes_in_queues_are_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in complaint(tmp_path, text)


def test_jobs_and_queues_of_older_journals_share_as_they_did() -> None:
    stage = Stage()
    stage.up("n0")
    stage.send(ev.QueuesConfigured(queues=(SHORT,)))
    stage.submit("a", job_spec(unit=SizeUnit.NODES))
    stage.submit("b", job_spec())
    text = codec.dump_state(stage.core.state)
    for new in ('"sharing":"as-kind"', '"sharing_factor":null', '"max_slowdown":null'):
        for written in (new, new.replace(":", ": ")):
            text = text.replace(f", {written}", "").replace(f",{written}", "")
    assert "sharing" not in text
    loaded = codec.load_state(text)
    assert loaded.jobs == stage.core.state.jobs
    assert [job.spec.alone for job in loaded.jobs.values()] == [True, False]
    assert loaded.jobs[JobId("b")].spec.lends
    assert loaded.queues == {"short": SHORT}


def test_the_jobs_of_a_queue_use_its_nodes_only() -> None:
    queue = Queue(name="fat", nodes=(NodeId("n0"), NodeId("n1")))
    assert queued(job_spec(), queue).among == ("n0", "n1")
    assert queued(job_spec(among=(NodeId("n1"),)), queue).among == ("n1",)
    with pytest.raises(InvalidRequestError, match=r"^node n2 is not in queue fat; `wattfold que"):
        queued(job_spec(among=(NodeId("n1"), NodeId("n2"))), queue)


def test_the_nodes_of_a_queue_are_nodes_of_the_site(tmp_path: Path) -> None:
    node = '[[node]]\nid = "n0"\naddress = "h:1"\n'
    queue = '[[queue]]\nname = "fat"\nnodes = ["n0"]\n'
    assert read(tmp_path, node + queue).queues[0].nodes == ("n0",)
    told = complaint(tmp_path, node + queue.replace("n0", "n7"))
    assert told.endswith("queue fat has node 'n7', which is not among the [[node]] tables")
    assert "must be a list of node names" in complaint(tmp_path, queue.replace('"n0"', "3"))
