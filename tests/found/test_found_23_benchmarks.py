"""Benchmarks measure the quantities that they report."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "scripts/benchmarks"


def benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module(name)


def test_a_round_counts_all_calls_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading of the clock is a millisecond later, so each call takes one millisecond."""
    rounds: Any = benchmark("rounds", monkeypatch)
    from wattfold.coordinator.adapters.copies import replica_feed
    from wattfold.coordinator.models.pass_model import SizeUnit

    clock = itertools.count(step=1_000_000)
    monkeypatch.setattr(rounds.time, "process_time_ns", lambda: next(clock))
    monkeypatch.setattr(replica_feed, "PIECE", 10)
    site = rounds.Site(2, SizeUnit.CORES, "fifo-easy")
    for _ in range(45):
        site.submit()
    taken_ms = site.round()
    assert site.worker.calls > 4
    assert taken_ms == site.worker.calls


def test_a_stall_delays_every_probe_that_was_due_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scale: Any = benchmark("scale", monkeypatch)
    delays_s: list[float] = []

    class Stalled:
        """Service that answers only after five requests."""

        def __init__(self) -> None:
            self.asked, self.goes_on = 0, asyncio.Event()

        async def ListProfiles(self, request: Any, timeout: float) -> None:  # noqa: N802
            del request, timeout
            self.asked += 1
            if self.asked == 5:
                self.goes_on.set()
            await self.goes_on.wait()

    async def run() -> None:
        probing = asyncio.create_task(scale._probe(Stalled(), delays_s))
        while len(delays_s) < 5:
            await asyncio.sleep(0.01)
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)

    asyncio.run(run())
    assert sorted(delays_s[:5])[-1] >= 4 * scale.PROBE_S
    assert sum(delay_s >= scale.PROBE_S for delay_s in delays_s[:5]) >= 4


def test_requests_without_an_answer_are_delays_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is held to the end of a part answers no request of that part."""
    scale: Any = benchmark("scale", monkeypatch)
    delays_s: list[float] = []

    class Held:
        """Service that never answers."""

        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def ListProfiles(self, request: Any, timeout: float) -> None:  # noqa: N802
            del request, timeout
            self.asked.set()
            await asyncio.Event().wait()

    async def run() -> None:
        service = Held()
        probing = asyncio.create_task(scale._probe(service, delays_s))
        await service.asked.wait()
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)

    asyncio.run(run())
    assert delays_s


def test_a_probe_that_fails_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise its missing delays would count as no delay."""
    scale: Any = benchmark("scale", monkeypatch)
    nobody = SimpleNamespace(address=f"unix:{tmp_path}/nobody", delays_s=[])

    def is_probe(task: asyncio.Task[Any]) -> bool:
        return getattr(task.get_coro(), "__qualname__", "") == "_probe"

    async def run() -> None:
        async with scale._probing(nobody):
            (probing,) = (task for task in asyncio.all_tasks() if is_probe(task))
            await asyncio.wait({probing})

    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(run())
    assert failed.group_contains(grpc.aio.AioRpcError)
