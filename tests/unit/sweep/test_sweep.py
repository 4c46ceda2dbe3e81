"""Sweeps: resumed, with failing cases, on processes and on Dask, ended by Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from unit.sweep.sample_cases import Square, squared

from wattfold.simulator.sweep.case import (
    Case,
    Done,
    Measure,
    Outcome,
    case_key,
    code_version,
)
from wattfold.simulator.sweep.local import LocalCores
from wattfold.simulator.sweep.on_dask import DaskCluster, DaskUnavailableError
from wattfold.simulator.sweep.progress import LineProgress, progress_on
from wattfold.simulator.sweep.run import SweepResult, run_sweep
from wattfold.simulator.sweep.store import ResultStore
from wattfold.simulator.sweep.worker import outcome_of

TESTS = Path(__file__).parents[2]


class Here:
    """A backend in this process that records the cases it ran."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.ran: list[str] = []
        self.stop_after = stop_after

    def outcomes(self, measure: Measure, cases: Sequence[Case]) -> Iterator[tuple[int, Outcome]]:
        for position, case in enumerate(cases):
            if len(self.ran) == self.stop_after:
                raise KeyboardInterrupt
            self.ran.append(case.label)
            yield position, outcome_of(measure, case)


def swept(
    cases: Sequence[Case], folder: Path, backend: Here | LocalCores | DaskCluster
) -> SweepResult:
    return run_sweep(cases, squared, version="1", store=ResultStore(folder), backend=backend)


def squares(result: SweepResult) -> list[float]:
    return sorted(done.values["square"] for done in result.done.values())


def test_a_stopped_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    cases = [Square(number=n) for n in range(4)]
    with pytest.raises(KeyboardInterrupt):
        swept(cases, tmp_path, Here(stop_after=2))
    again = Here()
    result = swept(cases, tmp_path, again)
    assert again.ran == ["square of 2", "square of 3"]
    assert result.stored == 2
    assert squares(result) == [0, 1, 4, 9]


def test_equal_cases_run_once_and_failures_are_listed_and_tried_again(tmp_path: Path) -> None:
    cases = [Square(number=2), Square(number=2), Square(number=3, how="raise")]
    cases.append(Square(number=4, how="nan"))
    first = Here()
    result = swept(cases, tmp_path, first)
    assert len(first.ran) == 3
    assert [(f.label, f.reason) for f in result.failures] == [
        ("raise of 3", "ArithmeticError: no square of 3"),
        ("nan of 4", "square of nan of 4 is nan"),
    ]
    assert "squared" in result.failures[0].trace
    second = Here()
    swept(cases, tmp_path, second)
    assert second.ran == ["raise of 3", "nan of 4"]


def test_a_broken_result_is_made_again_and_named(tmp_path: Path) -> None:
    case = Square(number=5)
    swept([case], tmp_path, Here())
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text()[:40])
    result = swept([case], tmp_path, Here())
    assert result.broken == (path.name,)
    assert squares(result) == [25]
    assert json.loads(path.read_text())["values"]["square"] == 25
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_keys_tell_cases_and_versions_apart() -> None:
    keys = {
        case_key(Square(number=1), "1"),
        case_key(Square(number=2), "1"),
        case_key(Square(number=1), "2"),
        case_key(Square(number=1, folder=Path("/elsewhere")), "1"),
    }
    assert len(keys) == 3
    assert all(key.startswith("square-of-") and "/" not in key for key in keys)


def test_the_version_follows_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "versioned_sample"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = code_version(["versioned_sample"])
    assert code_version(["versioned_sample"]) == before
    (package / "__init__.py").write_text("A = 1\n")
    assert code_version(["versioned_sample"]) != before
    with pytest.raises(ValueError, match="no module with source"):
        code_version(["no_such_package_at_all"])


def test_processes_run_all_cases_and_only_the_one_that_dies_fails(tmp_path: Path) -> None:
    cases: list[Case] = [Square(number=n) for n in range(5)]
    cases[2:2] = [Square(number=7, how="die"), Square(number=8, how="raise")]
    result = swept(cases, tmp_path, LocalCores(processes=2))
    assert squares(result) == [0, 1, 4, 9, 16]
    reasons = {failure.label: failure.reason for failure in result.failures}
    assert set(reasons) == {"die of 7", "raise of 8"}
    assert "process died" in reasons["die of 7"]
    assert all(done.values["pid"] != os.getpid() for done in result.done.values())


