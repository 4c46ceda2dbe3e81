#!/usr/bin/env python3
"""Measure the speed and memory of the simulator; check the budget and identical results.

Every run is a separate process, so that start-up, reading and peak memory are its own. The median
of several runs counts. Targets are 36,000 jobs/s of CPU time on the KTH log under EASY, without and
with start-up and reading (quoted with them: CQSim 3,600, pyss 9,200). Curie's partition 10 under
EASY must take at most 60 s and 2 GB, and 1,000 jobs of Mira under PARM wSE at most 60 s. A case
with 512 nodes that sleep, whose jobs wait for the boots of hundreds of nodes, must take at most
20 s. No run may exceed the budget, and two runs must be identical. Exits with status 1 if a target
is missed.

Logs come from the folder WATTFOLD_WORKLOADS or its subfolder `workloads`. A missing log is replaced
by a log with the same number of jobs from the Lublin model, and the line says so.

    scripts/benchmarks/simulator.py [--runs 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from wattfold.coordinator.policies.driver.sleep_plan import SleepRules
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.runs.build import jobs_of, simulation_of
from wattfold.simulator.runs.case import PolicyChoice, SimulationCase, SleepCase, WorkloadSource

GB = 1_000_000_000
NS_PER_S = 1_000_000_000
SLEEPING = Machine.of_watts(512)
MIRA_CAPS_UW = tuple(watts * 1_000_000 for watts in (30, 33, 36, 44, 50, 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One log under one policy. A target of 0 means no target."""

    name: str
    log: str
    """Empty: jobs of the Lublin model."""
    machine: Machine
    policy: PolicyChoice
    budget_w: float = 0.0
    procs_per_node: int = 1
    gamma: float = 1.0
    jobs: int = 0
    """Number of jobs to which a log is cut, or which a model generates instead."""
    cut_sizes: bool = False
    jobs_per_s: float = 0.0
    seconds: float = 0.0
    bytes_most: float = 0.0
    sleep: SleepRules | None = None


