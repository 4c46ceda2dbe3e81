"""Report sections that compare measurements of real programs with those of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from wattfold.simulator.papers.equipartition.measured import (
    EquipartitionMeasurements,
    Interference,
    ResidualLoad,
    ResizeTime,
    SharingMeasurement,
    mean_between,
)
from wattfold.simulator.papers.report import Section
from wattfold.simulator.papers.verdicts import (
    Claim,
    Judgement,
    Ruling,
    Verdict,
    at_most,
    interval_text,
    trend,
)
from wattfold.simulator.results.intervals import Interval, mean_interval

SHRINK_S, EXPAND_S = 0.086, 0.0676
"""128 -> 64 processors and back, with 1 MB migrated per processor (section 3.3)."""
PEAK, BOUND = 0.02, 0.001
"""Figure 3: peaks of the residual load, and our own bound on its mean."""
SLOWDOWN = 0.0198
"""Table 5: two jobs on eight processors each."""
MB = 1_000_000
COMES_BACK = 0.9
"""Fraction of its earlier throughput at which a job counts as recovered."""
MOSTLY = 0.95
"""Fraction of the two jobs' use of a processor that counts as "most of the CPU"."""

Draw = Callable[..., list[Path]]
"""Function that draws measurements into a folder; it also gets the index of a sharing pair."""


def machine_text(measured: EquipartitionMeasurements) -> str:
    """Describe the machine of the measurements in a line."""
    one = measured.machine
    return (
        f"Measured on {one.processor}, {one.cores} cores, {one.system}, Python {one.python}, "
        f"charm4py {one.charm4py}. Processes beyond the cores share them in time."
    )


def sections(measured: EquipartitionMeasurements, draws: Sequence[Draw]) -> list[Section]:
    """Return the sections on resize times, residual processes, and sharing, each with a plot."""
    resizes, residual, shared = draws
    return [
        _section(
            "resize-time",
            "Time to shrink and expand (section 3.3, Tables 1 to 4)",
            _resize_claims(measured),
            _resize_table(measured),
            partial(resizes, measured),
            _limits(measured),
        ),
        _section(
            "residual",
            "Cost of residual processes (section 3.3, Figure 3, Table 5)",
            _residual_claims(measured),
            _residual_table(measured),
            partial(residual, measured),
            "",
        ),
        *(
            _sharing(measured, one, partial(shared, measured, at))
            for at, one in enumerate(measured.sharing)
        ),
    ]


def _sharing(
    measured: EquipartitionMeasurements,
    sharing: SharingMeasurement,
    draw: Callable[[Path], list[Path]],
) -> Section:
    cores = measured.machine.cores
    return _section(
        f"sharing-{sharing.pes}",
        f"Two jobs share {sharing.pes} processors (Figures 4 and 5)",
        _sharing_claims(sharing),
        _sharing_table(sharing),
        draw,
        f"{sharing.pes} processors share {cores} cores in time." if sharing.pes > cores else "",
    )


def _section(
    name: str,
    title: str,
    judgements: Sequence[Judgement],
    table: Sequence[Sequence[object]],
    draw: Callable[[Path], list[Path]],
    how: str,
) -> Section:
    return Section(
        name=name,
        title=title,
        judgements=judgements,
        table=table,
        draw=draw,
        how=how,
        facts={"real": True},
    )


def _judgement(
    key: str, text: str, source: str, said: str, ruling: Ruling, interval: Interval | None = None
) -> Judgement:
    return Judgement(
        claim=Claim(key=key, text=text, source=source),
        measured=said,
        verdict=ruling.verdict,
        why=ruling.why,
        interval=interval,
    )


# Resize times.


def stalls(
    measured: EquipartitionMeasurements, pe_bytes: int, pes: int, *, grows: bool
) -> list[float]:
    """Return the pauses in s of changes between ``pes`` and half of ``pes`` processors."""
    return [
        one.stalled_s
        for one in measured.resizes
        if one.pe_bytes == pe_bytes and max(one.pes_from, one.pes_to) == pes and one.grows is grows
    ]


def _ends(measured: EquipartitionMeasurements) -> tuple[list[int], list[int]]:
    """Return the measured numbers of processors and amounts of data, ascending."""
    pes = {max(one.pes_from, one.pes_to) for one in measured.resizes}
    return sorted(pes), sorted({one.pe_bytes for one in measured.resizes})


