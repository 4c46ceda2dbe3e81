"""The demonstration as people start it, with little work: a table, a picture, nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.site.live_site import EXAMPLES, MARK, SHIM, built, processes_of, wait_until

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
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
        env=os.environ | {MARK: str(tmp_path), "COLUMNS": "120", "OMP_WAIT_POLICY": "passive"},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_it_ends_with_a_table_and_a_picture(demo: subprocess.Popen[str], tmp_path: Path) -> None:
    text, _ = demo.communicate(timeout=800)
    assert demo.returncode == 0, text
    assert "Same jobs, same budget" in text
    assert "The budget was kept at every instant." in text
    for name in ("jacobi", "md", "stream", "compute"):
        assert name in text
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(PNG)
    wait_until("all processes have ended", lambda: not processes_of(tmp_path))


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
        # Says what it is doing (faulthandler), for whoever has to find out why it does not end.
        demo.send_signal(signal.SIGABRT)
        rest, _ = demo.communicate(timeout=240)
    assert demo.returncode == 130, seen + rest
    assert "Interrupted: everything was stopped and all limits are restored." in rest
    assert "Traceback" not in rest
    wait_until("all processes have ended", lambda: not processes_of(tmp_path))


def read_until(process: subprocess.Popen[str], text: str, deadline_s: float = 400.0) -> str:
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
