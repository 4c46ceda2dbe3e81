"""The numpy example as a job whose number of epochs is in a file, and its result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "runtime_shims/examples/train_numpy.py"
SAMPLES = 512
GATED = """
import pathlib, runpy, sys, time
from wattfold.training import Training

class Gated(Training):
    def __iter__(self):
        for epoch in super().__iter__():
            # As many epochs as the gate says, unless it is told to go.
            while epoch >= int(gate.read_text()) and not self._flag.number:
                time.sleep(0.01)
            yield epoch

gate, out = map(pathlib.Path, sys.argv[2:4])
losses, digest = runpy.run_path(sys.argv[1])["train"](Gated(), int(sys.argv[4]))
out.write_text("".join(f"{loss!r}\\n" for loss in losses) + f"weights {digest}\\n")
"""


def gated(gate: Path, out: Path) -> list[str]:
    """The command of a job; it reads its epochs from its environment."""
    return [sys.executable, "-c", GATED, str(EXAMPLE), str(gate), str(out), str(SAMPLES)]


def undisturbed(folder: Path, epochs: int) -> str:
    """The result of the example without Wattfold."""
    words = ("--epochs", str(epochs), "--samples", str(SAMPLES), "--out", str(folder / "alone"))
    threads = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(EXAMPLE), *words], cwd=folder, env=threads, check=True)
    return (folder / "alone").read_text()


def lose(pid: int) -> None:
    """Kill the first process of a job and its keeper, so that its end is not reported."""
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
