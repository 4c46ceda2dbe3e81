"""Epochs of a training job over any number of starts of the program.

A signal (SIGTERM or SIGUSR1) takes effect between two steps: all ranks agree on the step, the first
rank saves, and all end with status 128 + signal. Without `Training.steps` it takes effect at the
end of the epoch.

Random generators resume from their saved states. In the middle of an epoch, the order of the data
is reproduced from their states at its start. So an interrupted job computes the same bits. With
several ranks this holds for the random numbers of the first rank; the others derive their seeds
from epoch and rank.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeVar

from wattfold.training import reports, states
from wattfold.training.reports import Epoch
from wattfold.training.snapshots import SnapshotError, Snapshots
from wattfold.training.stopping import StopFlag, agreed, own_rank

T = TypeVar("T")
VERSION = 1
EX_IOERR = 74
"""Exit status of a program that was asked to save and could not."""


class Training:
    """Training loop, which yields the numbers of the remaining epochs, from 0.

    Args:
        epochs: total number; None = WATTFOLD_EPOCHS, as the job was submitted.
        folder: folder of the snapshots, if WATTFOLD_SNAPSHOT_DIR is not set.
        every: epochs between snapshots, in addition to those on a signal and at the end.
        agree: returns the maximum of a number over all ranks, if they do not use
            `torch.distributed` (for mpi4py: ``lambda n: comm.allreduce(n, op=MPI.MAX)``).
        rank: rank of this process; rank 0 saves. None = as PyTorch or the launcher states.
        out: stream for messages to people.
    """

    def __init__(
        self,
        epochs: int | None = None,
        folder: str | os.PathLike[str] = "snapshots",
        *,
        every: int = 1,
        signals: Sequence[int] = (signal.SIGTERM, signal.SIGUSR1),
        agree: Callable[[int], int] = agreed,
        rank: int | None = None,
        out: TextIO | None = None,
    ) -> None:
        told = int(os.environ.get("WATTFOLD_EPOCHS", "") or 0)
        self._out = sys.stderr if out is None else out
        self.epochs = told if epochs is None else epochs
        if self.epochs < 1 or every < 1:
            raise ValueError(
                f"epochs is {self.epochs} and every is {every}; both must be 1 or more"
            )
        if told and told != self.epochs:
            self._say(
                f"the program trains {self.epochs} epochs, but the job was submitted with {told}"
            )
        self.folder = Path(os.environ.get("WATTFOLD_SNAPSHOT_DIR") or folder)
        self.history: list[Epoch] = []
        self._attempt = int(os.environ.get("WATTFOLD_ATTEMPT", "") or 1)
        self._every, self._agree, self._rank = every, agree, rank
        self._flag = StopFlag(signals)
        self._snapshots = Snapshots(self.folder)
        self._kept: dict[str, states.Kept] = {}
        self._step = self._skip = 0
        self._elapsed_s = 0.0
        self._whole = True
        self._sum = self._weight = 0.0
        self._since_s = 0.0
        self._first_chance: dict[str, Any] = {}
        self._next_chance: dict[str, Any] = {}

    @property
    def done(self) -> int:
        """Number of finished epochs."""
        return len(self.history)

    def keep(self, **things: Any) -> None:
        """Name the parts of a snapshot: models, optimizers, schedules, arrays, generators.

        Raises TypeError for an object without a known kind of state.
        """
        self._kept.update({name: states.kept(name, thing) for name, thing in things.items()})

    def note(self, loss: float, weight: float = 1.0) -> None:
        """Record a loss of this epoch; the weighted mean of several losses is kept."""
        self._sum += loss * weight
        self._weight += weight

    def __iter__(self) -> Iterator[int]:
        """Resume, then yield epochs. Raises SnapshotError if there are only invalid snapshots."""
        self._resume()
        with self._flag:
            while self.done < self.epochs:
                self._begin()
                yield self.done
                self._end()

    def steps(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items of an epoch; after an interruption, only the remaining items."""
        skip, self._skip = self._skip, 0
        left = iter(items)
        for _ in range(skip):
            next(left, None)
        if skip:
            self._put_chance(self._next_chance)
        while True:
            try:
                item = next(left)
            except StopIteration:
                return
            except Exception:
                # The signal may have ended the processes that load data.
                if not self._flag.number:
                    raise
                self._leave(self._flag.number, alone=True)
            yield item
            self._step += 1
            number = self._agree(self._flag.number)
            if number:
                self._leave(number)

    def _begin(self) -> None:
        if not self._skip:
            self._step, self._elapsed_s, self._whole = 0, 0.0, True
            self._sum = self._weight = 0.0
            self._first_chance = self._chance()
        self._since_s = time.monotonic()

    def _end(self) -> None:
        seconds = self._elapsed_s + time.monotonic() - self._since_s
        self.history.append(
            Epoch(
                number=self.done + 1,
                loss=self._sum / self._weight if self._weight else None,
                seconds=seconds if self._whole else 0.0,
                gpus=reports.own_gpus(),
                attempt=self._attempt,
            )
        )
        self._step = self._skip = 0
        number = self._agree(self._flag.number)
        last = self.done == self.epochs
        if number and not last:
            self._leave(number)
        if last or self.done % self._every == 0:
            self._try_save()

    def _leave(self, number: int, *, alone: bool = False) -> NoReturn:
        """Save, with all ranks or ``alone``, and end the program."""
        saved = self._try_save(alone=alone)
        raise SystemExit(128 + number if saved else EX_IOERR)

    def _try_save(self, *, alone: bool = False) -> bool:
        """Save and return whether it succeeded.

        A failure is reported, and the previous snapshot stays.
        """
        saved = True
        if self._saves:
            try:
                self._save()
            except SnapshotError as error:
                saved = False
                self._say(f"{error}; the last valid snapshot is kept")
        # The other ranks wait: if they ended, their launcher might end the rank that saves.
        if not alone:
            self._agree(0)
        return saved

    @property
    def _saves(self) -> bool:
        return (own_rank() if self._rank is None else self._rank) == 0

    def _save(self) -> None:
        middle = self._step > 0
        content = {
            "version": VERSION,
            "history": [
                [epoch.number, epoch.loss, epoch.seconds, epoch.gpus, epoch.attempt]
                for epoch in self.history
            ],
            "step": self._step,
            "elapsed_s": self._elapsed_s + time.monotonic() - self._since_s if middle else 0.0,
            "loss": [self._sum, self._weight],
            "kept": {name: one.take() for name, one in self._kept.items()},
            "first_chance": self._first_chance if middle else {},
            "chance": self._chance(),
        }
        self._snapshots.save(lambda sink: states.write(sink, content))
        self._report()

    def _report(self) -> None:
        try:
            reports.write(self.folder, self.history)
        except OSError as error:
            self._say(f"cannot write {error.filename or self.folder}: {error.strerror}")

    def _resume(self) -> None:
        found = self._snapshots.newest()
        if found is None:
            return
        for torn in found.torn:
            self._say(f"{torn}; resuming from {found.path}")
        try:
            content = states.read(found.data)
        except ValueError as error:
            raise SnapshotError(f"{found.path} cannot be read: {error}") from error
        lacking = sorted(self._kept.keys() ^ content["kept"].keys())
        if content["version"] != VERSION or lacking:
            raise SnapshotError(
                f"{found.path} belongs to another program: its version is {content['version']}, "
                f"and the kept objects differ in {', '.join(lacking) or 'nothing'}; move the file "
                "away to start from scratch"
            )
        for name, one in self._kept.items():
            one.put(content["kept"][name])
        self.history = [
            Epoch(number=number, loss=loss, seconds=seconds, gpus=gpus, attempt=attempt)
            for number, loss, seconds, gpus, attempt in content["history"]
        ]
        self._step = self._skip = content["step"]
        self._elapsed_s, self._whole = content["elapsed_s"], not self._step
        self._sum, self._weight = content["loss"]
        self._first_chance, self._next_chance = content["first_chance"], content["chance"]
        # In the middle of an epoch, start from the states at its start, for draws before its steps.
        self._put_chance(self._first_chance if self._step else self._next_chance)
        if self._saves:
            self._report()

    def _chance(self) -> dict[str, Any]:
        return {name: one.take() for name, one in self._chances().items()}

    def _put_chance(self, taken: dict[str, Any]) -> None:
        for name, one in self._chances().items():
            if name in taken:
                one.put(taken[name])

    def _chances(self) -> dict[str, states.Kept]:
        """Return all random generators: the global generators, and those of the program."""
        own = {f"kept {name}": one for name, one in self._kept.items() if one.chance}
        return {**states.usual_chance(), **own}

    def _say(self, text: str) -> None:
        print(f"wattfold.training: {text}", file=self._out, flush=True)
