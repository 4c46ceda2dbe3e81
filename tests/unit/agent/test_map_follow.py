"""The follow task of a Charm++ job whose program is late, refuses, restarts or is not running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.processor_map import MapOrder, MapRefusedError
from wattfold.nodeagent.core.errors import InvalidRequest
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.charm_program import MapWay, NotUpError, Processor, Seen
from wattfold.nodeagent.service.jobs.followers import NOBODY, Reaction
from wattfold.nodeagent.service.jobs.job_maps import checked_map, fitting_map
from wattfold.nodeagent.service.jobs.map_follow import MESSAGE_MAX, FollowPace, MapFollow
from wattfold.nodeagent.service.jobs.records import Job, JobState, from_record, to_record

LONG_S = 240.0
FAST = FollowPace(
    least=0.0005,
    waited_for=0.002,
    soon=0.002,
    late=0.002,
    settled=0.002,
    answer=LONG_S,
    restart=0.01,
    again=0.02,
    first_map=0.02,
)


class FakeProgram:
    """Program of four PEs with twelve objects. It takes a map at ``step``."""

    def __init__(self, pes: int = 4) -> None:
        self.up = True
        self.steps = True
        self.refuses = ""
        self.stuck = 0
        self.way = MapWay.MAP
        self.pes = pes
        self.orders: list[MapOrder] = []
        self.resizes: list[int] = []
        self.closed = False
        self.seen = Seen(way=MapWay.MAP, pes=(1,) * pes, map=b"\1" * pes, objects=(3,) * pes)
        self.looks = 0

    def ready(self) -> bool:
        return self.up

    async def look(self) -> Seen:
        await asyncio.sleep(0)
        self.looks += 1
        if not self.up:
            raise NotUpError("nobody listens")
        if self.way is MapWay.RESTART:
            return Seen(way=self.way, pes=(1,) * self.pes, map=b"\1" * self.pes)
        if self.steps and self.orders and self.seen.in_force != self.orders[-1].id:
            self.step()
        return self.seen

    def step(self) -> None:
        order = self.orders[-1]
        count = (12 - self.stuck) // sum(order.map)
        objects = [count if use else 0 for use in order.map]
        if self.stuck:
            objects[-1] += self.stuck
        self.seen = replace(
            self.seen, in_force=order.id, map=order.map, objects=tuple(objects), wanted=order.id
        )

    async def order(self, order: MapOrder) -> None:
        if self.refuses:
            raise MapRefusedError(self.refuses)
        self.orders.append(order)
        self.seen = replace(self.seen, wanted=order.id)

    def resize(self, current: int, wanted: int) -> None:
        assert current == self.pes
        self.resizes.append(wanted)

    def processors(self, seen: Seen) -> tuple[tuple[Processor, ...], int]:
        objects = seen.objects or (None,) * len(seen.map)
        found = zip(seen.map, objects, strict=True)
        return tuple(
            Processor(pe=pe, enabled=bool(use), objects=count, process=None)
            for pe, (use, count) in enumerate(found)
        ), 0

    def close(self) -> None:
        self.closed = True


class Shims:
    def __init__(self) -> None:
        self.told: list[CpuSet] = []

    async def tell(self, job: Job, deadline_s: float) -> Reaction:
        assert deadline_s == 0
        self.told.append(job.cpus)
        return NOBODY


class Stand:
    """A job of up to four cores with a program, and the recorded notifications."""

    def __init__(
        self, cores: int = 4, program: FakeProgram | None = None, pace: FollowPace = FAST
    ) -> None:
        self.program = program or FakeProgram()
        self.shims = Shims()
        self.news = asyncio.Event()
        self.job = a_job(cores)
        self.follow = MapFollow(lambda _: self.program, lambda _: self.news.set(), self.shims, pace)

    def begin(self) -> None:
        self.follow.begin(self.job)

    async def tell(self, digits: str, deadline_s: float = LONG_S) -> Reaction:
        """Notify the task as a change of the mask does."""
        self.job.wanted_map = bytes(int(digit) for digit in digits)
        self.job.cpus = CpuSet.of(range(digits.count("1")))
        told = await self.follow.tell(self.job, deadline_s)
        self.job.confined = not told.acknowledged
        return told

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(LONG_S):
            while not condition():
                self.news.clear()
                if not condition():
                    await self.news.wait()

    @property
    def state(self) -> tuple[str, bool, bool]:
        """The map in force, whether it is the target map, and whether the job is confined."""
        now = self.job.placement
        return "".join(map(str, now.map)), now.applied, self.job.confined


def a_job(cores: int, mode: ResizeMode = ResizeMode.MAP) -> Job:
    cpus = CpuSet.of(range(cores))
    return Job(
        id=JobId("j"), state=JobState.RUNNING, cpus=cpus, held=cpus, mode=mode, launch_cpus=4
    )


def acting(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in an event loop, with a time limit."""

    def run() -> None:
        async def limited() -> None:
            async with asyncio.timeout(LONG_S):
                await test()

        asyncio.run(limited())

    run.__name__ = test.__name__
    return run


