"""`wattfold simulate` as a process: stopped by Ctrl-C, killed, out of space; then resumed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from unit.runs.sample_runs import contents

pytestmark = pytest.mark.system

WATTFOLD = (sys.executable, "-m", "wattfold.coordinator.cli.main")
DEADLINE_S = 240.0
LONG = ("--model=lublin", "--jobs=12000", "--nodes=128", "--no-figures")
"""Seconds of work: long enough for a stop in the middle."""
TWO = (*LONG, "--policy=easy", "--policy=fcfs", "--workers=2")


class Simulation:
    """The command in its own process group."""

    def __init__(self, *words: str, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*WATTFOLD, "simulate", *words, "--out", str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def end(self, code: int) -> str:
        """Return its standard error; the exit code is checked."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == code, err + out
        return err

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition while it runs."""
        end_s = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while not condition():
            assert self.process.poll() is None, "it ended too early: the run is too short"
            assert time.monotonic() < end_s
            pause.wait(0.01)

    def is_gone(self) -> bool:
        """Whether its whole process group ends in time; zombies count as ended."""
        end_s = time.monotonic() + DEADLINE_S
        pause = threading.Event()
        while time.monotonic() < end_s:
            if not any(_runs_in(self.process.pid, process) for process in psutil.process_iter()):
                return True
            pause.wait(0.05)
        return False


def _runs_in(group: int, process: psutil.Process) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def written(*paths: Path) -> Callable[[], bool]:
    """Whether each file has more than this number of rows."""
    return lambda: all(path.exists() and path.stat().st_size > 100_000 for path in paths)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What runs of two policies leave that were not stopped, in both formats."""
    folder = tmp_path_factory.mktemp("whole")
    with Simulation(*TWO, "--format=both", folder=folder) as run:
        assert run.end(0) == ""
    return contents(folder)


def of_easy(whole: dict[str, bytes]) -> dict[str, bytes]:
    """The part that a run of the default policy leaves."""
    return {name: held for name, held in whole.items() if not name.startswith("fcfs-")}


def as_csv(whole: dict[str, bytes]) -> dict[str, bytes]:
    """The part that a run without other formats leaves."""
    return {name: held for name, held in whole.items() if not name.endswith(".parquet")}


def test_ctrl_c_and_resume_leave_the_bytes_of_a_run_that_was_not_stopped(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    words = (*LONG, "--format=both")
    folder = tmp_path / "stopped"
    with Simulation(*words, folder=folder) as run:
        run.until(written(folder / "easy-seed0" / "jobs.csv"))
        os.killpg(run.process.pid, signal.SIGINT)
        said = run.end(130)
        assert run.is_gone()
    assert said == (
        f"wattfold: stopped; the same command with --resume continues from {folder}/easy-seed0\n"
    )
    assert set(contents(folder)) == {"easy-seed0/jobs.csv", "easy-seed0/checkpoint"}
    with Simulation(*words, "--resume", folder=folder) as run:
        assert run.end(0) == ""
    assert contents(folder) == of_easy(whole)


def test_a_killed_run_goes_on_from_its_last_checkpoint(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    folder = tmp_path / "killed"
    words = (*LONG, "--checkpoint-every=50ms")
    with Simulation(*words, folder=folder) as run:
        run.until((folder / "easy-seed0" / "checkpoint").exists)
        run.process.send_signal(signal.SIGKILL)
        run.end(-signal.SIGKILL)
    with Simulation(*words, "--resume", folder=folder) as run:
        assert run.end(0) == ""
    assert contents(folder) == as_csv(of_easy(whole))


def test_ctrl_c_stops_several_runs_and_all_of_them_go_on(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    folder = tmp_path / "stopped"
    names = ("easy-seed0", "fcfs-seed0")
    with Simulation(*TWO, folder=folder) as run:
        run.until(written(*(folder / name / "jobs.csv" for name in names)))
        os.killpg(run.process.pid, signal.SIGINT)
        said = run.end(130)
        assert run.is_gone()
    told = re.fullmatch(
        r"wattfold: stopped; ([01]) of 2 runs are complete; the same command with "
        r"--resume continues\n",
        said,
    )
    assert told, said
    left = [(folder / name / "checkpoint").exists() for name in names]
    assert left.count(True) == 2 - int(told[1])
    with Simulation(*TWO, "--resume", folder=folder) as run:
        assert run.end(0) == ""
    assert contents(folder) == as_csv(whole)


def test_the_processes_of_a_killed_command_end_with_it(tmp_path: Path) -> None:
    with Simulation(*TWO, folder=tmp_path) as run:
        run.until((tmp_path / "easy-seed0" / "jobs.csv").exists)
        run.process.send_signal(signal.SIGKILL)
        run.end(-signal.SIGKILL)
        assert run.is_gone()


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """A limit on the size of files replaces a full disk: both fail in the write."""
    limited = (
        "import resource, signal, sys;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000));"
        "from wattfold.coordinator.cli.main import main; main(sys.argv[1:])"
    )
    words = ("simulate", "--model=lublin", "--jobs=2000", "--nodes=16", "--out", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", limited, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr
        == f"wattfold: {tmp_path}/easy-seed0/jobs.csv: cannot be written: File too large\n"
    )
