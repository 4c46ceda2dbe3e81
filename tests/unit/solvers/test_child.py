"""A child process for blocking callers: answers after failures, delays and memory exhaustion."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import worker_functions as functions

from wattfold.coordinator.solvers.child import Child
from wattfold.coordinator.solvers.worker import CallResult, Crashed, Success, TimedOut

LONG_S = 240.0


def value(result: CallResult) -> object:
    assert isinstance(result, Success), result
    return result.value


def test_calls_share_one_warm_process_until_it_is_closed() -> None:
    with Child(functions.warm_up) as child:
        assert value(child.call(functions.add, 2, 3, deadline_s=LONG_S)) == 5
        first = value(child.call(functions.pid, deadline_s=LONG_S))
        assert value(child.call(functions.warmed, deadline_s=LONG_S)) == [first]
        assert child.running
        child.close()
        assert not child.running
        assert value(child.call(functions.pid, deadline_s=LONG_S)) != first


def test_a_large_answer_and_what_is_printed_do_not_break_it() -> None:
    with Child() as child:
        data = bytes(1 << 20)
        assert value(child.call(functions.echo, data, deadline_s=LONG_S)) == data
        assert value(child.call(functions.printing, deadline_s=LONG_S)) == "quiet"


def test_an_exception_is_told_and_the_process_goes_on() -> None:
    with Child() as child:
        pid = value(child.call(functions.pid, deadline_s=LONG_S))
        result = child.call(functions.fail, deadline_s=LONG_S)
        assert isinstance(result, Crashed)
        assert result.reason == "ValueError: the reason"
        assert value(child.call(functions.pid, deadline_s=LONG_S)) == pid


def test_a_process_that_dies_is_told_with_its_last_words_and_replaced() -> None:
    with Child() as child:
        result = child.call(functions.abort, deadline_s=LONG_S)
        assert isinstance(result, Crashed)
        assert "ended by signal 6" in result.reason
        assert "assertion failed: in the library" in result.details
        assert value(child.call(functions.add, 1, 1, deadline_s=LONG_S)) == 2


def test_one_that_hangs_is_killed(tmp_path: Path) -> None:
    with Child() as child:
        assert value(child.call(functions.add, 1, 1, deadline_s=LONG_S)) == 2
        result = child.call(functions.hang, str(tmp_path / "pid"), deadline_s=0.5)
        assert isinstance(result, TimedOut)
        assert result.while_ == "running"
        assert not child.running
        assert value(child.call(functions.add, 1, 1, deadline_s=LONG_S)) == 2


def test_a_start_that_fails_or_is_late_is_told() -> None:
    with Child(functions.broken_warm_up) as child:
        result = child.call(functions.pid, deadline_s=LONG_S)
        assert isinstance(result, Crashed)
        assert "cannot warm up" in result.reason
    with Child() as child:
        late = child.call(functions.pid, deadline_s=0.0)
        assert isinstance(late, TimedOut)
        assert late.while_ == "starting"


def test_memory_beyond_the_limit_is_refused() -> None:
    with Child(memory_bytes=64 << 20) as child:
        assert value(child.call(functions.eat, 1 << 20, deadline_s=LONG_S)) == 1 << 20
        result = child.call(functions.eat, 256 << 20, deadline_s=LONG_S)
        assert isinstance(result, Crashed)
        assert "MemoryError" in result.reason


def test_a_copy_starts_a_process_of_its_own() -> None:
    with Child(functions.warm_up) as child:
        pid = value(child.call(functions.pid, deadline_s=LONG_S))
        copy = pickle.loads(pickle.dumps(child))
        with copy:
            assert not copy.running
            assert value(copy.call(functions.pid, deadline_s=LONG_S)) != pid


@pytest.mark.parametrize("size", [1 << 28])
def test_an_answer_that_is_too_large_is_not_taken(size: int) -> None:
    with Child() as child:
        result = child.call(functions.large, size, deadline_s=LONG_S)
        assert isinstance(result, Crashed)
        assert "the limit is" in result.reason