@acting
async def test_a_map_that_holds_anyway_is_not_sent() -> None:
    stand = Stand()
    stand.begin()
    await stand.until(lambda: stand.job.placement.applied)
    assert stand.state == ("1111", True, False)
    assert stand.program.orders == []
    stand.follow.stop()


@acting
async def test_a_job_launched_small_gets_its_map_when_it_is_up() -> None:
    stand = Stand(cores=2)
    stand.program.up = False
    stand.begin()
    await stand.until(lambda: stand.job.placement.message)
    assert stand.job.placement.message == "nobody listens"
    assert not stand.job.placement.up
    assert not stand.job.confined
    stand.program.up = True
    await stand.until(lambda: stand.job.placement.applied)
    assert stand.state == ("1100", True, False)
    assert [p.objects for p in stand.job.placement.processors] == [6, 6, 0, 0]
    stand.follow.stop()


@acting
async def test_shrink_and_grow_are_acknowledged_when_the_objects_are_there() -> None:
    stand = Stand()
    stand.begin()
    for digits in ("1000", "1110", "1111", "1100"):
        told = await stand.tell(digits)
        assert told.attached
        assert told.acknowledged
        assert told.took_ns > 0
        assert stand.state == (digits, True, False)
    assert stand.shims.told == [CpuSet.of(range(n)) for n in (1, 3, 4, 2)]
    stand.follow.stop()


@acting
async def test_what_a_new_map_has_cost_is_told_and_else_how_long_it_took() -> None:
    stand = Stand()
    stand.begin()
    told = await stand.tell("1100")
    assert (told.stalled_ns, told.moved_bytes) == (told.took_ns, -1)
    stand.program.seen = replace(stand.program.seen, stalled_ns=77, moved_bytes=4096)
    told = await stand.tell("1111")
    assert (told.stalled_ns, told.moved_bytes) == (77, 4096)
    # Other cores, but the same number: the map stays.
    told = await stand.tell("1111")
    assert told.acknowledged
    assert (told.stalled_ns, told.moved_bytes) == (-1, -1)
    stand.follow.stop()


@acting
async def test_a_map_that_came_late_is_told_of_when_it_is_asked_for_again() -> None:
    stand = Stand()
    stand.program.steps = False
    stand.begin()
    told = await stand.tell("1100", deadline_s=0.02)
    assert (told.acknowledged, told.stalled_ns) == (False, -1)
    stand.program.seen = replace(stand.program.seen, stalled_ns=77, moved_bytes=4096)
    stand.program.steps = True
    told = await stand.tell("1100")
    assert (told.acknowledged, told.stalled_ns, told.moved_bytes) == (True, 77, 4096)
    assert told.took_ns >= 20_000_000, "since the order, not since it was asked for again"
    stand.follow.stop()


