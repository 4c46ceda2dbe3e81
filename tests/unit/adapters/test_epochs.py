"""Epochs from telemetry to the core, through the real service."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from unit.adapters.test_learning import A, Site, sample
from unit.core.stage import S, job_spec

from wattfold.coordinator.adapters.learning.epochs import EpochReporter
from wattfold.coordinator.adapters.learning.observations import NodeSample
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.jobs.spec import JobSpec


def said(at_s: float, saved: int, seconds: float = 0.0) -> NodeSample:
    seen = sample(at_s)
    told = replace(seen.jobs[A], epochs_saved=saved, epoch_ns=round(seconds * S))
    return replace(seen, jobs={A: told})


def heard(path: Path, spec: JobSpec, *samples: NodeSample | None) -> list[tuple[int, int]]:
    """Saved epochs and epoch times in the core after each sample. None suspends the job."""

    async def go() -> list[tuple[int, int]]:
        site = Site(path, spec)
        reporter = EpochReporter(site.service)
        runner = asyncio.create_task(site.service.run())
        out = []
        try:
            await site.start()
            for one in samples:
                if one is None:
                    site.service.post(ev.JobSuspendRequested(job_id=A))
                    await site.settle()
                    reporter.take(said(50, 3, 1))
                    site.service.post(ev.JobResumeRequested(job_id=A))
                else:
                    reporter.take(one)
                await site.settle()
                job = site.core.state.jobs[A]
                out.append((job.epochs_saved, job.epochs_timed))
        finally:
            runner.cancel()
        return out

    return asyncio.run(go())


def test_each_epoch_is_told_once_and_the_first_without_its_time(tmp_path: Path) -> None:
    samples = [said(1, 2, 30), said(2, 2, 30), said(3, 3, 30), said(4, 3, 30), said(5, 4, 0)]
    found = heard(tmp_path, job_spec(epochs=9), *samples)
    assert found == [(2, 0), (2, 0), (3, 1), (3, 1), (4, 1)]


def test_the_time_of_an_epoch_in_which_the_job_stood_still_is_none(tmp_path: Path) -> None:
    samples = [said(1, 2, 30), said(2, 3, 30), None, said(70, 4, 45), said(90, 5, 30)]
    found = heard(tmp_path, job_spec(epochs=9), *samples)
    assert found == [(2, 0), (3, 1), (3, 1), (4, 1), (5, 2)]


def test_what_is_told_of_no_training_is_nothing(tmp_path: Path) -> None:
    assert heard(tmp_path, job_spec(), said(1, 2), said(2, 3, 1)) == [(0, 0), (0, 0)]
    (tmp_path / "b").mkdir()
    assert heard(tmp_path / "b", job_spec(epochs=9), said(1, -1)) == [(0, 0)]