def test_a_backend_needs_a_process() -> None:
    with pytest.raises(ValueError, match="at least one process"):
        LocalCores(processes=0)


SCRIPT = """
import sys
from pathlib import Path
from unit.sweep.sample_cases import Square, squared
from wattfold.simulator.sweep.local import LocalCores
from wattfold.simulator.sweep.run import run_sweep
from wattfold.simulator.sweep.store import ResultStore

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cases = [Square(number=n, how="hang", folder=folder) for n in (1, 2)]
    store = ResultStore(folder / "results")
    try:
        run_sweep(cases, squared, version="1", store=store, backend=LocalCores(processes=2))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_sweep_that_is_ended(tmp_path: Path, end: signal.Signals) -> None:
    """Both workers hang in their case.

    Ctrl-C reaches the whole group, other signals only the parent.
    """
    script = tmp_path / "hanging.py"
    script.write_text(SCRIPT)
    begun = tmp_path / "begun"
    begun.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(script), str(begun)],
        env={**os.environ, "PYTHONPATH": ":".join([str(TESTS), *filter(None, sys.path)])},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        pids = _pids_once(begun, 2)
        workers = [os.pidfd_open(pid) for pid in pids]
        if end is signal.SIGINT:
            os.killpg(parent.pid, end)
        else:
            parent.send_signal(end)
        assert parent.wait(240) == (-end if end is signal.SIGKILL else 130)
        assert _ended(workers, 240)
        if end is not signal.SIGKILL:
            assert parent.stderr is not None
            assert parent.stderr.read() == b""
    finally:
        parent.kill()
        parent.wait()
        assert parent.stderr is not None
        parent.stderr.close()


def _pids_once(folder: Path, count: int) -> list[int]:
    """Wait for ``count`` files and return the process IDs in their names."""
    waiting = threading.Event()
    for _ in range(1200):
        found = [int(path.name.partition(".")[2]) for path in folder.iterdir() if path.is_file()]
        if len(found) >= count:
            return found
        waiting.wait(0.05)
    raise AssertionError("the cases never began")


def _ended(pidfds: Sequence[int], timeout_s: float) -> bool:
    """Whether all these processes end in time."""
    try:
        return all(select.select([fd], [], [], timeout_s)[0] for fd in pidfds)
    finally:
        for fd in pidfds:
            os.close(fd)


def test_dask_runs_all_cases_and_lists_those_that_fail(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cases = [Square(number=n) for n in range(3)] + [Square(number=9, how="raise")]
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address=None,
    ) as cluster:
        result = swept(cases, tmp_path, DaskCluster(address=cluster.scheduler_address))
    assert squares(result) == [0, 1, 4]
    assert [failure.reason for failure in result.failures] == ["ArithmeticError: no square of 9"]


def test_dask_without_a_scheduler_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(DaskUnavailableError, match="no Dask scheduler at bad://x"):
        swept([Square(number=1)], tmp_path, DaskCluster(address="bad://x"))


def test_progress_without_a_terminal_is_lines() -> None:
    text = io.StringIO()
    progress = progress_on(Console(file=text, force_terminal=False, width=200))
    assert isinstance(progress, LineProgress)
    with progress:
        progress.start(5, 2)
        for number in range(3):
            progress.ended(f"case {number}", failed=number == 1)
    assert text.getvalue().splitlines()[0] == "5 cases, 2 of them with a stored result"
    assert "failed: case 1" in text.getvalue()
    assert text.getvalue().splitlines()[-1] == "3 of 3 cases, about 0 s left (case 2)"


def test_progress_on_a_terminal_is_a_bar() -> None:
    text = io.StringIO()
    with progress_on(Console(file=text, force_terminal=True, width=120)) as progress:
        progress.start(2, 0)
        progress.ended("first", failed=True)
        progress.ended("second", failed=False)
    assert "2/2" in text.getvalue()
    assert "failed: first" in text.getvalue()


def test_a_result_has_the_time_it_took(tmp_path: Path) -> None:
    [done] = swept([Square(number=3)], tmp_path, Here()).done.values()
    assert isinstance(done, Done)
    assert done.cpu_s >= 0