@acting
async def test_a_program_that_is_not_up_is_not_waited_for_and_followed_later() -> None:
    stand = Stand()
    stand.program.up = False
    stand.begin()
    assert await stand.tell("1000") == NOBODY
    stand.program.up = True
    await stand.until(lambda: stand.state == ("1000", True, False))
    stand.follow.stop()


@acting
async def test_a_late_program_is_confined_until_it_follows_and_is_told_once() -> None:
    stand = Stand()
    stand.program.steps = False
    stand.begin()
    told = await stand.tell("1100", deadline_s=0.05)
    assert told.attached
    assert not told.acknowledged
    assert stand.state == ("1111", False, True)
    assert stand.job.placement.message == "the program has not reached its next step"
    assert len(stand.program.orders) == 1
    stand.program.steps = True
    await stand.until(lambda: stand.state == ("1100", True, False))
    assert stand.job.placement.message == ""
    assert len(stand.program.orders) == 1
    stand.follow.stop()


@acting
async def test_only_the_map_wanted_last_counts() -> None:
    stand = Stand()
    stand.program.steps = False
    stand.begin()
    for digits in ("1100", "1000", "1111"):
        await stand.tell(digits, deadline_s=0.02)
    stand.program.steps = True
    # Full again, as at the start, but another order was in flight in between.
    await stand.until(lambda: stand.state == ("1111", True, False))
    assert stand.program.orders[-1].map == b"\1\1\1\1"
    stand.follow.stop()


@acting
async def test_a_refusal_ends_the_wait_at_once_and_is_told() -> None:
    stand = Stand()
    stand.program.refuses = "busy with something else"
    stand.begin()
    told = await stand.tell("1100")
    assert not told.acknowledged
    assert stand.job.confined
    assert stand.job.placement.message == "the program rejects the map: busy with something else"
    stand.program.refuses = ""
    await stand.until(lambda: stand.state == ("1100", True, False))
    stand.follow.stop()


@acting
async def test_a_program_cannot_fill_the_telemetry() -> None:
    stand = Stand(program=FakeProgram(pes=60_000))
    stand.begin()
    await stand.until(lambda: stand.job.placement.message)
    assert stand.job.placement.map == b""
    assert stand.job.placement.processors == ()
    stand.follow.stop()
    stand = Stand()
    stand.program.refuses = "\x1b[31m" + "x" * 10**6
    stand.begin()
    await stand.tell("1100")
    assert len(stand.job.placement.message) <= MESSAGE_MAX + 3
    assert stand.job.placement.message.isprintable()
    stand.follow.stop()


@acting
async def test_a_program_with_other_pes_is_named_confined_and_never_told() -> None:
    stand = Stand(program=FakeProgram(pes=3))
    stand.begin()
    told = await stand.tell("1100")
    assert told.attached
    assert not told.acknowledged
    assert stand.job.confined
    expected = "the program has 3 PEs; it must be started with 4"
    assert stand.job.placement.message == expected
    assert stand.program.orders == []
    stand.follow.stop()


@acting
async def test_a_restarted_program_gets_the_map_again() -> None:
    stand = Stand()
    stand.begin()
    await stand.tell("1100")
    stand.program.up = False
    await stand.until(lambda: not stand.job.placement.up)
    assert not stand.job.placement.applied
    fresh = FakeProgram()
    stand.program.seen, stand.program.orders = fresh.seen, []
    stand.program.up = True
    await stand.until(lambda: stand.state == ("1100", True, False))
    stand.follow.stop()


@acting
async def test_a_map_that_somebody_else_has_changed_is_put_back() -> None:
    stand = Stand()
    stand.begin()
    await stand.tell("1100")
    await stand.program.order(MapOrder(id=99, map=b"\0\0\1\1"))
    stand.program.step()
    await stand.until(lambda: not stand.job.placement.applied)
    await stand.until(lambda: stand.state == ("1100", True, False))
    stand.follow.stop()