SETTINGS = {
    "kth": Setting(
        name="KTH SP2, EASY",
        log="kth_sp2.swf.gz",
        machine=Machine.of_watts(100),
        policy=PolicyChoice(name="easy"),
        jobs=28_481,
        jobs_per_s=36_000,
    ),
    "curie": Setting(
        name="Curie partition 10, EASY",
        log="curie_2011_partition10.swf.gz",
        machine=Machine.of_watts(5040),
        policy=PolicyChoice(name="easy"),
        procs_per_node=16,
        jobs=198_509,
        seconds=60,
        bytes_most=2 * GB,
    ),
    "mira": Setting(
        name="Mira, PARM wSE",
        log="mira_2018.swf.gz",
        machine=Machine.of_watts(55_248, idle_w=0),
        policy=PolicyChoice(name="parm-wse", caps_uw=MIRA_CAPS_UW),
        budget_w=4_751_360,
        gamma=0.5,
        jobs=1000,
        cut_sizes=True,
        seconds=60,
    ),
    "sleep": Setting(
        name="512 nodes that sleep, PBS",
        log="",
        machine=SLEEPING,
        policy=PolicyChoice(name="pbs-fifo"),
        budget_w=45_000,
        jobs=30,
        cut_sizes=True,
        seconds=20,
        sleep=SleepRules(
            idle_uw=SLEEPING.idle_uw,
            asleep_uw=5_000_000,
            boot_uw=150_000_000,
            boot_ns=180 * NS_PER_S,
            suspend_ns=30 * NS_PER_S,
            boots_max=8,
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Measurements of a single process; times in s."""

    jobs: int
    cpu_s: float
    """The whole process: interpreter, imports, reading, simulation."""
    wall_s: float
    read_s: float
    simulate_cpu_s: float
    simulate_wall_s: float
    peak_bytes: int
    over_budget_s: float
    digest: str


def main() -> int:
    arguments = _arguments()
    if arguments.one:
        print(json.dumps(asdict(_one(arguments.one, arguments.seed))))
        return 0
    results = {}
    for key in arguments.only or SETTINGS:
        runs = [_process(key) for _ in range(max(arguments.runs, 2))]
        setting = SETTINGS[key]
        results[key] = (_measured(setting, runs), not setting.log or _log(setting.log) is not None)
    if arguments.json:
        print(json.dumps({key: values for key, (values, _) in results.items()}, indent=2))
    else:
        _print(results)
    return 0 if all(values["met"] for values, _ in results.values()) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="processes a setting, at least 2")
    parser.add_argument("--only", choices=SETTINGS, nargs="+", help="default: all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", choices=SETTINGS, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _log(name: str) -> Path | None:
    root = os.environ.get("WATTFOLD_WORKLOADS")
    places = [Path(root) / "workloads" / name, Path(root) / name] if root else []
    return next((path for path in places if path.is_file()), None)


def _source(setting: Setting) -> WorkloadSource:
    path = _log(setting.log)
    source = WorkloadSource(
        log=path,
        model="" if path else "lublin",
        jobs=setting.jobs,
        count=setting.jobs if path and setting.cut_sizes else None,
        gamma=setting.gamma,
        cut_sizes=setting.cut_sizes,
        profiles=setting.policy.name.startswith("parm"),
    )
    return replace(source, procs_per_node=setting.procs_per_node) if path else source


def _one(key: str, seed: int) -> Run:
    """Read, simulate and measure in a separate process."""
    setting = SETTINGS[key]
    watts = setting.budget_w or setting.machine.full_uw / 1e6
    case = SimulationCase(
        source=_source(setting),
        machine=setting.machine,
        budget=BudgetSchedule.constant(round(watts * 1e6)),
        policy=setting.policy,
        sleep=SleepCase(rules=setting.sleep) if setting.sleep else None,
        seed=seed,
    )
    began_s = time.process_time()
    table, _ = jobs_of(case)
    simulation = simulation_of(case, table)
    read_s = time.process_time() - began_s
    began_s, began_wall_s = time.process_time(), time.perf_counter()
    simulation.run()
    simulate_cpu_s = time.process_time() - began_s
    simulate_wall_s = time.perf_counter() - began_wall_s
    record = simulation.record()
    return Run(
        jobs=len(table),
        cpu_s=0.0,
        wall_s=0.0,
        read_s=read_s,
        simulate_cpu_s=simulate_cpu_s,
        simulate_wall_s=simulate_wall_s,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        over_budget_s=_over_budget_s(record.over_budget_ns, record.series),
        digest=_digest(record.columns, record.series, record.energy_uj),
    )


def _over_budget_s(counted_ns: int, series: object) -> float:
    """Time over budget as counted by the simulator, or by its series if that is longer."""
    over = series.committed_uw[:-1] > series.budget_uw[:-1]
    return max(counted_ns, int(np.diff(series.time_ns)[over].sum())) / 1e9


def _digest(*parts: object) -> str:
    """Digest of all results of a run except its own timings."""
    import hashlib

    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, int):
            digest.update(str(part).encode())
            continue
        for name in sorted(part.__slots__):
            values = getattr(part, name)
            if values is None:  # A column that this run does not have.
                continue
            texts = values.dtype == object
            data = "|".join(map(str, values)).encode() if texts else values.tobytes()
            digest.update(name.encode() + data)
    return digest.hexdigest()


def _process(key: str) -> Run:
    """Run in a separate process and add the CPU time of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--one", key], capture_output=True, text=True, check=False
    )
    wall_s = time.perf_counter() - began_s
    if done.returncode:
        raise SystemExit(f"{key}: the run failed:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return replace(Run(**json.loads(done.stdout)), cpu_s=cpu_s, wall_s=wall_s)


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return statistics.median(map(of, runs))


def _measured(setting: Setting, runs: Sequence[Run]) -> dict[str, object]:
    values: dict[str, object] = {
        "name": setting.name,
        "log": str(_log(setting.log).name) if _log(setting.log) else f"lublin, no {setting.log}",
        "jobs": runs[0].jobs,
        "runs": len(runs),
        "jobs_per_cpu_s": _median(runs, lambda run: run.jobs / run.simulate_cpu_s),
        "jobs_per_cpu_s_whole_process": _median(runs, lambda run: run.jobs / run.cpu_s),
        "read_cpu_s": _median(runs, lambda run: run.read_s),
        "simulate_cpu_s": _median(runs, lambda run: run.simulate_cpu_s),
        "cpu_s": _median(runs, lambda run: run.cpu_s),
        "wall_s": _median(runs, lambda run: run.wall_s),
        "peak_bytes": max(run.peak_bytes for run in runs),
        "over_budget_s": max(run.over_budget_s for run in runs),
        "alike": len({run.digest for run in runs}) == 1,
    }
    checks = {
        "speed": not setting.jobs_per_s or values["jobs_per_cpu_s"] >= setting.jobs_per_s,
        "speed with start-up and reading": (
            # Generating jobs is not reading a log.
            not (setting.jobs_per_s and _log(setting.log))
            or values["jobs_per_cpu_s_whole_process"] >= setting.jobs_per_s
        ),
        "time": not setting.seconds or values["wall_s"] <= setting.seconds,
        "memory": not setting.bytes_most or values["peak_bytes"] <= setting.bytes_most,
        "budget": values["over_budget_s"] == 0,
        "alike": values["alike"],
    }
    return values | {
        "target_jobs_per_s": setting.jobs_per_s,
        "target_s": setting.seconds,
        "target_bytes": setting.bytes_most,
        "checks": checks,
        "met": all(checks.values()),
    }


def _print(results: dict[str, tuple[dict[str, object], bool]]) -> None:
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} cpus; "
        "medians, CPU time of one process"
    )
    print(
        f"{'':<26}{'jobs':>9}{'read s':>8}{'run s':>8}{'whole s':>9}{'wall s':>8}"
        f"{'jobs/s':>9}{'whole':>8}{'peak MB':>9}{'over s':>8}  alike"
    )
    for values, real in results.values():
        print(
            f"{values['name']:<26}{values['jobs']:>9,}{values['read_cpu_s']:>8.2f}"
            f"{values['simulate_cpu_s']:>8.2f}{values['cpu_s']:>9.2f}{values['wall_s']:>8.2f}"
            f"{values['jobs_per_cpu_s']:>9,.0f}{values['jobs_per_cpu_s_whole_process']:>8,.0f}"
            f"{values['peak_bytes'] / 1e6:>9,.0f}{values['over_budget_s']:>8g}  "
            f"{'yes' if values['alike'] else 'NO'}"
            + ("" if real else f"  {values['log']} in WATTFOLD_WORKLOADS")
        )
    for values, real in results.values():
        missed = [name for name, met in values["checks"].items() if not met]
        parts = [
            f"{values['target_jobs_per_s']:,.0f} jobs/s" if values["target_jobs_per_s"] else "",
            f"{values['target_s']:g} s" if values["target_s"] else "",
            f"{values['target_bytes'] / GB:g} GB" if values["target_bytes"] else "",
            "never over budget, runs alike",
        ]
        verdict = f"NOT met: {', '.join(missed)}" if missed else "met"
        on = "" if real else " (on drawn jobs)"
        print(f"{values['name']}: target {', '.join(filter(None, parts))}: {verdict}{on}")


if __name__ == "__main__":
    raise SystemExit(main())
