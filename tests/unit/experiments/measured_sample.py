"""Made-up measurements of real programs for which every claim holds."""

from __future__ import annotations

from wattfold.simulator.papers.equipartition.measured import (
    EquipartitionMeasurements,
    Interference,
    MeasuredMachine,
    ResidualLoad,
    ResizeTime,
    SharingJob,
    SharingMeasurement,
)

MB = 1_000_000


def resize(pes: int, pe_bytes: int, stalled_s: float, *, grows: bool = False) -> ResizeTime:
    ends = (pes // 2, pes) if grows else (pes, pes // 2)
    return ResizeTime(
        pes_from=ends[0],
        pes_to=ends[1],
        pe_bytes=pe_bytes,
        took_s=stalled_s + 0.01,
        stalled_s=stalled_s,
        moved_bytes=pe_bytes * pes // 2,
    )


def resizes(more: float = 1.0) -> tuple[ResizeTime, ...]:
    """Resize times of 10 ms, plus 2 ms per processor and 3 ms per MB on a processor, times
    ``more``.
    """
    return tuple(
        resize(pes, mb * MB, more * (0.010 + 0.002 * pes + 0.003 * mb + jitter), grows=grows)
        for pes in (2, 4, 8)
        for mb in (1, 10)
        for jitter in (0.0, 0.0005, 0.001)
        for grows in (False, True)
    )


def job(name: str, rates: tuple[float, ...], load_there: float) -> SharingJob:
    """A job with one throughput value per second."""
    times = [at + 0.5 for at in range(len(rates))]
    return SharingJob(
        name=name,
        held=tuple((at, 1.0) for at in times if rates[int(at)]),
        throughput=tuple(zip(times, rates, strict=True)),
        load=tuple((at, load_there) for at in times),
    )


SHARED = SharingMeasurement(
    pes=4,
    arrives_s=4.0,
    ended_s=8.0,
    jobs=(
        job("Job 1", (8, 8, 8, 8, 4, 4, 4, 4, 6, 8, 8, 8), 0.01),
        job("Job 2", (0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0), 0.49),
    ),
)
GOOD = EquipartitionMeasurements(
    machine=MeasuredMachine(processor="A", cores=2, system="Linux", python="3", charm4py="1"),
    quick=False,
    resizes=resizes(),
    residual=(
        ResidualLoad(program="no steps", step_s=0.0, window_s=0.1, loads=(0.0004, 0.0005, 0.0006)),
        ResidualLoad(program="steps", step_s=0.01, window_s=0.1, loads=(0.01, 0.019)),
    ),
    interference=(
        Interference(jobs=2, pes_each=1, adaptive=(9.9, 10.0, 10.1), rigid=(10.0, 10.1, 10.2)),
    ),
    sharing=(SHARED,),
)
