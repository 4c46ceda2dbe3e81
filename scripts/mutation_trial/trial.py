"""Run the tests of some rooms on every selected mutant, in copies of the checkout.

    found      a test failed, or the tests did not end in time
    survived   all tests passed: a hole in the tests, or a mutant that changes nothing

All tests run once on the original code under coverage, several at a time. A mutant is then tested
with the tests that execute its line, the shortest first, until a test fails.

Exits with status 1 if fewer than 95 % are found, and with status 2 if the original code fails.
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

from mutants import ROOMS, ROOT, Mutant, chosen
from noting import TIMES
from selection import RULES, Tests, tests_of

SEED = 20261122
COUNT = 100
FOUND_MIN = 0.95
TREES = ("proto/src", "proto/gen/python", "coordinator/src", "nodeagent/src", "runtime_shims/src")
COPIED = ("proto", "coordinator", "nodeagent", "runtime_shims/src", "tests", "pyproject.toml")
_DECISIONS = (
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
TESTS = {
    "core": _DECISIONS,
    "policies": _DECISIONS,
    "adapters": ("tests/unit/adapters",),
    "results": ("tests/unit/results", "tests/unit/pool", "tests/unit/runs"),
    "nodeagent": (
        "tests/unit/agent",
        "tests/contract/agent",
        "tests/property/agent",
        "tests/property/steps",
    ),
}
"""Tests by room. Coverage does not see lines executed in processes that tests start."""
FOUND = "tests/found/test_found_22_*.py"
"""Tests for all rooms: their rules had no test until mutants showed it."""
LIMIT_FACTOR, LIMIT_LEAST_S = 4, 60.0
PLUGINS = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result for a mutant: the test that found it, empty if it survived."""

    mutant: Mutant
    found_by: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Folder for the recorded coverage and times of a test run."""

    folder: Path

    @property
    def data(self) -> Path:
        """The data file of coverage."""
        return self.folder / "coverage"

    @property
    def times(self) -> Path:
        """Seconds by test."""
        return self.folder / "times.json"

    def options(self) -> tuple[Sequence[str], Sequence[str], dict[str, str]]:
        """Return the options that start pytest, options of pytest, and variables."""
        rules = self.folder / "coveragerc"
        rules.write_text(RULES.format(data=self.data), encoding="utf-8")
        tool = ("-m", "coverage", "run", f"--rcfile={rules}")
        return tool, ("-p", "noting"), {TIMES: str(self.times)}


def copy_of_checkout(folder: Path) -> Path:
    """Copy and compile the files that tests need. Changes are detected by content, not by time."""
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


def noted_runs(
    folders: SimpleQueue[Path], workers: int, place: Path, rooms: Sequence[str]
) -> tuple[list[Noted], str]:
    """Run all parts of the tests once on the original code.

    Return also the first failure, or "".
    """
    some = folders.get()
    parts = parts_there(some, rooms)
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
    """Tests of `tests/trust` that drive the core directly, and tests of policies."""
    return sorted(
        str(path.relative_to(folder))
        for path in (folder / "tests/trust").glob("test_*.py")
        if "_policies_" in path.name or "from unit.core.stage" in path.read_text(encoding="utf-8")
    )


def parts_there(folder: Path, rooms: Sequence[str]) -> list[list[str]]:
    """All existing tests for these rooms, grouped into parts of one run each."""
    rules = sorted(str(one.relative_to(folder)) for one in folder.glob(FOUND))
    tests = dict.fromkeys([*(test for room in rooms for test in TESTS[room]), *rules])
    parts = [[test] for test in tests if (folder / test).exists()]
    trust = trust_tests(folder) if {"core", "policies"} & {*rooms} else []
    return [*parts, trust] if trust else parts


def run_tests(
    folder: Path, tests: list[str], limit_s: float | None, noted: Noted | None = None
) -> str:
    """Return the first failed test in a copy, "time" after the limit, empty if all pass."""
    paths = os.pathsep.join([*(str(folder / tree) for tree in TREES), PLUGINS])
    tool, plugin, more = noted.options() if noted else ((), (), {})
    command = [sys.executable, *tool, "-m", "pytest", *plugin]
    command += ["-x", "-q", "-rf", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **more}
    try:
        done = subprocess.run(
            # The limit applies to the whole run here, not to each test.
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
    """Put a mutant into a free copy, run the tests, and restore the file."""
    folder = folders.get()
    path = folder / mutant.file
    original = path.read_text(encoding="utf-8")
    tests = known.of(mutant.file, mutant.line)
    limit_s = LIMIT_LEAST_S + LIMIT_FACTOR * sum(known.seconds[name] for name in tests)
    try:
        path.write_text(mutant.code, encoding="utf-8")
        # Without arguments, pytest would run all tests.
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
    """Select mutants, test them, and report the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--rooms", nargs="+", choices=ROOMS, default=list(ROOMS), help="what is changed"
    )
    parser.add_argument("--list", action="store_true", help="only name the mutants")
    given = parser.parse_args()
    mutants = chosen(given.count, given.seed, given.rooms)
    if given.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    with tempfile.TemporaryDirectory(prefix="wattfold-mutants-") as name:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            folders.put(copy_of_checkout(Path(name) / str(number)))
        runs, failed = noted_runs(folders, given.workers, Path(name) / "noted", given.rooms)
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