def _resize_claims(measured: EquipartitionMeasurements) -> list[Judgement]:
    pes, amounts = _ends(measured)
    most, source = pes[-1], "section 3.3"
    found = []
    for word, grows, bound_s in (("shrink", False, SHRINK_S), ("expand", True, EXPAND_S)):
        interval = mean_interval(stalls(measured, amounts[0], most, grows=grows))
        there = "128 -> 64" if not grows else "64 -> 128"
        here = f"{most} -> {most // 2}" if not grows else f"{most // 2} -> {most}"
        found.append(
            _judgement(
                f"real-{word}",
                f"to {word} {there} processors takes {bound_s * 1e3:g} ms (1 MB moved a processor)",
                source,
                f"{_ms(interval)} ms for {here}, {amounts[0] / MB:g} MB",
                at_most(interval, bound_s),
                interval,
            )
        )
    found.append(
        _growth(
            "data",
            "it takes longer the more data is migrated",
            amounts,
            [stalls(measured, one, most, grows=False) for one in amounts],
            "MB",
            MB,
        )
    )
    found.append(
        _growth(
            "processors",
            "it takes longer on more processors",
            pes,
            [stalls(measured, amounts[0], one, grows=False) for one in pes],
            "processors",
            1,
        )
    )
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _growth(
    key: str,
    text: str,
    values: Sequence[int],
    samples: Sequence[Sequence[float]],
    unit: str,
    scale: int,
) -> Judgement:
    """Judge the claim that shrinks take longer with larger values."""
    count = min(map(len, samples))

    def more(low: Sequence[float], high: Sequence[float]) -> Interval:
        return mean_interval([b - a for a, b in zip(low[:count], high[:count], strict=True)])

    whole = more(samples[0], samples[-1])
    steps = [more(a, b) for a, b in pairwise(samples)]
    means = [sum(one) / len(one) * 1e3 for one in samples]
    pairs = zip(means, values, strict=True)
    said = ", ".join(f"{ms:.0f} ms at {value / scale:g}" for ms, value in pairs) + f" {unit}"
    return _judgement(
        f"real-{key}", text, "Tables 1 to 4, Figure 2", said, trend(whole, steps, rises=True), whole
    )


def _ms(interval: Interval) -> str:
    thousand = Interval(
        mean=interval.mean * 1e3,
        low=interval.low * 1e3,
        high=interval.high * 1e3,
        count=interval.count,
    )
    return interval_text(thousand, "{:.0f}")


def _limits(measured: EquipartitionMeasurements) -> str:
    """Describe the times per processor and per MB at the ends of the ranges, and their limits."""
    pes, amounts = _ends(measured)
    most = pes[-1]

    def mean_s(amount: int, count: int) -> float:
        return _mean(stalls(measured, amount, count, grows=False))

    low, high = mean_s(amounts[0], most), mean_s(amounts[-1], most)
    few, many = mean_s(amounts[0], pes[0]), low
    moved_mb = [
        _mean(
            [
                one.moved_bytes
                for one in measured.resizes
                if one.pe_bytes == amount and one.pes_from == most
            ]
        )
        / MB
        for amount in (amounts[0], amounts[-1])
    ]
    a_mb = (high - low) / (moved_mb[1] - moved_mb[0]) if moved_mb[1] > moved_mb[0] else math.nan
    a_pe = (many - few) / (most - pes[0]) if len(pes) > 1 else math.nan
    waits = _mean([one.took_s - one.stalled_s for one in measured.resizes])
    return (
        f"{machine_text(measured)} A shrink costs {a_mb * 1e3:.1f} ms for each MB that moves "
        f"(packed by pickle, sent over loopback, by processes that share "
        f"{measured.machine.cores} cores) and {a_pe * 1e3:.1f} ms for each processor. "
        f"The order waits {waits * 1e3:.0f} ms in the mean for the end of a step, in which the "
        "program works on."
    )


def _resize_table(measured: EquipartitionMeasurements) -> list[list[object]]:
    rows: list[list[object]] = [
        ["pes_from", "pes_to", "mb_a_pe", "moved_mb", "stalled_ms", "took_ms"]
    ]

    def row(resize_time: ResizeTime) -> list[object]:
        amounts = resize_time.pe_bytes / MB, round(resize_time.moved_bytes / MB, 3)
        times = round(resize_time.stalled_s * 1e3, 2), round(resize_time.took_s * 1e3, 2)
        return [resize_time.pes_from, resize_time.pes_to, *amounts, *times]

    return rows + [row(one) for one in measured.resizes]


# Residual processes.


def _residual_claims(measured: EquipartitionMeasurements) -> list[Judgement]:
    idle = [one for one in measured.residual if not one.step_s]
    working = [one for one in measured.residual if one.step_s]
    found = []
    for one in idle:
        mean = mean_interval(one.loads)
        found.append(
            _judgement(
                "real-residual-idle",
                "the load on a vacated processor is zero most of the time (ours: up to 0.1 % of a "
                "core where the program idles)",
                "Figure 3",
                f"{_percent(mean)} % of a core",
                at_most(mean, BOUND),
                mean,
            )
        )
    for one in working:
        found.append(
            _judgement(
                f"real-residual-{one.program.replace(' ', '-')}",
                f"with peaks of about {PEAK:.0%}",
                "Figure 3",
                f"{one.program} of {one.step_s * 1e3:.0f} ms: {one.mean:.2%} in the mean, most in "
                f"{one.window_s:g} s {one.peak:.2%}",
                _peak(one),
            )
        )
    return found + [_interference(one) for one in measured.interference]


