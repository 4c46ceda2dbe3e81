#!/usr/bin/env python3
"""Training of a small network to add numbers, with numpy: an example of `wattfold.training`.

    python train_numpy.py --epochs 40 --out losses.txt
    wattfold submit --epochs 40 --resize restart -- python train_numpy.py --out losses.txt

The program writes the losses of all epochs and a digest of the weights. They do not depend on the
number of restarts.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np

from wattfold.training import Training

HIDDEN, BATCH, RATE, DROPPED = 32, 64, 0.01, 0.1


def train(training: Training, samples: int) -> tuple[list[float], str]:
    """Return the loss of every epoch, and a digest of the weights."""
    data = np.random.default_rng(1).normal(size=(samples, 8))
    goal = data.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(8, HIDDEN)) / 3, rng.normal(size=(HIDDEN, 1)) / 6
    speed = {"first": np.zeros_like(first), "second": np.zeros_like(second)}
    training.keep(first=first, second=second, speed=speed, rng=rng)
    for _ in training:
        for batch in training.steps(np.array_split(rng.permutation(samples), samples // BATCH)):
            hidden = np.tanh(data[batch] @ first) * (rng.random((len(batch), HIDDEN)) >= DROPPED)
            error = hidden @ second - goal[batch]
            training.note(float((error**2).mean()), len(batch))
            back = error @ second.T * (1 - hidden**2) * (hidden != 0)
            speed["second"] = 0.9 * speed["second"] + hidden.T @ error / len(batch)
            speed["first"] = 0.9 * speed["first"] + data[batch].T @ back / len(batch)
            first -= RATE * speed["first"]
            second -= RATE * speed["second"]
    losses = [epoch.loss for epoch in training.history if epoch.loss is not None]
    return losses, hashlib.sha256(first.tobytes() + second.tobytes()).hexdigest()


def main() -> None:
    """Train with the options of the command line."""
    options = argparse.ArgumentParser(description="Train a small network to add up eight numbers.")
    options.add_argument(
        "--epochs", type=int, help="Number of epochs. Default: the variable WATTFOLD_EPOCHS."
    )
    options.add_argument(
        "--samples", type=int, default=1024, help="Number of samples. Default: 1024."
    )
    options.add_argument(
        "--out",
        type=Path,
        default=Path("losses.txt"),
        metavar="FILE",
        help="File for the losses and a digest of the weights. Default: losses.txt.",
    )
    given = options.parse_args()
    losses, digest = train(Training(given.epochs), given.samples)
    given.out.write_text("".join(f"{loss!r}\n" for loss in losses) + f"weights {digest}\n")


if __name__ == "__main__":
    main()
