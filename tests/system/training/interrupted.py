"""Trial of examples/train_numpy.py: end it repeatedly at random times, and compare the results.

    python interrupted.py FOLDER --times 100 --seed 1 --epochs 60

Every start is a separate process, forked from a process that has loaded numpy. It is ended by
SIGKILL (three of four) or SIGTERM after a random time. A completed training starts again from
scratch until the given number of ends is reached. The trial prints one line of JSON: the number of
ends, and whether losses, weights and epochs equal those of an undisturbed training.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"

from wattfold.training import Training  # noqa: E402 - numpy must not start threads before a fork

EXAMPLE = Path(__file__).resolve().parents[3] / "runtime_shims/examples/train_numpy.py"
KILLED_OF_FOUR = 3
LONGEST_EPOCHS = 3.0
"""Maximum time until an end, in undisturbed epochs."""


def main() -> None:
    """Run one trial."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--times", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--epochs", type=int, default=80)
    options.add_argument("--samples", type=int, default=512)
    given = options.parse_args()
    train: Callable[..., Any] = runpy.run_path(str(EXAMPLE))["train"]

    def attempt(folder: Path, number: int) -> int:
        """Start the training in a separate process; return its pid."""
        pid = os.fork()
        if pid:
            return pid
        os.environ["WATTFOLD_ATTEMPT"] = str(number)
        code = 70
        try:
            training = Training(given.epochs, folder)
            losses, digest = train(training, given.samples)
            result = {"losses": losses, "weights": digest}
            result["epochs"] = [epoch.number for epoch in training.history]
            (folder / "result.json").write_text(json.dumps(result))
            code = 0
        except SystemExit as leaving:
            code = int(str(leaving.code))
        finally:
            sys.stderr.flush()
            os._exit(code)

    began_s = time.monotonic()
    alone = given.folder / "alone"
    assert _end(attempt(alone, 1)) == 0
    wanted = json.loads((alone / "result.json").read_text())
    longest_s = LONGEST_EPOCHS * (time.monotonic() - began_s) / given.epochs
    chance, ends = random.Random(given.seed), Counter[str]()
    trainings: list[dict[str, Any]] = []
    folder, number = given.folder / "1", 0
    while sum(ends.values()) < given.times or number:
        number += 1
        word = signal.SIGKILL if chance.randrange(4) < KILLED_OF_FOUR else signal.SIGTERM
        after_s = chance.uniform(0, longest_s) if sum(ends.values()) < given.times else None
        code = _end(attempt(folder, number), after_s, word)
        if code == 0:
            trainings.append(json.loads((folder / "result.json").read_text()) | {"starts": number})
            folder, number = given.folder / str(len(trainings) + 1), 0
        else:
            ends[f"{word.name} {code}"] += 1
    same = {what: all(one[what] == wanted[what] for one in trainings) for what in wanted}
    starts = sum(one["starts"] for one in trainings)
    seconds = round(time.monotonic() - began_s, 2)
    print(
        json.dumps(
            {
                "ends": ends,
                "trainings": len(trainings),
                "starts": starts,
                "epochs": wanted["epochs"],
                "same": same,
                "seconds": seconds,
            }
        )
    )


def _end(pid: int, after_s: float | None = None, number: int = 0) -> int:
    """Wait for a process and end it after a time; return its status as a shell reports it."""
    fd = os.pidfd_open(pid)
    try:
        if after_s is not None and not select.select([fd], [], [], after_s)[0]:
            signal.pidfd_send_signal(fd, number)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(fd)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
