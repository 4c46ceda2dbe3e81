"""With many open jobs, ended jobs are still known, and a submission examines no other job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from unit.adapters.api_site import ApiSite
from unit.core.stage import job_spec

from wattfold.contract.ids import JobId
from wattfold.coordinator.adapters.journal import codec
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.replaying import replay
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.job import Job
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.v1 import coordinator_pb2 as pb

KEPT = 5
OPEN = 50


def submit(core: CoordinatorCore, name: str, now_ns: int, **fields: Any) -> None:
    core.handle(ev.JobSubmitted(job_id=JobId(name), spec=job_spec(), **fields), now_ns)


def crowded(**settings: Any) -> CoordinatorCore:
    """Ten times as many open jobs as retained ended jobs."""
    core = CoordinatorCore(1000, CoreSettings(kept_ended_jobs=KEPT, **settings))
    for number in range(OPEN):
        submit(core, f"open{number}", number)
    return core


def test_a_job_that_has_just_ended_is_known_however_many_are_open() -> None:
    core = crowded()
    for number in range(KEPT):
        submit(core, f"done{number}", 100 + number, key=f"key{number}")
        core.handle(ev.JobCancelRequested(job_id=JobId(f"done{number}")), 100 + number)
    submit(core, "last", 200)
    assert [j for j in core.state.jobs if j.startswith("done")] == [f"done{n}" for n in range(KEPT)]
    assert core.state.open_jobs == OPEN + 1


def test_the_one_that_ended_first_is_forgotten_first() -> None:
    core = crowded()
    for number in reversed(range(KEPT + 2)):
        core.handle(ev.JobCancelRequested(job_id=JobId(f"open{number}")), 100 - number)
    submit(core, "last", 200)
    assert {"open6", "open5"}.isdisjoint(core.state.jobs)
    assert {f"open{n}" for n in range(KEPT)} <= core.state.jobs.keys()


def test_it_is_the_same_after_a_restart() -> None:
    core = crowded()
    for now_ns, number in enumerate((3, 1, 2, 0, 7, 5), start=100):
        core.handle(ev.JobCancelRequested(job_id=JobId(f"open{number}")), now_ns)
    again = CoordinatorCore(1000, core.state.settings)
    again.state = codec.load_state(codec.dump_state(core.state))
    for both in (core, again):
        submit(both, "last", 200, key="k")
        submit(both, "later", 201)
    assert core.state == again.state


class CountingJobs(dict[JobId, Job]):
    """The jobs of a state, with a count of the jobs visited by iteration."""

    met = 0

    def _counted(self, found: Iterator[Any]) -> Iterator[Any]:
        for item in found:
            self.met += 1
            yield item

    def __iter__(self) -> Iterator[JobId]:
        return self._counted(super().__iter__())

    def values(self) -> Any:
        return self._counted(iter(super().values()))

    def items(self) -> Any:
        return self._counted(iter(super().items()))


@pytest.mark.parametrize("count", [10, 1000])
def test_a_submission_looks_at_no_job_but_its_own(count: int) -> None:
    core = CoordinatorCore(1000, CoreSettings(kept_ended_jobs=KEPT))
    for number in range(count):
        submit(core, f"open{number}", number)
    submit(core, "done", count)
    core.handle(ev.JobCancelRequested(job_id=JobId("done")), count)
    jobs = core.state.jobs = CountingJobs(core.state.jobs)
    met = []
    for number in range(3):
        before = jobs.met
        submit(core, f"new{number}", count + 1 + number)
        met.append(jobs.met - before)
    # The incremental check of the state restarts once per as many events as there are jobs.
    assert sorted(met)[:2] == [0, 0]


# The key of a submission, through the API.


def request(*argv: str, key: str = "k", **fields: Any) -> pb.SubmitRequest:
    return pb.SubmitRequest(spec=pb.JobSpec(argv=list(argv), **fields), idempotency_key=key)


Talk = Callable[[Any], Awaitable[None]]


def talk(path: Path, told: Talk) -> CoordinatorCore:
    """Run a conversation with the API over a socket, then replay the journal."""

    async def go() -> None:
        async with ApiSite(path) as site, asyncio.timeout(240):
            await told(site.stub)

    asyncio.run(go())
    core, journal = CoordinatorCore(1), Journal(path / "j")
    replay(journal, core)
    journal.close()
    return core


def test_a_repeated_submission_gives_the_first_job(tmp_path: Path) -> None:
    async def told(stub: Any) -> None:
        first = await stub.Submit(request("run", "x", env={"PWD": "/a"}))
        again = await stub.Submit(request("run", "x", env={"PWD": "/b"}))
        other = await stub.Submit(request("run", "x", key="other"))
        assert first.job_id == again.job_id != other.job_id

    assert len(talk(tmp_path, told).state.jobs) == 2


@pytest.mark.parametrize(
    "changed",
    [request("run", "y"), request("run", "x", size_min=2), request("run", "x", time_ns=5)],
    ids=["arguments", "size", "estimate"],
)
def test_a_key_used_again_with_another_command_is_refused(
    tmp_path: Path, changed: pb.SubmitRequest
) -> None:
    async def told(stub: Any) -> None:
        first = await stub.Submit(request("run", "x"))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Submit(changed)
        assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert first.job_id in refused.value.details()
        assert "use a new key" in refused.value.details()

    assert len(talk(tmp_path, told).state.jobs) == 1


def test_a_key_is_known_after_its_job_was_forgotten() -> None:
    core = CoordinatorCore(1000, CoreSettings(kept_ended_jobs=1))
    for number in range(4):
        submit(core, str(number), number, key=f"k{number}", fingerprint=f"f{number}")
        core.handle(ev.JobCancelRequested(job_id=JobId(str(number))), number)
    assert "0" not in core.state.jobs
    assert core.state.keys["k0"] == "0"
    assert core.state.key_prints["k0"] == "f0"
