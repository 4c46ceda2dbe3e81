"""Real programs under a real agent: unchanged results, cost of a squeeze, verdicts of certify.

Each value is printed with its limit; the exit status is 1 if a limit is violated. The requested
programs and the built shim must be installed; see scripts/trial_programs.

    mode mask  random cores at random times: no crash, no hang, the result of an undisturbed run

    squeeze    GROMACS moved from two cores to one: at most 10 % slower than GROMACS started on
               one core, over the same steps (median of pairs)

    certified  `wattfold certify` reports that xtb tolerates a changing team, and that GROMACS and
               CP2K do not

    mode team  our own kernels (tests/system/shims/programs), on both OpenMP runtimes
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agent_runs import Order, Run, Steering, TrialAgent, TrialError, alone, started_agent
from inputs import Case, InputError, cp2k, gromacs, missing, xtb

from wattfold.shims.certify_compare import Comparison, difference
from wattfold.shims.locate import find_omp_shim

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "system" / "shims" / "programs"
KERNEL_ARGUMENTS = {"random": "1000", "sparse": "3000", "hydro": "4000"}
SQUEEZE_MAX = 1.10
RUNS_MAX = 100
LONGEST = 32
"""Maximum factor for the number of steps on a machine that is too fast for the requested steps."""
NAMES = ("gromacs", "cp2k", "xtb", "kernels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check."""

    program: str
    what: str
    found: str
    wanted: str
    held: bool
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Numbers of runs and steps."""

    resizes: int
    pairs: int
    edge_nm: float
    steps: int
    carbons: int
    cp2k_steps: int
    seed: int
    certify: bool


FULL = Size(
    resizes=1000, pairs=7, edge_nm=3.0, steps=3000, carbons=120, cp2k_steps=6, seed=1, certify=True
)
SMALL = replace(FULL, resizes=20, pairs=1, edge_nm=2.2, steps=1000, carbons=40, cp2k_steps=1)


Compare = Callable[[Run, Run], str | None]
"""The first difference between two runs, None if they agree."""


def resized(agent: TrialAgent, order: Order, compare: Compare, size: Size) -> Finding:
    """Runs of a program under random masks, each against an undisturbed run."""
    both = replace(order, cpus=agent.cpus)
    first = agent.run(both, alone)
    if first.bad_end:
        raise TrialError(f"{order.argv[0]}, left alone: {first.bad_end}")
    limited = replace(both, limit_s=20 * first.seconds + 60)
    chance = random.Random(size.seed)
    masks = confined = runs = 0
    wrong = ""
    seconds: list[float] = []
    while masks < size.resizes and runs < RUNS_MAX and not wrong:
        left = size.resizes - masks
        run = agent.run(limited, lambda running, left=left: running.at_random(chance, left))
        runs, masks, confined = runs + 1, masks + run.masks, confined + run.confined
        seconds.append(run.seconds)
        wrong = run.bad_end or compare(first, run) or ""
    if masks < size.resizes and not wrong:
        wrong = f"only {masks} resizes in {runs} runs"
    told = f", {confined} not acknowledged in time" if confined else ""
    return Finding(
        program=Path(order.argv[0]).name,
        what=f"mode {order.mode}",
        found=wrong or f"{masks} resizes in {runs} runs{told}: agree",
        wanted=f"{size.resizes} resizes, no crash, no hang",
        held=not wrong,
        seconds=sum(seconds),
    )


def of_case(case: Case, **more: str) -> Order:
    """A case in the form that the agent runs."""
    return Order(
        argv=case.argv, folder=case.folder, outputs=case.outputs, environment=more, cpus=()
    )


def in_mask_mode(agent: TrialAgent, case: Case, size: Size) -> Finding:
    """Check a real program under random masks."""

    def compare(first: Run, run: Run) -> str | None:
        return difference(first.outputs, run.outputs, case.how)

    found = resized(agent, of_case(case), compare, size)
    return replace(found, program=case.name, wanted=f"{found.wanted}; {case.quantity}")


def squeeze(agent: TrialAgent, case: Case, size: Size) -> Finding:
    """Put GROMACS on one core while it runs, and compare it with a run that started there.

    GROMACS counts its time from a fifth of its steps on, which is after the squeeze. If a fifth is
    over before the squeeze takes effect, the pair is repeated with twice the steps.
    """
    begin_s = time.monotonic()
    steps, ratios = size.steps, list[float]()
    while len(ratios) < size.pairs:
        ratio = squeezed(agent, case, steps)
        if ratio is not None:
            ratios.append(ratio)
        elif steps >= LONGEST * size.steps:
            raise TrialError(f"GROMACS counted before it was squeezed, with {steps} steps too")
        else:
            steps, ratios = 2 * steps, []
    median = statistics.median(ratios)
    return Finding(
        program=case.name,
        what="squeeze 2 -> 1",
        found=f"{median:.3f} times ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)",
        wanted=f"at most {SQUEEZE_MAX:g} times the run that started on one core",
        held=median <= SQUEEZE_MAX,
        seconds=time.monotonic() - begin_s,
    )


def squeezed(agent: TrialAgent, case: Case, steps: int) -> float | None:
    """Time of the squeezed run divided by the time of the other run; None if the squeeze was too
    late.
    """
    argv = [*case.argv, "-resetstep", str(steps // 5)]
    argv[argv.index("-nsteps") + 1] = str(steps)
    order = replace(of_case(case), argv=tuple(argv), outputs=("md.log",))
    begun = timed(agent.run(replace(order, cpus=agent.cpus[:1]), alone))
    at: list[float] = []

    def put_on_one(running: Steering) -> None:
        log = running.folder / "md.log"
        while not running.over(0.02):
            if log.exists() and "Started mdrun" in log.read_text(errors="replace"):
                running.mask(agent.cpus[:1])
                at.append(time.monotonic() - running.started_s)
                return

    run = agent.run(replace(order, cpus=agent.cpus), put_on_one)
    after = timed(run)
    return after / begun if at and at[0] <= run.seconds - after else None


def timed(run: Run) -> float:
    """Seconds of a run of GROMACS by its own count."""
    if run.bad_end:
        raise TrialError(f"GROMACS: {run.bad_end}")
    found = re.search(r"^\s+Time:\s+[\d.]+\s+([\d.]+)", run.outputs["md.log"].decode(), re.M)
    if found is None:
        raise TrialError("GROMACS did not say how long it took")
    return float(found[1])


def certified(case: Case, shim: Path, size: Size) -> Finding:
    """Check the verdict of `wattfold certify`."""
    how = case.how
    options = [
        *("--json", "--no-store", "--no-stdout", "--threads", "2", "--shim", str(shim)),
        *("--folder", str(case.folder), "--relative", str(how.relative)),
        *("--absolute", str(how.absolute), "--seed", str(size.seed)),
    ]
    options += [word for name in case.outputs for word in ("--compare", name)]
    command = [sys.executable, "-m", "wattfold.coordinator.cli.main", "certify", *options, "--"]
    begin_s = time.monotonic()
    done = subprocess.run([*command, *case.argv], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):
        raise TrialError(f"wattfold certify {case.name}: {done.stderr.strip()[-300:]}")
    told = json.loads(done.stdout)["certificate"]
    reason = f": {told['reason']}" if told["reason"] else ""
    changes = f"{told['acknowledged']} changes in {told['resized_runs']} runs"
    return Finding(
        program=case.name,
        what="certified",
        found=f"{told['mode']} ({changes}{reason})",
        wanted="team" if case.fit else "mask: not fit for team mode",
        held=(told["mode"] == "team") == case.fit,
        seconds=time.monotonic() - begin_s,
    )


def kernels(agent: TrialAgent, folder: Path, size: Size) -> Iterator[Finding]:
    """Check kernels in mode team, built by each available compiler."""
    empty = folder / "empty"
    empty.mkdir()
    for compiler in ("gcc", "clang"):
        for name, argument in KERNEL_ARGUMENTS.items():
            program = folder / f"{name}-{compiler}"
            if said := compiled(compiler, KERNELS / f"kernel_{name}.c", program):
                print(f"trial: left out, {compiler} cannot build it: {said}", file=sys.stderr)
                break
            order = Order(
                argv=(str(program), argument),
                folder=empty,
                mode="team",
                environment={"OMP_MAX_ACTIVE_LEVELS": "2"},
                cpus=(),
            )
            found = resized(agent, order, same_kernel, size)
            yield replace(found, wanted=f"{found.wanted}; every bit, open sums within 1e-12")


def same_kernel(first: Run, run: Run) -> str | None:
    """Compare every bit of the lines "exact".

    Sums with an order left open by OpenMP are on other lines.
    """
    exact, near = Comparison(ignore=("^near",)), Comparison(relative=1e-12, ignore=("^exact",))
    return difference(first.outputs, run.outputs, exact) or difference(
        first.outputs, run.outputs, near
    )


def compiled(compiler: str, source: Path, program: Path) -> str:
    """Build a kernel. Return the error output of the compiler, empty if none."""
    flags = ("-std=gnu11", "-O2", "-fopenmp", "-o", str(program), str(source), "-lm")
    try:
        done = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip()[-200:] if done.returncode else ""


def cases(names: Iterable[str], place: Path, size: Size) -> list[Case]:
    """The requested real programs with their inputs."""
    makers: dict[str, Callable[[], Case]] = {
        "gromacs": lambda: gromacs(place, edge_nm=size.edge_nm, steps=size.steps),
        "cp2k": lambda: cp2k(place, steps=size.cp2k_steps),
        "xtb": lambda: xtb(place, carbons=size.carbons),
    }
    wanted = [name for name in names if name in makers]
    if absent := [name for name in wanted if missing(name)]:
        raise TrialError(f"not installed: {', '.join(absent)}; see scripts/trial_programs")
    return [makers[name]() for name in wanted]


def findings(names: tuple[str, ...], size: Size, shim: Path, place: Path) -> Iterator[Finding]:
    """Run all requested checks in turn."""
    with started_agent(shim) as agent:
        for case in cases(names, place, size):
            yield in_mask_mode(agent, case, size)
            if case.name == "gromacs" and size.pairs:
                yield squeeze(agent, case, size)
            if size.certify:
                yield certified(case, shim, size)
        if "kernels" in names:
            yield from kernels(agent, place, size)


def line(finding: Finding) -> str:
    """A check result as text."""
    mark = "ok  " if finding.held else "FAIL"
    return (
        f"{mark} {finding.program:<14} {finding.what:<15} {finding.seconds:6.1f} s  {finding.found}"
        f"\n{'':40}wanted: {finding.wanted}"
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="trial_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {','.join(NAMES)}")
    parser.add_argument("--small", action="store_true", help="a few resizes, for a look")
    parser.add_argument("--resizes", type=int, help=f"of each program (default {FULL.resizes})")
    parser.add_argument("--pairs", type=int, help=f"of squeezes (default {FULL.pairs}); 0: none")
    parser.add_argument("--seed", type=int, help="of the random masks (default 1)")
    parser.add_argument("--no-certify", action="store_true", help="leave the verdicts out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the findings there")
    given = parser.parse_args()
    given.only = tuple(filter(None, given.only.split(",")))
    if unknown := set(given.only) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return given


def size_of(given: argparse.Namespace) -> Size:
    size = SMALL if given.small else FULL
    for name in ("resizes", "pairs", "seed"):
        value = getattr(given, name)
        if value is not None:
            size = replace(size, **{name: value})
    return replace(size, certify=not given.no_certify)


def main() -> int:
    given = options()
    size = size_of(given)
    machine = {
        "cores": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 2),
    }
    shim = find_omp_shim()
    if shim is None:
        print("trial: the shim is not built; run scripts/build_shims", file=sys.stderr)
        return 2
    found: list[Finding] = []
    try:
        with tempfile.TemporaryDirectory(prefix="wf-trial-") as place:
            for finding in findings(given.only, size, shim, Path(place)):
                found.append(finding)
                print(line(finding), flush=True)
    except (TrialError, InputError) as error:
        print(f"trial: {error}", file=sys.stderr)
        return 2
    if given.json is not None:
        report = {"machine": machine, "size": asdict(size), "findings": [asdict(f) for f in found]}
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    failed = sum(not finding.held for finding in found)
    print(f"trial: {len(found) - failed} of {len(found)} held, on {machine['cores']} cores")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
