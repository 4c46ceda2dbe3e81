"""A Python program that follows its mask, on a simulated shim."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from wattfold.shims import follow
from wattfold.shims.client import NoShim, connect
from wattfold.shims.following import Limiter, loaded_limiters


class ToldShim(NoShim):
    """Shim that returns the core count set by the test."""

    def __init__(self, cores: int) -> None:
        self.now = cores
        self.count = 1
        self.reported: list[tuple[float, float]] = []

    def set(self, cores: int) -> None:
        self.now = cores
        self.count += 1

    def changes(self) -> int:
        return self.count

    def cores(self) -> int:
        return self.now

    def progress(self, done: float, total: float) -> None:
        self.reported.append((done, total))


@dataclass
class Recorder:
    """A library that records its limits."""

    limits: list[int] = field(default_factory=list)

    def apply(self, cores: int) -> None:
        self.limits.append(cores)

    def restore(self) -> None:
        self.limits.append(0)


def test_limits_follow_and_are_put_back() -> None:
    shim, library = ToldShim(4), Recorder()
    heard: list[int] = []
    with follow(shim, lambda: {"library": library}) as job:
        job.on_change(heard.append)
        assert library.limits == [4]
        assert job.update() is False
        shim.set(2)
        assert job.cores == 4
        assert job.update() is True
        assert job.cores == 2
        shim.set(2)  # other cores, as many
        assert job.update() is False
        job.progress(1, 3)
    assert library.limits == [4, 2, 0]
    assert heard == [2]
    assert shim.reported == [(1, 3)]


def test_a_library_loaded_later_is_limited_at_the_next_change() -> None:
    shim, early, late = ToldShim(4), Recorder(), Recorder()
    found: dict[str, Limiter] = {"early": early}
    with follow(shim, lambda: found) as job:
        found["late"] = late
        shim.set(1)
        job.update()
    assert (early.limits, late.limits) == ([4, 1, 0], [1, 0])


def test_what_was_found_is_put_back_after_an_error_too() -> None:
    library = Recorder()
    with pytest.raises(KeyError), follow(ToldShim(3), lambda: {"library": library}):
        raise KeyError
    assert library.limits == [3, 0]


def test_no_more_items_at_work_than_cores() -> None:
    shim = ToldShim(3)
    lock = threading.Lock()
    running = 0
    most: dict[int, int] = {}

    def work(item: int) -> int:
        nonlocal running
        with lock:
            running += 1
            most[shim.now] = max(most.get(shim.now, 0), running)
        with lock:
            running -= 1
        return item * item

    with ThreadPoolExecutor(8) as pool, follow(shim, dict) as job:
        results = []
        for result in job.map(pool, work, range(60)):
            results.append(result)
            if len(results) == 30:
                shim.set(1)
    assert results == [n * n for n in range(60)]
    assert most[3] <= 3


def test_an_error_of_an_item_is_raised() -> None:
    def work(item: int) -> float:
        return 1 / item

    with (
        ThreadPoolExecutor(2) as pool,
        follow(ToldShim(2), dict) as job,
        pytest.raises(ZeroDivisionError),
    ):
        list(job.map(pool, work, [1, 0, 2]))


def test_without_a_shim_the_answers_are_those_of_an_unmanaged_program() -> None:
    shim = connect()
    assert shim.version() == ""
    assert shim.mask() is None
    assert shim.cores() >= 1
    assert shim.request(4) is False
    with follow() as job:
        assert job.cores == shim.cores()


def test_limiters_are_only_for_what_is_there() -> None:
    assert set(loaded_limiters()) <= {"threadpoolctl", "torch", "numba"}
