"""Measure the cost of the OpenMP shim, its reaction time and the cost of a shrink. Not a test.

Values depend on the machine and its other load. The targets come with the values of DLB/DROM (after
version 3.7.0) measured on a two-core virtual machine: quoted, not measured here.

- Nanoseconds: programs with and without the shim take turns in many short runs. Each run has
  another layout of the heap, which alone moves an empty region by 30 ns. The lowest median of all
  runs counts. "pairs" is the median difference of neighbouring runs.
- Latencies: masks are sent in blocks of ten. Blocks in which other programs took more than a tenth
  of a core are omitted. If too few blocks remain, all count and the line says "busy".
- ``--real-time`` puts agent, shim and program into the real-time class, as in the measurements of
  DLB.

    scripts/build_shims && python scripts/benchmarks/shims.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import select
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import zmq
from shims_machine import Others, take_real_time, take_short_turns

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.shim_protocol import ShimFlags, ShimMessage, ShimMessageType
from wattfold.nodeagent.adapters.shims.shim_notice import NoticeFile
from wattfold.shims.locate import find_omp_shim

MISSED = "NOT met"
ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("shims_probe.c")
DEADLINE_MS = 20_000
NOTICE_MS = 1
BLOCK_MASKS = 10
QUIET_SHARE = 0.1
SEED = 1
LAYOUT_STEP_BYTES, LAYOUT_BYTES = 1184, 8192
SQUEEZE_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured value: median, 99th percentile, target, and the value of DLB."""

    name: str
    unit: str
    p50: float
    p99: float | None = None
    target_p50: float | None = None
    target_p99: float | None = None
    dlb: str = ""

    def met(self) -> str:
        """The verdict in one word, empty without a target."""
        pairs = [(self.p50, self.target_p50), (self.p99, self.target_p99)]
        asked = [(value, most) for value, most in pairs if most is not None]
        if not asked:
            return ""
        good = all(value is not None and value <= most for value, most in asked)
        return "met" if good else MISSED


