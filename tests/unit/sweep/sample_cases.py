"""Cases for tests of sweeps, at module level so that spawned processes can import them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wattfold.simulator.sweep.case import Case, Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """Squares a number, or fails or hangs as ``how`` says."""

    number: int
    how: str = "square"
    folder: Path | None = None

    @property
    def label(self) -> str:
        return f"{self.how} of {self.number}"

    def identity(self) -> Mapping[str, object]:
        return {"number": self.number, "how": self.how}


def squared(case: Case) -> Values:
    assert isinstance(case, Square)
    if case.folder is not None:
        (case.folder / f"{case.number}.{os.getpid()}").touch()
    if case.how == "raise":
        raise ArithmeticError(f"no square of {case.number}")
    if case.how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if case.how == "nan":
        return {"square": float("nan")}
    if case.how == "hang":
        threading.Event().wait()
    return {"square": float(case.number**2), "pid": float(os.getpid())}
