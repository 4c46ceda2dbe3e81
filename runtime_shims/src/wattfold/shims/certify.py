"""Certification of a program: a test whether it tolerates changes of its team size.

The program runs undisturbed and under random resizes, and the results are compared. It is certified
for *team* mode only if all runs end well and agree. Otherwise it gets *mask* mode and the reason.
This is evidence, not proof: rare wrong results may be missed, so more runs give more confidence.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from wattfold.shims.certify_compare import Comparison, difference
from wattfold.shims.certify_run import (
    STDOUT,
    Program,
    Resizing,
    RunResult,
    run_alone,
    run_resized,
)
from wattfold.shims.working_copy import WorkingCopy, working_copy

PROFILE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Number and duration of the test runs."""

    static_runs: int = 2
    resized_runs: int = 5
    resizes_min: int = 100
    """Required acknowledged changes of the team size, over all resized runs."""
    runs_max: int = 50
    """Maximum number of resized runs, for short programs that see few changes each."""
    limit_s: float = 600.0
    """Time limit of a static run.

    A resized run gets five times the time of a static run plus 10 s.
    """
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Verdict with its evidence, which a profile keeps."""

    mode: Literal["team", "mask"]
    reason: str
    """Why team mode was refused; empty for team mode."""
    program: str
    sha256: str
    """Digest of the program's file: another build needs a new certification. Empty if not found."""
    argv: tuple[str, ...]
    threads: int
    runtime: str
    comparison: str
    compared: tuple[str, ...]
    """Compared outputs: names of files, and standard output."""
    static_runs: int
    resized_runs: int
    masks: int
    acknowledged: int
    regions: int
    sizes: tuple[int, ...]
    seed: int
    made_at_s: float = 0.0
    """Seconds since 1970."""
    version: int = PROFILE_VERSION

    def as_dict(self) -> dict[str, object]:
        """Return the certificate as plain data for JSON."""
        return asdict(self)


class NoResultError(Exception):
    """There is nothing to compare: the program does not write its declared outputs."""


Check = Callable[[RunResult, RunResult], str | None]
"""Compares a static run with another run: the difference in words, None if they agree."""


def certify(
    program: Program,
    shim: Path,
    *,
    check: Check | None = None,
    comparison: Comparison | None = None,
    effort: Effort | None = None,
    progress: Callable[[str], None] = lambda _: None,
    now_s: float = 0.0,
) -> Certificate:
    """Test a program. ``check`` replaces ``comparison`` (default: bit by bit).

    ``now_s`` becomes the date of the certificate. Raises OSError if the program cannot be started
    or its folder cannot be copied, NoResultError if there is nothing to compare.
    """
    how = comparison or Comparison()
    with working_copy(program.folder) as copy:
        trial = _Trial(program, copy, shim, check or _compared(how), effort or Effort(), progress)
        reason = trial.carry_out()
    found = shutil.which(program.argv[0], path=program.environment.get("PATH"))
    return Certificate(
        mode="mask" if reason else "team",
        reason=reason or "",
        program=found or program.argv[0],
        sha256=hashlib.sha256(Path(found).read_bytes()).hexdigest() if found else "",
        argv=program.argv,
        threads=program.threads,
        runtime=trial.seen.runtime,
        comparison=str(how) if check is None else "the user's check",
        compared=(*program.outputs, *((STDOUT,) if program.compare_stdout else ())),
        static_runs=trial.static_runs,
        resized_runs=trial.resized_runs,
        masks=trial.seen.masks,
        acknowledged=trial.seen.acknowledged,
        regions=trial.seen.regions,
        sizes=tuple(sorted(trial.seen.sizes)),
        seed=trial.effort.seed,
        made_at_s=now_s,
    )


def command_check(command: tuple[str, ...], limit_s: float = 600.0) -> Check:
    """Return a check by a user's command, which gets the folders of a static and another result.

    Each folder has the outputs by name, and standard output as ``stdout``. Exit code 0: they agree.
    """

    def check(expected: RunResult, found: RunResult) -> str | None:
        with tempfile.TemporaryDirectory(prefix="wf-certify-") as name:
            folders = [Path(name) / "static", Path(name) / "resized"]
            for folder, result in zip(folders, (expected, found), strict=True):
                _write(folder, result)
            try:
                done = subprocess.run(
                    [*command, *map(str, folders)],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=limit_s,
                )
            except subprocess.TimeoutExpired:
                return f"the check did not end within {limit_s:g} s"
        if done.returncode == 0:
            return None
        said = (done.stdout + done.stderr).strip().splitlines()
        return f"the check failed ({done.returncode}): {said[-1] if said else 'no message'}"

    return check


