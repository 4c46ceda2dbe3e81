"""Real training jobs that are ended at random times reach the result of an undisturbed training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SOURCES = ROOT / "runtime_shims/src"
EXAMPLES = ROOT / "runtime_shims/examples"
DEBIAN = Path("/usr/bin/python3")
TIMES = 100


def test_a_training_ended_a_hundred_times_is_the_same_to_the_bit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "interrupted.py"), str(tmp_path), "--times", str(TIMES)],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(done.stdout)
    assert sum(told["ends"].values()) == TIMES
    assert set(told["ends"]) == {"SIGKILL 137", "SIGTERM 143"}
    assert told["starts"] == TIMES + told["trainings"]
    assert told["epochs"] == list(range(1, len(told["epochs"]) + 1))
    assert told["same"] == {"losses": True, "weights": True, "epochs": True}


def run_torch(folder: Path, out: Path, number: int = 0) -> int:
    """One start of the PyTorch example, ended by a signal once it has saved."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCES)}
    environment |= {"WATTFOLD_SNAPSHOT_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    watched = _listening(folder) if number else -1
    argv = [str(DEBIAN), str(EXAMPLES / "train_torch.py"), "--epochs", "4", "--out", str(out)]
    program = subprocess.Popen(argv, env=environment)
    if number:
        os.read(watched, 1 << 16)
        os.close(watched)
        program.send_signal(number)
    return program.wait(100)


def _listening(folder: Path) -> int:
    """A descriptor that becomes readable once a file is renamed into the folder."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.inotify_init())
    moved_to = 0x80
    assert libc.inotify_add_watch(fd, os.fsencode(folder), moved_to) >= 0
    return fd


def test_pytorch_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    probe = [str(DEBIAN), "-c", "import importlib.util as u; assert u.find_spec('torch')"]
    if not DEBIAN.exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no PyTorch for /usr/bin/python3; on Debian: apt-get install python3-torch")
    for name in ("alone", "ended"):
        (tmp_path / name).mkdir()
    assert run_torch(tmp_path / "alone", tmp_path / "alone.txt") == 0
    ended = tmp_path / "ended", tmp_path / "ended.txt"
    assert run_torch(*ended, signal.SIGTERM) == 128 + signal.SIGTERM
    assert run_torch(*ended, signal.SIGKILL) == -signal.SIGKILL
    assert run_torch(*ended) == 0
    assert ended[1].read_text() == (tmp_path / "alone.txt").read_text()
