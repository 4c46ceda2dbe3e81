"""Test program that trains a small network with numpy, at the speed of GPUs that are not present.

    python -m wattfold.shims.training_load --times '{"n0": [0.7, 0.5], "n1": [1.9]}'

Its computation is real, and `wattfold.training` saves it. The duration of an epoch is emulated:
``--times`` gives the seconds on each node with one GPU, two GPUs, and so on, and steps start at
equal intervals of it. Between steps, the program computes for a fraction of each of its cores
(``--busy``), so that emulated GPUs and packages show load, and waits for the rest. Epochs take
longer if the machine is too busy. The program writes the losses of all epochs and a digest of the
weights, which do not depend on the node.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattfold.training import Training

SAMPLES, BATCH, HIDDEN, RATE = 640, 64, 32, 0.01
STEPS = SAMPLES // BATCH


class Pace:
    """Start times of steps, and the load until then. Times of the monotonic clock, in s."""

    def __init__(self, step_s: float, busy_s: float) -> None:
        """``busy_s``: CPU time of each step."""
        self._step_s, self._busy_s = step_s, busy_s
        self._due_s = time.monotonic()
        self._wake = threading.Event()
        self._filler = np.random.default_rng(0).normal(size=(64, 64))

    def step(self, began_cpu_s: float) -> None:
        """End a step that began at a CPU time of this process."""
        while time.process_time() - began_cpu_s < self._busy_s:
            self._filler @ self._filler
        self._due_s += self._step_s
        late_s = time.monotonic() - self._due_s
        if late_s <= 0:
            self._wake.wait(-late_s)
        # Saving is not scaled down as epochs are, so its delay is made up for; the delay of a
        # suspension is not.
        elif late_s > STEPS * self._step_s:
            self._due_s += late_s


class Net:
    """A network with one hidden layer that learns to add eight numbers."""

    def __init__(self) -> None:
        self._data = np.random.default_rng(1).normal(size=(SAMPLES, 8))
        self._goal = self._data.sum(axis=1, keepdims=True)
        self.rng = np.random.default_rng(2)
        self.first = self.rng.normal(size=(8, HIDDEN)) / 3
        self.second = self.rng.normal(size=(HIDDEN, 1)) / 6

    def batches(self) -> Iterator[np.ndarray]:
        """Yield the samples of an epoch in a new order."""
        yield from np.array_split(self.rng.permutation(SAMPLES), STEPS)

    def learn(self, batch: np.ndarray) -> float:
        """Make a step of gradient descent; return the loss before it."""
        hidden = np.tanh(self._data[batch] @ self.first)
        error = hidden @ self.second - self._goal[batch]
        back = error @ self.second.T * (1 - hidden**2)
        self.second -= RATE * hidden.T @ error / len(batch)
        self.first -= RATE * self._data[batch].T @ back / len(batch)
        return float((error**2).mean())

    @property
    def digest(self) -> str:
        """Digest of the weights."""
        return hashlib.sha256(self.first.tobytes() + self.second.tobytes()).hexdigest()


def epoch_s(times: dict[str, list[float]], place: str, gpus: int) -> float:
    """Return the duration of an epoch on this node, in s.

    ``place`` is a path of the agent with a folder named after its node. Raises ValueError if the
    node or the number of GPUs is not in ``times``.
    """
    named = [times[part] for part in place.split("/") if part in times]
    if len(named) != 1 or not 1 <= gpus <= len(named[0]):
        raise ValueError(f"--times has no epoch time for {gpus} GPUs of the node of {place!r}")
    return named[0][gpus - 1]


def main() -> None:
    """Train the number of epochs of the job's submission."""
    options = argparse.ArgumentParser(
        description="Train a small network at the epoch times of given GPUs.", add_help=False
    )
    options.add_argument("-h", "--help", action="help", help="Print this help.")
    options.add_argument(
        "--times",
        type=json.loads,
        required=True,
        metavar="JSON",
        help="Seconds per epoch by node, for 1, 2, ... GPUs, such as"
        ' {"n0": [0.7, 0.5], "n1": [1.9]}. Required.',
    )
    options.add_argument(
        "--busy",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="CPU time of each step per GPU, as a share of the step. Default: 0.1.",
    )
    options.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="File for the losses and a digest of the weights. Default: no file.",
    )
    given = options.parse_args()
    gpus = len(os.environ["WATTFOLD_GPUS"].split(","))
    step_s = epoch_s(given.times, os.environ["WATTFOLD_SHIM_ENDPOINT"], gpus) / STEPS
    net, training = Net(), Training()
    training.keep(first=net.first, second=net.second, rng=net.rng)
    pace = Pace(step_s, step_s * given.busy * gpus)
    for _ in training:
        for batch in training.steps(net.batches()):
            began_cpu_s = time.process_time()
            training.note(net.learn(batch), len(batch))
            pace.step(began_cpu_s)
    if given.out is not None:
        losses = "".join(f"{epoch.loss!r}\n" for epoch in training.history)
        given.out.write_text(f"{losses}weights {net.digest}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