def _peak(load: ResidualLoad) -> Ruling:
    if load.peak <= PEAK:
        return Ruling(verdict=Verdict.REPRODUCED, why="no window has more")
    if load.mean <= PEAK:
        return Ruling(verdict=Verdict.DIRECTION, why="in the mean; some windows have more")
    return Ruling(verdict=Verdict.NOT, why="more in the mean")


def _interference(pair: Interference) -> Judgement:
    """Judge how much longer the same work takes next to residual processes."""
    longer = mean_interval([r / a - 1 for r, a in zip(pair.rigid, pair.adaptive, strict=True)])
    return _judgement(
        f"real-interference-{pair.jobs}x{pair.pes_each}-{pair.step_s * 1e3:.0f}ms",
        f"two adaptive jobs on 8 processors each take {SLOWDOWN:.2%} longer than rigid jobs",
        "Table 5",
        f"{pair.jobs} jobs on {pair.pes_each}, steps of {pair.step_s * 1e3:.0f} ms: "
        f"{_percent(longer)} % longer",
        at_most(longer, SLOWDOWN),
        longer,
    )


def _percent(interval: Interval) -> str:
    hundred = Interval(
        mean=interval.mean * 100,
        low=interval.low * 100,
        high=interval.high * 100,
        count=interval.count,
    )
    return interval_text(hundred, "{:.3f}" if abs(hundred.mean) < 1 else "{:.1f}")


def _residual_table(measured: EquipartitionMeasurements) -> list[list[object]]:
    rows: list[list[object]] = [["what", "number", "first", "second"]]
    for one in measured.residual:
        rows += [
            [f"load, {one.program}", at, f"{load:.6f}", ""] for at, load in enumerate(one.loads)
        ]
    for many in measured.interference:
        name = f"steps/s, {many.jobs}x{many.pes_each}, {many.step_s:.3f} s (adaptive, rigid)"
        pairs = zip(many.adaptive, many.rigid, strict=True)
        rows += [[name, at, f"{a:.3f}", f"{r:.3f}"] for at, (a, r) in enumerate(pairs)]
    return rows


# Two jobs that share.


def _sharing_claims(sharing: SharingMeasurement) -> list[Judgement]:
    first, second = sharing.jobs
    begins_s = next((at_s for at_s, held in second.held if held), math.nan)
    last_s = first.throughput[-1][0] if first.throughput else math.nan
    before = mean_between(first.throughput, 0.0, sharing.arrives_s)
    between = mean_between(first.throughput, begins_s + 1, sharing.ended_s)
    after = mean_between(first.throughput, (sharing.ended_s + last_s) / 2, last_s + 1)
    loads = [mean_between(job.load, begins_s + 1, sharing.ended_s) for job in sharing.jobs]
    part = loads[1] / sum(loads) if sum(loads) > 0 else math.nan
    return [
        _judgement(
            f"real-throughput-{sharing.pes}",
            "its throughput falls when it is shrunk, and comes back when it is expanded",
            "Figure 5",
            f"{before:.1f} steps/s, {between:.1f} with the other job, {after:.1f} after it",
            _comes_back(before, between, after),
        ),
        _judgement(
            f"real-vacated-{sharing.pes}",
            "the arriving job gets most of the vacated processor, in spite of the residual process",
            "Figure 4",
            f"{part:.1%} of the CPU time of both jobs there",
            _most(part),
        ),
    ]


def _comes_back(before: float, between: float, after: float) -> Ruling:
    if math.isnan(before + between + after):
        return Ruling(verdict=Verdict.UNDECIDED, why="too few steps were observed")
    if between >= before:
        return Ruling(verdict=Verdict.NOT, why="it does not fall")
    if after >= COMES_BACK * before:
        return Ruling(verdict=Verdict.REPRODUCED, why=f"at least {COMES_BACK:.0%} of it returns")
    right = after > between
    return Ruling(
        verdict=Verdict.DIRECTION if right else Verdict.NOT, why="it does not return fully"
    )


def _most(part: float) -> Ruling:
    if math.isnan(part):
        return Ruling(verdict=Verdict.UNDECIDED, why="nothing was used there")
    if part >= MOSTLY:
        return Ruling(verdict=Verdict.REPRODUCED, why=f"at least {MOSTLY:.0%}")
    return Ruling(
        verdict=Verdict.DIRECTION if part > 0.5 else Verdict.NOT, why=f"below {MOSTLY:.0%}"
    )


def _sharing_table(sharing: SharingMeasurement) -> list[list[object]]:
    rows: list[list[object]] = [["job", "what", "at_s", "value"]]
    for job in sharing.jobs:
        for what, series in (("held", job.held), ("steps_a_s", job.throughput), ("load", job.load)):
            rows += [[job.name, what, f"{at_s:.3f}", f"{value:.6g}"] for at_s, value in series]
    return rows
