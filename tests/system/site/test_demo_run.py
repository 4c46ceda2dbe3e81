"""The demonstration as users start it, with little work: a table, a plot, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.site.live_site import EXAMPLES, MARK, SHIM, built, wait_until
from system.site.processes import processes_of

from wattfold.coordinator.demo import report

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def path() -> str:
    """Where the demonstration finds programs that it can do without."""
    return os.environ["PATH"]


@pytest.fixture
def demo(tmp_path: Path, path: str) -> Iterator[subprocess.Popen[str]]:
    """A demonstration under way; it and all it starts carry the folder in their environment."""
    if not built():
        pytest.skip("no example programs; run scripts/build_shims")
    process = subprocess.Popen(
        [
            *(sys.executable, "-X", "faulthandler", "-m", "wattfold.coordinator.demo"),
            *("--scale", "0.05"),
            *("--examples", str(EXAMPLES), "--shim", str(SHIM), "--out", str(tmp_path / "out")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=os.environ
        | {MARK: str(tmp_path), "COLUMNS": "120", "OMP_WAIT_POLICY": "passive", "PATH": path},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


@contextmanager
def other_load() -> Iterator[None]:
    """Another process. It yields to the demonstration, and takes the rest of a core."""
    command = ["nice", "-n", "10", sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command) as burner:
        try:
            yield
        finally:
            burner.kill()


def test_it_ends_with_a_table_and_a_picture_that_say_it_was_disturbed(
    demo: subprocess.Popen[str], tmp_path: Path
) -> None:
    text = read_until(demo, "2. parm-wse")
    with other_load():
        # Both runs of the first policy are disturbed.
        text += read_until(demo, "3. ")
    rest, _ = demo.communicate(timeout=1600)
    text += rest
    assert demo.returncode == 0, text
    assert "Same jobs, same budget" in text
    assert text.count("running it again") == 1
    assert not re.search(r"\bratio", text)
    assert "Times and energy of the policies cannot be compared." in text
    assert re.search(r"were within the budget in all [1-9][0-9,]* samples", text), text
    stored = report.read(tmp_path / "out" / report.RESULTS)
    assert [len(run.limits.nodes) for run in stored.runs] == [4, 4, 4]
    assert all(run.limits.points for run in stored.runs)
    table = (tmp_path / "out" / report.TABLE).read_text(encoding="utf-8")
    assert table.startswith("**Disturbed: other processes used up to ")
    for name in ("jacobi", "md", "stream", "compute"):
        assert name in text
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(PNG)
    wait_until("all processes have ended", lambda: not processes_of(tmp_path))


# Without xtb and MPI, whose calibration takes longer than all else until then.
@pytest.mark.parametrize("path", [os.fspath(Path(sys.executable).parent)], ids=["few"])
@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("1. Calibrating", signal.SIGINT),
        ("2. parm-wse", signal.SIGTERM),
    ],
)
def test_it_is_interrupted(
    demo: subprocess.Popen[str], tmp_path: Path, when: str, number: signal.Signals
) -> None:
    seen = read_until(demo, when)
    demo.send_signal(number)
    try:
        rest, _ = demo.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        # Print the stacks of all threads (faulthandler), to show why the process does not end.
        demo.send_signal(signal.SIGABRT)
        rest, _ = demo.communicate(timeout=240)
    assert demo.returncode == 130, seen + rest
    assert "Interrupted: everything was stopped and all limits are restored." in rest
    assert "Traceback" not in rest
    wait_until("all processes have ended", lambda: not processes_of(tmp_path))


def read_until(process: subprocess.Popen[str], text: str, deadline_s: float = 700.0) -> str:
    """What the process prints up to a text."""
    assert process.stdout is not None
    late = threading.Timer(deadline_s, process.kill)
    late.start()
    seen = ""
    try:
        for line in process.stdout:
            seen += line
            if text in line:
                return seen
    finally:
        late.cancel()
    raise AssertionError(f"{text!r} did not come; only:\n{seen}")
