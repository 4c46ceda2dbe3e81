"""Core requests from telemetry to the core, through the real service."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from unit.adapters.test_learning import A, Site, sample
from unit.core.stage import job_spec

from wattfold.coordinator.adapters.journal.codec import dump_event, load_event
from wattfold.coordinator.adapters.learning.observations import NodeSample
from wattfold.coordinator.adapters.learning.wishes import INTERVAL_NS, WishReporter
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobKind

S = 1_000_000_000
GAP_S = INTERVAL_NS / S


def said(at_s: float, cores: int) -> NodeSample:
    seen = sample(at_s)
    return replace(seen, jobs={A: replace(seen.jobs[A], cores_wanted=cores)})


def heard(path: Path, kind: JobKind, *samples: NodeSample) -> list[int]:
    """Number of requested cores in the core after each sample."""

    async def go() -> list[int]:
        site = Site(path, job_spec(kind=kind))
        wishes = WishReporter(site.service)
        runner = asyncio.create_task(site.service.run())
        out = []
        try:
            await site.start()
            for one in samples:
                wishes.take(one)
                await site.settle()
                out.append(site.core.state.jobs[A].wanted)
        finally:
            runner.cancel()
        return out

    return asyncio.run(go())


def test_changes_are_told_and_repetitions_are_not(tmp_path: Path) -> None:
    samples = [said(step * GAP_S, cores) for step, cores in enumerate([0, 3, 3, 2, 0], 10)]
    assert heard(tmp_path, JobKind.EVOLVING, *samples) == [0, 3, 3, 2, 0]


def test_one_that_changes_its_mind_all_the_time_is_heard_now_and_then(tmp_path: Path) -> None:
    samples = [said(20 + GAP_S * step / 4, 1 + step % 4) for step in range(8)]
    assert heard(tmp_path, JobKind.EVOLVING, *samples) == [1, 1, 1, 1, 1, 2, 2, 2]


def test_the_wishes_of_other_jobs_are_no_events(tmp_path: Path) -> None:
    assert heard(tmp_path, JobKind.MALLEABLE, said(20, 3)) == [0]


def test_a_wish_survives_in_the_journal() -> None:
    event = ev.SizeWanted(job_id=A, size=3)
    assert load_event(*dump_event(event)) == event
    assert not isinstance(event, ev.TRANSIENT)