@acting
async def test_a_program_that_has_not_counted_its_objects_yet_is_asked_again_soon() -> None:
    stand = Stand(pace=replace(FAST, settled=1000.0))
    objects, stand.program.seen = (
        stand.program.seen.objects,
        replace(stand.program.seen, objects=(0, 0, 0, 0)),
    )
    stand.begin()
    await stand.until(lambda: stand.state == ("1111", True, False))
    stand.program.seen = replace(stand.program.seen, objects=objects)
    # Counts are not notified: telemetry reads them when it is sent.
    async with asyncio.timeout(LONG_S):
        while [one.objects for one in stand.job.placement.processors] != [3] * 4:
            await asyncio.sleep(0)
    stand.follow.stop()


@acting
async def test_objects_that_stay_outside_are_no_applied_map_and_tried_again() -> None:
    stand = Stand()
    stand.program.stuck = 2
    stand.begin()
    told = await stand.tell("1100")
    assert not told.acknowledged
    assert stand.job.placement.message == "2 objects remain on PEs outside the map"
    assert stand.job.confined
    stand.program.stuck = 0
    await stand.until(lambda: stand.state == ("1100", True, False))
    assert len(stand.program.orders) >= 2
    stand.follow.stop()


@acting
async def test_a_program_that_restarts_with_fewer_pes_is_believed_by_their_number() -> None:
    stand = Stand()
    stand.program.way = MapWay.RESTART
    stand.begin()
    await stand.until(lambda: stand.job.placement.applied)
    telling = asyncio.ensure_future(stand.tell("1100"))
    await stand.until(lambda: stand.program.resizes == [2])
    stand.program.up = False
    await stand.until(lambda: not stand.job.placement.up)
    stand.program.up, stand.program.pes = True, 2
    told = await telling
    assert told.acknowledged
    # All of the time so far, because the program is away and does not report.
    assert told.stalled_ns == told.took_ns > 0
    assert stand.state == ("1100", True, False)
    stand.follow.stop()


@acting
async def test_the_next_agent_goes_on_with_the_map_on_record() -> None:
    stand = Stand()
    stand.program.steps = False
    stand.begin()
    await stand.tell("1100", deadline_s=0.02)
    text = json.dumps(to_record(stand.job))
    stand.follow.stop()
    stand.program.steps = True
    stand.job = from_record("j", json.loads(text))
    assert stand.job.wanted_map == b"\1\1\0\0"
    stand.begin()
    await stand.until(lambda: stand.state == ("1100", True, False))
    stand.follow.stop()


@acting
async def test_the_task_ends_with_the_job() -> None:
    stand = Stand()
    stand.program.steps = False
    stand.begin()
    telling = asyncio.ensure_future(stand.tell("1100"))
    await stand.until(lambda: stand.program.orders)
    stand.follow.end(stand.job)
    assert not (await telling).acknowledged
    assert stand.program.closed
    looks = stand.program.looks
    await asyncio.sleep(0)
    assert stand.program.looks == looks
    assert await stand.follow.tell(stand.job, LONG_S) == NOBODY


@acting
async def test_jobs_of_other_modes_are_left_alone() -> None:
    stand = Stand()
    stand.job = a_job(2, ResizeMode.TEAM)
    stand.begin()
    assert await stand.follow.tell(stand.job, LONG_S) == NOBODY
    assert stand.program.looks == 0


def test_the_map_of_a_job_fits_its_cores() -> None:
    assert checked_map(a_job(2), b"", 2) == b"\1\1\0\0"
    assert checked_map(a_job(2), b"\0\1\1\0", 2) == b"\0\1\1\0"
    assert checked_map(a_job(2), b"\0\0\1\0", 2) == b"\0\0\1\0"
    assert checked_map(a_job(2, ResizeMode.TEAM), b"\1\1", 2) == b""
    for wrong in (b"\1\1\1\0", b"\1\1", b"\0\0\0\0", b"\1\2\0\0"):
        with pytest.raises(InvalidRequest):
            checked_map(a_job(2), wrong, 2)


