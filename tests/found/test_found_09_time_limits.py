"""A time limit bounds the run time in the plans of every policy, and in the displayed times."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from property.core.test_standing import POLICIES
from unit.core.stage import Stage, job_spec, on
from unit.policies.snapshots import S, held, job, node, snapshot

from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.copies.job_messages import job_message
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.requests.field_checks import InvalidRequestError
from wattfold.coordinator.adapters.requests.queues import limits_in
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.requests.submissions import job_spec as taken
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.plan import JobView, Policy
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.fifo.pbs import walltime_ns
from wattfold.coordinator.policies.resources.estimates import duration_ns, estimate
from wattfold.v1 import coordinator_pb2 as pb

KIND = node("n0").spec.kind
EVERY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
PROFILE = replace(APPLICATIONS["LeanMD"], t1_s=600.0)


def whole(name: str, nodes: int, limit_s: float, time_s: float = 0.0, **fields: Any) -> JobView:
    asked = {"unit": SizeUnit.NODES, "kind": JobKind.RIGID, "limit_ns": round(limit_s * S)}
    return job(name, nodes, nodes, time_s=time_s, **{**asked, **fields})


def time_s(view: JobView) -> float:
    return duration_ns(view, (KIND,), view.spec.size_max, KIND.most_uw) / S


@EVERY
def test_a_job_with_a_short_limit_starts_beside_a_reserved_place(policy: Policy) -> None:
    """A node is idle for 50 s more, and the job needs at most 20 s of it."""
    busy = whole("busy", 1, 0, time_s=60, current=held("busy", "n0", total_s=60), started_s=0)
    wide = whole("wide", 2, 0, time_s=60, submitted_s=1)
    seen = snapshot(
        [node("n0"), node("n1")], [busy, wide, whole("short", 1, 20, submitted_s=2)], now_s=10
    )
    started = {one.job_id for one in policy.propose(seen, seen.now_ns, 5.0).assignments}
    assert ("short" in started) == (policy.name != "fifo"), "only FIFO leaves gaps"


@EVERY
def test_no_job_is_expected_to_outlast_its_limit(policy: Policy) -> None:
    """At full power, and with scarce power that would slow the job."""
    known: list[dict[str, Any]] = [{}, {"time_s": 10}, {"profile": PROFILE}]
    for fields, budget_w in product(known, (500, 45)):
        seen = snapshot([node("n0")], [whole("a", 1, 20, **fields)], budget_w=budget_w)
        plan = policy.propose(seen, seen.now_ns, 5.0)
        assert plan.assignments or budget_w < 500
        assert all(0 < given.expected_total_s <= 20 for given in plan.assignments)


def test_the_estimate_is_the_lesser_of_what_is_known_and_the_limit() -> None:
    assert time_s(whole("a", 1, 0)) == 3600, "an assumed hour"
    assert time_s(whole("a", 1, 7200)) == 7200, "as in Slurm, nothing else is known"
    assert time_s(whole("a", 1, 7200, time_s=60)) == 60
    assert time_s(whole("a", 1, 20, time_s=60)) == 20
    at_best_s = time_s(whole("a", 1, 0, profile=PROFILE))
    assert time_s(whole("a", 1, 7200, profile=PROFILE)) == at_best_s > 20
    assert time_s(whole("a", 1, 20, profile=PROFILE)) == 20
    assert time_s(replace(whole("a", 1, 20), planned_ns=60 * S)) == 20
    assert time_s(replace(whole("a", 1, 20), planned_ns=6 * S)) == 6
    assert walltime_ns(whole("a", 1, 20, time_s=60)) == 20 * S
    for fields in ({}, {"profile": PROFILE}):
        assert estimate(whole("a", 1, 20, **fields), KIND).source.endswith("time limit of 20 s")


def test_the_queue_shows_the_time_left_to_the_limit() -> None:
    """Its program reports slow progress, but the limit ends it anyway."""
    stage = Stage()
    stage.up("n0")
    stage.submit("a", job_spec(limit_ns=60 * S))
    stage.need_plan()
    stage.plan(on("a", "n0:0-3", total_s=60))
    stage.launched("n0", "a")
    stage.after(50)
    stage.send(ev.ProgressReported(job_id=stage.job("a").job_id, done=0.1))
    shown = job_message(stage.job("a"), Observations(), Clock(0), stage.now_ns)
    assert shown.remaining_s == 10


def test_the_limit_of_a_queue_bounds_too_and_estimates_above_a_limit_are_refused() -> None:
    site = TimeLimits(default_ns=0, max_ns=0)
    minute = limits_in(Queue(name="short", time_limit_ns=60 * S), site)
    asked = pb.JobSpec(argv=["x"])
    spec = taken(asked, limits=minute)
    assert time_s(replace(whole("a", 1, 0), spec=spec)) == 60
    for limit_s, words in (
        (0, "the default time limit of this queue or site"),
        (30, "its time limit"),
    ):
        asked.time_ns, asked.limit_ns = 90 * S, limit_s * S
        with pytest.raises(InvalidRequestError, match=f"{words}.*--time"):
            taken(asked, limits=minute)