def row(
    name: str,
    unit: str,
    values: list[float],
    p50: float | None = None,
    p99: float | None = None,
    dlb: str = "",
) -> Row:
    """A row from single measurements; percentiles by nearest rank."""
    ordered = sorted(values)
    last = ordered[max(-(-len(ordered) * 99 // 100) - 1, 0)]
    return Row(
        name=name,
        unit=unit,
        p50=statistics.median(ordered),
        p99=last,
        target_p50=p50,
        target_p99=p99,
        dlb=dlb,
    )


# ---- programs and agent --------------------------------------------------------------------------


def build_probe(folder: Path, compiler: str) -> Path:
    """Compile the measured program. Raises CalledProcessError if the compiler fails."""
    program = folder / f"probe-{compiler}"
    include, library = ROOT / "runtime_shims/include", ROOT / "build/shims/libwattfold.a"
    subprocess.run(
        [compiler, "-O2", "-fopenmp", f"-I{include}", "-o", program, PROBE, library, "-ldl"],
        env={**os.environ, "CPATH": ""},
        check=True,
    )
    return program


@contextmanager
def agent_socket(folder: Path) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """A ROUTER socket as an agent has it, and its endpoint."""
    endpoint = f"ipc://{folder}/shim.sock"
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.setsockopt(zmq.LINGER, 0)
        router.bind(endpoint)
        take_short_turns()
        yield router, endpoint


def environment(threads: int, shim: Path | None, endpoint: str, **more: str) -> dict[str, str]:
    """Variables of a job in team mode, or of a plain program without a shim."""
    plain = {**os.environ, "OMP_NUM_THREADS": str(threads), **more}
    if shim is None:
        return plain
    # As the agent sets them (core/launch.py).
    waiting = {} if "OMP_WAIT_POLICY" in more else {"KMP_BLOCKTIME": "1"}
    return {
        "KMP_AFFINITY": "disabled",
        **waiting,
        **plain,
        "LD_PRELOAD": str(shim),
        "WATTFOLD_SHIM_ENDPOINT": endpoint,
        "WATTFOLD_RESIZE_MODE": "team",
        "WATTFOLD_LAUNCH_CPUS": str(threads),
    }


def wait_for(router: zmq.Socket[bytes], kind: ShimMessageType, seq: int) -> bytes:
    """Wait for a message of a kind and a seq; return the peer's identity."""
    while router.poll(DEADLINE_MS):
        identity, frame = router.recv_multipart()
        message = ShimMessage.unpack(frame)
        if message.type is kind and message.seq == seq:
            return identity
    raise TimeoutError(f"no {kind.name} {seq} within {DEADLINE_MS} ms")


def acknowledged(router: zmq.Socket[bytes], seq: int, within_ms: int) -> bool:
    """Whether a mask is acknowledged soon."""
    end = time.monotonic() + within_ms / 1000
    while (left := end - time.monotonic()) > 0 and router.poll(math.ceil(left * 1000)):
        message = ShimMessage.unpack(router.recv_multipart()[1])
        if message.type is ShimMessageType.ACK and message.seq == seq:
            return True
    return False


def mask(seq: int, cores: int, notice: NoticeFile) -> bytes:
    """Write a mask to the notice, as the agent does, and return its message."""
    notice.write(cores, seq)
    return ShimMessage(
        type=ShimMessageType.MASK,
        flags=ShimFlags.TEAM_FOLLOWS,
        seq=seq,
        cores=cores,
        notice=notice.number,
        text=str(CpuSet.of(range(cores))),
    ).pack()


def numbers(probe: Path, variables: dict[str, str], *arguments: object) -> list[float]:
    """Values measured by a run of the probe itself."""
    command = [str(probe), *(str(argument) for argument in arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


# ---- measurements --------------------------------------------------------------------------------


def lowest(name: str, runs: list[list[float]], p50: float | None = None, dlb: str = "") -> Row:
    """A row of nanoseconds: the lowest median of a run, and the 99th percentile of all values."""
    everything = row(name, "ns", [value for run in runs for value in run], p50=p50, dlb=dlb)
    return replace(everything, p50=min(statistics.median(run) for run in runs))


def poll_cost(probe: Path, shim: Path, endpoint: str, rounds: int) -> list[Row]:
    """Cost of a poll with its loop, and of the loop alone."""
    taken: dict[str, list[list[float]]] = {"polls": [], "loops": []}
    for _ in range(rounds):
        for kind, runs in taken.items():
            runs.append(numbers(probe, environment(1, shim, endpoint), kind, 40, 1_000_000))
    return [
        lowest("poll, nothing pending, in a loop", taken["polls"], p50=1.0, dlb="14-20"),
        lowest("  the loop alone", taken["loops"]),
    ]


def region_cost(
    probe: Path, shim: Path, endpoint: str, rounds: int, name: str, threads: int
) -> list[Row]:
    """Cost of an empty region. Plain and shimmed runs take turns, so that load affects both."""
    batches = ("regions", 25, 5_000 if threads == 1 else 1_000)
    runs: dict[bool, list[list[float]]] = {False: [], True: []}
    for turn in range(8 * rounds):
        layout = 16 + turn * LAYOUT_STEP_BYTES % LAYOUT_BYTES
        for with_shim in (False, True) if turn % 2 else (True, False):
            told = environment(threads, shim if with_shim else None, endpoint)
            runs[with_shim].append(numbers(probe, told, *batches, layout))
    label = f"empty region, {name}, {threads} thread" + "s" * (threads > 1)
    before, after = lowest(f"{label}, plain", runs[False]), lowest(f"{label}, shim", runs[True])
    medians = {shimmed: [statistics.median(run) for run in runs[shimmed]] for shimmed in runs}
    pairs = [b - a for a, b in zip(medians[False], medians[True], strict=True)]
    target, dlb = (30.0, "about 100") if threads == 2 else (None, "")
    more = {"difference": after.p50 - before.p50, "difference, pairs": statistics.median(pairs)}
    return [
        before,
        after,
        *(
            Row(name=f"  {what}", unit="ns", p50=value, target_p50=target, dlb=dlb)
            for what, value in more.items()
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A mask that was sent and acknowledged."""

    cores: int
    at_ns: int
    acknowledged_us: float
    quiet: bool
    """Whether hardly any other program ran on the machine."""


def send_masks(
    router: zmq.Socket[bytes],
    identity: bytes,
    notice: NoticeFile,
    process: int,
    region_us: int,
    masks: int,
    real_time: bool,
) -> list[Sent]:
    """Send masks of one and two cores in turn, each after the last was acknowledged and seen."""
    sent: list[Sent] = []
    others = Others(os.getpid(), process)
    chance = random.Random(SEED)
    for first in range(1, masks + 1, BLOCK_MASKS):
        block: list[Sent] = []
        for seq in range(first, first + BLOCK_MASKS):
            cores = 1 + (seq + 1) % 2
            start = time.monotonic_ns()
            frame = mask(seq, cores, notice)
            # As the agent: a program that starts regions may read the notice first.
            noticed = acknowledged(router, seq, NOTICE_MS)
            if not noticed:
                router.send_multipart([identity, frame])
                wait_for(router, ShimMessageType.ACK, seq)
            took = (time.monotonic_ns() - start) / 1000
            if noticed:
                router.send_multipart([identity, frame])
            block.append(Sent(cores=cores, at_ns=start, acknowledged_us=took, quiet=True))
            # Some regions pass, so that every mask is seen at a random point of a region.
            let_run(router, 1 + (3 + chance.random()) * region_us / 1000)
        quiet = real_time or others.share() < QUIET_SHARE
        sent += [replace(one, quiet=quiet) for one in block]
    return sent


def reaction(
    probe: Path, shim: Path, folder: Path, region_us: int, masks: int, name: str, real_time: bool
) -> list[Row]:
    """Time from sending a mask to its acknowledgement, and to the first region of the new size."""
    with (
        agent_socket(folder) as (router, endpoint),
        closing(NoticeFile(folder, os.geteuid())) as notice,
    ):
        process = subprocess.Popen(
            [probe, "react", str(region_us * 1000), "100000"],
            env=environment(2, shim, endpoint),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            identity = wait_for(router, ShimMessageType.HELLO, 0)
            let_run(router, 20)
            if real_time:
                take_real_time(process.pid)
            sent = send_masks(router, identity, notice, process.pid, region_us, masks, real_time)
            process.terminate()
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
            if real_time:
                take_real_time(process.pid, on=False)
    seen = [(int(team), float(at)) for team, at in map(str.split, output.splitlines())]
    return _reaction_rows(name, region_us, sent, delays(sent, seen))


def delays(sent: list[Sent], seen: list[tuple[int, float]]) -> list[float]:
    """Microseconds from each mask to the first region of its size.

    If the next mask came before such a region, the time until that mask: the true delay is longer.
    """
    late: list[float] = []
    ends = [one.at_ns for one in sent[1:]] + [int(seen[-1][1]) + 1]
    for one, end in zip(sent, ends, strict=True):
        at = [when for team, when in seen if team == one.cores and one.at_ns <= when < end]
        late.append(((at[0] if at else end) - one.at_ns) / 1000)
    return late


DLB_REACTION = {(1, 100): "44 / 112", (2, 100): "63 / 108", (1, 1000): "477 / 997"}
DLB_REACTION[2, 1000] = "523 / 1001"


def _reaction_rows(name: str, region_us: int, sent: list[Sent], late: list[float]) -> list[Row]:
    rows = []
    for cores, way in ((1, "shrink"), (2, "grow")):
        mine = [(one, size) for one, size in zip(sent, late, strict=True) if one.cores == cores]
        quiet = [(one, size) for one, size in mine if one.quiet]
        busy = len(quiet) < max(20, len(mine) // 10)
        taken = mine if busy else quiet
        label = f"{way}, {name}, {region_us} us regions{', busy' if busy else ''}"
        ack = [one.acknowledged_us for one, _ in taken]
        size = [size for _, size in taken]
        short = region_us == 100
        rows.append(row(f"{label}: mask to ACK", "us", ack, p50=200.0 if short else None))
        rows.append(
            row(
                f"{label}: to new size, n={len(taken)}",
                "us",
                size,
                p50=float(region_us),
                p99=2000.0,
                dlb=DLB_REACTION[cores, region_us],
            )
        )
    return rows


def let_run(router: zmq.Socket[bytes], milliseconds: float) -> None:
    """Let the program continue; statuses that arrive meanwhile are discarded."""
    end = time.perf_counter() + milliseconds / 1000
    while (left := end - time.perf_counter()) >= 0.001:
        if router.poll(int(left * 1000)):
            router.recv_multipart()
    # ZeroMQ waits for whole milliseconds, so masks would meet regions at the same point each time.
    select.select([], [], [], max(left, 0))


def squeeze_once(
    probe: Path, shim: Path | None, folder: Path, regions: int, policy: dict[str, str]
) -> float:
    """Nanoseconds per region after a program of two threads was squeezed onto one core."""
    first = min(os.sched_getaffinity(0))
    with (
        agent_socket(folder) as (router, endpoint),
        closing(NoticeFile(folder, os.geteuid())) as notice,
    ):
        process = subprocess.Popen(
            [probe, "squeezed", str(regions), "0" if shim is None else "1"],
            env=environment(2, shim, endpoint, **policy),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            if shim is not None:
                identity = wait_for(router, ShimMessageType.HELLO, 0)
                let_run(router, 20)
                router.send_multipart([identity, mask(1, 1, notice)])
                wait_for(router, ShimMessageType.ACK, 1)
            else:
                let_run(router, 20)
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                # Idle threads of the team may end meanwhile.
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task.name), {first})
            if not select.select([process.stdout], [], [], SQUEEZE_LIMIT_S)[0]:
                return 1e9 * SQUEEZE_LIMIT_S / regions  # at least: it has not ended
            return float(process.stdout.readline())
        finally:
            process.kill()
            process.wait()


def alone(probe: Path, regions: int) -> float:
    """The same program started with one thread on one core."""
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), probe]
    done = subprocess.run(
        [*command, "squeezed", str(regions), "0"],
        env=environment(1, None, ""),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


def squeeze(probe: Path, shim: Path, folder: Path, rounds: int, name: str) -> list[Row]:
    """A two-thread program shrunk to one core, against a run with one thread."""
    single: list[float] = []
    taken: dict[str, list[float]] = {"": [], "active": [], "passive": []}
    for _ in range(rounds):
        single.append(alone(probe, 5000))
        for policy, values in taken.items():
            told = {"OMP_WAIT_POLICY": policy} if policy else {}
            values.append(squeeze_once(probe, shim, folder, 5000, told))
    base = statistics.median(single)
    rows = []
    for policy, values in taken.items():
        label = f"2 threads shrunk to 1 core, {name}, {policy or 'default'} waiting"
        over = [100 * (value / base - 1) for value in values]
        rows.append(row(label, "% over 1", over, p50=5.0))
    plain = 100 * (squeeze_once(probe, None, folder, 50, {}) / base - 1)
    rows.append(Row(name=f"  without the shim, {name}", unit="% over 1", p50=plain))
    return rows


def measure(shim: Path, rounds: int, masks: int, real_time: bool) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="wf-") as name:
        folder = Path(name)
        compilers = {"gcc": "libgomp", "clang": "libomp"}
        probes = {
            runtime: build_probe(folder, compiler)
            for compiler, runtime in compilers.items()
            if shutil.which(compiler) is not None
        }
        with agent_socket(folder) as (_, endpoint):
            rows += poll_cost(probes["libgomp"], shim, endpoint, rounds)
            for runtime, probe in probes.items():
                for threads in (1, 2):
                    rows += region_cost(probe, shim, endpoint, rounds, runtime, threads)
        for runtime, probe in probes.items():
            for region_us in (100, 1000):
                rows += reaction(probe, shim, folder, region_us, masks, runtime, real_time)
            rows += squeeze(probe, shim, folder, rounds, runtime)
    return rows


# ---- output --------------------------------------------------------------------------------------


def cell(value: float | None) -> str:
    return f"{value:10.2f}" if value is not None else " " * 10


def show(rows: list[Row], machine: dict[str, object]) -> None:
    print(f"{machine['cpus']} cores, load before {machine['load_before']}, {machine['kernel']}")
    head = f"{'':<55}{'unit':<9}{'p50':>10}{'p99':>10}  {'target':<12}{'':<9}DLB (quoted)"
    print(head)
    for line in rows:
        targets = [f"{t:g}" for t in (line.target_p50, line.target_p99) if t is not None]
        print(
            f"{line.name:<55}{line.unit:<9}{cell(line.p50)}{cell(line.p99)}  "
            f"{' / '.join(targets):<12}{line.met():<9}{line.dlb}".rstrip()
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rounds", type=int, default=7, help="runs a table entry (default 7)")
    parser.add_argument("--masks", type=int, default=1000, help="masks a region length")
    parser.add_argument("--real-time", action="store_true", help="latencies in that class (root)")
    options = parser.parse_args()
    shim = find_omp_shim()
    if shim is None:
        parser.exit(1, "no shim found; run scripts/build_shims first\n")
    machine: dict[str, object] = {
        "cpus": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "kernel": f"{platform.system()} {platform.release()}",
    }
    try:
        rows = measure(shim, max(options.rounds, 1), max(options.masks, 2), options.real_time)
    except (TimeoutError, OSError, subprocess.SubprocessError) as error:
        parser.exit(1, f"shims: {error}\n")
    show(rows, machine)
    if options.json is not None:
        report = {"machine": machine, "rows": [asdict(line) | {"met": line.met()} for line in rows]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    missed = [line.name.strip() for line in rows if line.met() == MISSED]
    if missed:
        print(f"targets missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