def test_an_adopted_job_keeps_a_map_that_fits_what_the_kernel_says() -> None:
    job = a_job(2)
    job.wanted_map = b"\0\1\1\0"
    assert fitting_map(job) == b"\0\1\1\0"
    job.cpus = CpuSet.of(range(3))
    assert fitting_map(job) == b"\1\1\1\0"
    job.wanted_map = b""
    assert fitting_map(job) == b"\1\1\1\0"
    job.cpus = CpuSet()
    assert fitting_map(job) == b"\1\0\0\0"


def test_a_record_of_an_earlier_version_has_no_map() -> None:
    record = to_record(a_job(2))
    del record["processor_map"]
    assert from_record("j", record).wanted_map == b""


def over_nodes(cores: int = 2) -> Job:
    """The first of three nodes with two PEs each."""
    job = a_job(cores)
    job.pes, job.launch_cpus = 6, 2
    return job


@acting
async def test_over_nodes_the_map_has_pes_of_all_of_them() -> None:
    stand = Stand(program=FakeProgram(pes=6))
    stand.job = over_nodes()
    stand.job.wanted_map = b"\1\1\0\0\1\1"
    stand.program.seen = replace(stand.program.seen, nodes=(1, 1, 2, 2, 3, 0))
    stand.begin()
    await stand.until(lambda: stand.job.placement.applied)
    assert stand.state == ("110011", True, False)
    stand.follow.stop()


@acting
async def test_over_nodes_pes_in_another_order_are_told_of() -> None:
    stand = Stand(program=FakeProgram(pes=6))
    stand.job = over_nodes()
    stand.job.wanted_map = b"\1" * 6
    stand.program.seen = replace(stand.program.seen, nodes=(1, 2, 3, 1, 2, 3))
    stand.begin()
    await stand.until(lambda: stand.job.confined)
    assert stand.job.placement.message == (
        "PE 1 is on node 2 of the job, not on 1: start the program with +p6"
    )
    assert not stand.job.placement.applied
    assert stand.program.orders == []
    stand.follow.stop()


@acting
async def test_over_nodes_a_program_that_restarts_is_none_that_follows() -> None:
    stand = Stand(program=FakeProgram(pes=6))
    stand.job = over_nodes()
    stand.job.wanted_map = b"\1\1\0\0\0\0"
    stand.program.way = MapWay.RESTART
    stand.begin()
    await stand.until(lambda: stand.job.confined)
    assert "must accept maps" in stand.job.placement.message
    assert stand.program.resizes == []
    stand.follow.stop()


@acting
async def test_a_step_host_is_not_followed() -> None:
    stand = Stand()
    stand.job.steps_only = True
    stand.begin()
    assert await stand.follow.tell(stand.job, LONG_S) == NOBODY
    assert stand.program.looks == 0


def test_the_map_of_a_job_over_nodes_is_checked_against_all_its_pes() -> None:
    job = over_nodes()
    assert checked_map(job, b"\1\1\1\1\0\0", 2) == b"\1\1\1\1\0\0"
    with pytest.raises(InvalidRequest, match="the map has 2 PEs, but the program has 6"):
        checked_map(job, b"\1\1", 2)
    job.wanted_map = b"\1\1\1\1\0\0"
    assert fitting_map(from_record("j", to_record(job))) == b"\1\1\1\1\0\0"
    job.wanted_map = b""
    assert fitting_map(job) == b"\1\1\0\0\0\0"
    job.steps_only = True
    assert checked_map(job, b"\1\1\1\1\0\0", 2) == b""


def test_what_is_resident_is_so_for_the_next_agent() -> None:
    job = over_nodes()
    job.resident, job.berth, job.steps_only = True, CpuSet.of([1]), True
    job.cpus = job.held = CpuSet()
    again = from_record("j", to_record(job))
    assert (again.resident, again.steps_only, again.pes) == (True, True, 6)
    assert (again.place, again.held) == (CpuSet.of([1]), CpuSet())
