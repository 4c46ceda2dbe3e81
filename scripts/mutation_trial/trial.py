"""Runs the tests of core and policies on every chosen mutant, in copies of the checkout.

    found      a test failed, or the tests did not end in time
    survived   all tests passed: a hole in the tests, or a mutant that changes nothing

All tests run once on the code as it is, under coverage, some side by side; a mutant is tried by
those that execute its line, the shortest first, until one fails.

Ends with 1 when fewer than 95 % are found, and with 2 when the code as it is fails its tests.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue

from mutants import ROOT, Mutant, chosen
from noting import TIMES
from selection import RULES, Tests, tests_of

SEED = 20261122
COUNT = 40
FOUND_MIN = 0.95
TREES = ("proto/src", "proto/gen/python", "coordinator/src", "nodeagent/src", "runtime_shims/src")
COPIED = ("proto", "coordinator", "nodeagent", "runtime_shims/src", "tests", "pyproject.toml")
TESTS = (
    "tests/contract/policies",
    "tests/property/policies",
    "tests/unit/core",
    "tests/unit/policies",
    "tests/unit/node_selection",
    "tests/unit/pool",
    "tests/unit/runs",
    "tests/unit/simulation_cluster",
    "tests/unit/experiments",
    "tests/simulation",
    "tests/property/core",
    "tests/property/node_selection",
    "tests/property/pool",
    "tests/unit/simulation",
)
LIMIT_FACTOR, LIMIT_LEAST_S = 4, 60.0
PLUGINS = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a mutant: the test that found it, empty if it survived."""

    mutant: Mutant
    found_by: str


@dataclass(frozen=True, slots=True)
class Noted:
    """A run of which is noted, in a folder, what each test executes and how long it takes."""

    folder: Path

    @property
    def data(self) -> Path:
        """What coverage writes."""
        return self.folder / "coverage"

    @property
    def times(self) -> Path:
        """Seconds by test."""
        return self.folder / "times.json"

    def options(self) -> tuple[Sequence[str], Sequence[str], dict[str, str]]:
        """What runs pytest, what pytest loads, and variables."""
        rules = self.folder / "coveragerc"
        rules.write_text(RULES.format(data=self.data), encoding="utf-8")
        tool = ("-m", "coverage", "run", f"--rcfile={rules}")
        return tool, ("-p", "noting"), {TIMES: str(self.times)}


def copy_of_checkout(folder: Path) -> Path:
    """A copy of what the tests need, compiled; a changed file is seen by its text, not its time."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    compileall.compile_dir(
        folder, maxlevels=20, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
    )
    return folder


def noted_runs(folders: SimpleQueue[Path], workers: int, place: Path) -> tuple[list[Noted], str]:
    """Every part of the tests once on the code as it is; what failed first, empty if nothing."""
    some = folders.get()
    parts = parts_there(some)
    folders.put(some)
    runs = [Noted(place / str(number)) for number in range(len(parts))]

    def run(part: list[str], noted: Noted) -> str:
        noted.folder.mkdir(parents=True)
        folder = folders.get()
        try:
            failed = run_tests(folder, part, None, noted)
        finally:
            folders.put(folder)
        print(f"as it is  {part[0]}{', ...' if part[1:] else ''}  {failed}".rstrip(), flush=True)
        return failed

    with ThreadPoolExecutor(workers) as pool:
        failed = list(pool.map(run, parts, runs))
    return runs, next(filter(None, failed), "")


def trust_tests(folder: Path) -> list[str]:
    """Those of `tests/trust` that play the core by hand, and those of policies."""
    return sorted(
        str(path.relative_to(folder))
        for path in (folder / "tests/trust").glob("test_*.py")
        if "_policies_" in path.name or "from unit.core.stage" in path.read_text(encoding="utf-8")
    )


def parts_there(folder: Path) -> list[list[str]]:
    """All tests that mutants are tried by, as far as a copy has them, in parts of one run each."""
    parts = [[test] for test in TESTS if (folder / test).exists()]
    trust = trust_tests(folder)
    return [*parts, trust] if trust else parts


def run_tests(
    folder: Path, tests: list[str], limit_s: float | None, noted: Noted | None = None
) -> str:
    """The first test that fails in a copy, "time" past the limit, empty if all pass."""
    paths = os.pathsep.join([*(str(folder / tree) for tree in TREES), PLUGINS])
    tool, plugin, more = noted.options() if noted else ((), (), {})
    command = [sys.executable, *tool, "-m", "pytest", *plugin]
    command += ["-x", "-q", "-rf", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **more}
    try:
        done = subprocess.run(
            # How long a test may take is a matter of the whole run here.
            [*command, "--timeout=0", *tests],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "time"
    if done.returncode == 0:
        return ""
    told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return told[0].split(" - ")[0] if told else f"status {done.returncode}"


def judged(mutant: Mutant, folders: SimpleQueue[Path], known: Tests) -> Verdict:
    """Plants a mutant in a free copy, runs the tests, and takes it out again."""
    folder = folders.get()
    path = folder / mutant.file
    original = path.read_text(encoding="utf-8")
    tests = known.of(mutant.file, mutant.line)
    limit_s = LIMIT_LEAST_S + LIMIT_FACTOR * sum(known.seconds[name] for name in tests)
    try:
        path.write_text(mutant.code, encoding="utf-8")
        # Without arguments all there is would run.
        found_by = run_tests(folder, tests, limit_s) if tests else ""
        verdict = Verdict(mutant=mutant, found_by=found_by)
    finally:
        path.write_text(original, encoding="utf-8")
        folders.put(folder)
    print(f"{'found   ' if verdict.found_by else 'SURVIVED'} {mutant.name}", flush=True)
    if verdict.found_by:
        print(f"         {verdict.found_by}", flush=True)
    return verdict


def main() -> int:
    """Draws, tries, tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    given = parser.parse_args()
    mutants = chosen(given.count, given.seed)
    if given.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    with tempfile.TemporaryDirectory(prefix="wattfold-mutants-") as name:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            folders.put(copy_of_checkout(Path(name) / str(number)))
        runs, failed = noted_runs(folders, given.workers, Path(name) / "noted")
        if failed:
            print(f"the code as it is fails its tests: {failed}", file=sys.stderr)
            return 2
        known = tests_of([(noted.data, noted.times) for noted in runs], Path(name) / "coverage")
        with ThreadPoolExecutor(given.workers) as pool:
            verdicts = list(pool.map(lambda mutant: judged(mutant, folders, known), mutants))
    found = sum(bool(verdict.found_by) for verdict in verdicts)
    share = found / len(verdicts)
    print(
        f"{found} of {len(verdicts)} found, {share:.1%} (target {FOUND_MIN:.0%}), seed {given.seed}"
    )
    return 0 if share >= FOUND_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