def _write(folder: Path, result: RunResult) -> None:
    for name, content in result.outputs.items():
        path = folder / ("stdout" if name == STDOUT else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _compared(how: Comparison) -> Check:
    return lambda expected, found: difference(expected.outputs, found.outputs, how)


@dataclass(slots=True)
class _Trial:
    program: Program
    copy: WorkingCopy
    shim: Path
    check: Check
    effort: Effort
    progress: Callable[[str], None]
    seen: Resizing = field(default_factory=Resizing)
    static_runs: int = 0
    resized_runs: int = 0
    shim_said: str = ""
    """Last complaint of the shim."""

    def carry_out(self) -> str | None:
        """Return why the program is not fit for team mode, None if it is."""
        first: RunResult | None = None
        for number in range(1, max(self.effort.static_runs, 1) + 1):
            self.progress(f"static run {number} of {self.effort.static_runs}")
            result = run_alone(self.program, self.effort.limit_s, self.copy)
            self.static_runs += 1
            if (bad := _bad_end(result)) is not None:
                return f"an undisturbed run {bad}"
            self._check_written(result)
            if first is not None and (odd := self.check(first, result)) is not None:
                return f"two undisturbed runs differ: {odd}"
            first = first or result
        assert first is not None
        return self._resized(first) or self._too_little()

    def _check_written(self, result: RunResult) -> None:
        missing = [name for name in self.program.outputs if name not in result.outputs]
        if missing:
            raise NoResultError(f"the program did not write {missing[0]!r}")
        if not any(result.outputs.values()):
            raise NoResultError("the program wrote nothing to compare; name its result files")

    def _resized(self, first: RunResult) -> str | None:
        chance = random.Random(self.effort.seed)  # noqa: S311 - for variety, not for secrets
        limit_s = 5 * first.seconds + 10
        while self.resized_runs < self.effort.resized_runs or self._worth_more():
            self.progress(
                f"resized run {self.resized_runs + 1}, {self.seen.acknowledged} changes so far"
            )
            result = run_resized(self.program, self.shim, limit_s, chance, self.seen, self.copy)
            self.resized_runs += 1
            self.shim_said = _last_complaint(result) or self.shim_said
            if (bad := _bad_end(result)) is not None:
                return f"the resized program {bad}"
            if (odd := self.check(first, result)) is not None:
                return f"the result of the resized program differs: {odd}"
            if self.seen.runtime in ("static-libgomp?", "static-libomp?"):
                return "the OpenMP runtime is linked statically, so its teams cannot be resized"
        return None

    def _worth_more(self) -> bool:
        """Whether further runs may add missing changes."""
        return (
            self.seen.regions > 0
            and self.seen.acknowledged < self.effort.resizes_min
            and self.resized_runs < self.effort.runs_max
        )

    def _too_little(self) -> str | None:
        if self.seen.runtime == "":
            detail = f" ({self.shim_said})" if self.shim_said else ""
            return (
                "the shim finds no OpenMP runtime in the program, or the program ends too early"
                f"{detail}"
            )
        if self.seen.regions == 0:
            return "the program ran no parallel region"
        if self.seen.acknowledged < self.effort.resizes_min:
            return (
                f"the program acknowledged only {self.seen.acknowledged} of at least "
                f"{self.effort.resizes_min} changes of its team in {self.resized_runs} runs; use a "
                "longer run"
            )
        return None


def _last_complaint(result: RunResult) -> str:
    lines = [line for line in result.errors.splitlines() if line.startswith("wattfold:")]
    return lines[-1][:160] if lines else ""


def _bad_end(result: RunResult) -> str | None:
    said = result.errors.strip().splitlines()
    last = f": {said[-1][:120]}" if said else ""
    if result.timed_out:
        return f"did not end within {result.seconds:.0f} s"
    if result.exit_code < 0:
        return f"was ended by signal {-result.exit_code}{last}"
    if result.exit_code > 0:
        return f"failed with exit code {result.exit_code}{last}"
    return None
