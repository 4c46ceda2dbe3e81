"""Power and malleability of the jobs of a log, drawn as in PARM's evaluation.

Logs state neither. Section VII of Sarood et al. (SC14) draws them: the maximum size of a job is its
requested size, the minimum a fraction theta ~ U[0.2, 0.6] of it, and its application one of the
five published applications. The paper does not state the scaling of the jobs. Here A is log-uniform
between half and twice the maximum size, sigma ~ U[0, 1], and T1 is such that a job at its maximum
size and 60 W takes its logged run time.

Every quantity has its own stream of random numbers under one seed, so that another range for one
quantity leaves the others unchanged. Draws follow the order of the jobs: annotate first and select
later, or the same job gets other values.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from wattfold.coordinator.models.pass_model import ANY_RANGE_W, APPLICATIONS, PassProfile
from wattfold.coordinator.models.scaling import scaled_time_s
from wattfold.simulator.workloads.errors import LogError
from wattfold.simulator.workloads.swf_writer import whole_file
from wattfold.simulator.workloads.text_files import whole_text
from wattfold.simulator.workloads.workload import Floats, Ints, Workload

SET_H: Mapping[str, float] = {"LeanMD": 3, "Wave2D": 3, "Lulesh": 2, "Jacobi2D": 1, "AMR": 1}
"""The ten jobs of PARM's first experiment with a mean beta of 0.27."""
SET_L: Mapping[str, float] = {"Jacobi2D": 7, "Wave2D": 3}
"""Ten jobs with a mean beta of 0.10.

The paper states that mean but not the mix. No ten jobs of the five applications have exactly 0.10.
These have 0.104; of the mixes that round to 0.10 they are the most diverse.
"""
CLUSTER_CAPS_W: tuple[float, ...] = (30, 32, 34, 39, 45, 55)
"""Package caps P_j of PARM's cluster (section VI-E)."""
LARGE_CAPS_W: tuple[float, ...] = (30, 33, 36, 44, 50, 60)
"""Package caps P_j of PARM's large machine (section VII-B)."""
RANGE_W = (25.0, 60.0)
"""Package caps of the nodes that the published curves apply to; simulated nodes have the same."""
_COLUMNS = ("job_id", "size_min", "size_max", "app", "average_parallelism", "sigma", "t1_s")


def caps_w(levels: int) -> tuple[float, ...]:
    """Return this number of package caps from 30 to 60 W: the published six, or evenly spaced.

    Raises ValueError below two levels.
    """
    if levels < 2:
        raise ValueError(f"caps from 30 to 60 W are at least two, got {levels}")
    if levels == len(LARGE_CAPS_W):
        return LARGE_CAPS_W
    return tuple(float(cap) for cap in np.linspace(LARGE_CAPS_W[0], LARGE_CAPS_W[-1], levels))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRanges:
    """Ranges of the random draws."""

    theta_min: float = 0.2
    theta_max: float = 0.6
    parallelism_factor: float = 2.0
    """Range of A: from the maximum size divided by this factor to the maximum size times it."""
    sigma_min: float = 0.0
    sigma_max: float = 1.0
    reference_cap_w: float = 60.0
    """Cap under which a job at its maximum size takes its logged time."""
    mix: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(APPLICATIONS, 1.0))
    """Weights of the applications."""

    def __post_init__(self) -> None:
        if not 0 < self.theta_min <= self.theta_max <= 1:
            raise ValueError(f"theta must be in (0, 1], got {self.theta_min} to {self.theta_max}")
        if not 0 <= self.sigma_min <= self.sigma_max <= 1:
            raise ValueError(f"sigma must be in [0, 1], got {self.sigma_min} to {self.sigma_max}")
        if not 1 <= self.parallelism_factor < np.inf:
            raise ValueError(f"parallelism factor must be >= 1, got {self.parallelism_factor}")
        if set(self.mix) - set(APPLICATIONS) or not sum(self.mix.values()) > 0:
            raise ValueError(f"a mix needs weights for some of {', '.join(APPLICATIONS)}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Annotations:
    """One entry per job. Sizes are in the units of the log; times in s."""

    job_ids: Ints
    size_min: Ints
    size_max: Ints
    apps: tuple[str, ...]
    average_parallelism: Floats
    sigma: Floats
    t1_s: Floats
    range_w: tuple[float, float] = ANY_RANGE_W
    """Range of the profiles: see `PassProfile.range_w`."""

    def __len__(self) -> int:
        return len(self.job_ids)

    def taken(self, count: int) -> Annotations:
        """Return the annotations of the first ``count`` jobs."""
        return Annotations(
            job_ids=self.job_ids[:count],
            size_min=self.size_min[:count],
            size_max=self.size_max[:count],
            apps=self.apps[:count],
            average_parallelism=self.average_parallelism[:count],
            sigma=self.sigma[:count],
            t1_s=self.t1_s[:count],
            range_w=self.range_w,
        )

    def profile(self, index: int) -> PassProfile:
        """Return the PASS profile of the job at a position."""
        return replace(
            APPLICATIONS[self.apps[index]],
            average_parallelism=float(self.average_parallelism[index]),
            sigma=float(self.sigma[index]),
            t1_s=float(self.t1_s[index]),
            range_w=self.range_w,
        )

    def profiles(self) -> Iterator[PassProfile]:
        """Return the profiles of all jobs, in their order."""
        return (self.profile(index) for index in range(len(self)))


def annotate(workload: Workload, seed: int, ranges: AnnotationRanges | None = None) -> Annotations:
    """Draw minimum size, application and scaling of every job.

    Raises:
        ValueError: a job has no size or no run time; select or repair these jobs first.
    """
    ranges = ranges or AnnotationRanges()
    greatest, runs = workload.sizes, workload.run_s
    odd = np.flatnonzero((greatest < 1) | ~(runs > 0))
    if len(odd):
        raise ValueError(f"job {workload.job_ids[odd[0]]} has no size or no run time")
    theta, app, parallelism, sigma = (
        np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(4)
    )
    jobs = len(workload)
    least = np.rint(theta.uniform(ranges.theta_min, ranges.theta_max, jobs) * greatest)
    names = sorted(ranges.mix)
    weights = np.array([ranges.mix[name] for name in names], dtype=np.float64)
    drawn = app.choice(len(names), size=jobs, p=weights / weights.sum())
    apps = tuple(names[index] for index in drawn.tolist())
    spread = np.log(ranges.parallelism_factor)
    around = np.maximum(1.0, greatest * np.exp(parallelism.uniform(-spread, spread, jobs)))
    sigmas = sigma.uniform(ranges.sigma_min, ranges.sigma_max, jobs)
    return Annotations(
        job_ids=workload.job_ids,
        size_min=np.maximum(1, least).astype(np.int64),
        size_max=greatest,
        apps=apps,
        average_parallelism=around,
        sigma=sigmas,
        t1_s=_unit_times_s(runs, greatest, apps, around, sigmas, ranges.reference_cap_w),
    )


def with_apps(annotations: Annotations, apps: tuple[str, ...]) -> Annotations:
    """Return the same jobs with other applications and the same time at the reference cap.

    The time is the same because all published curves end below that cap. Raises ValueError for an
    unknown application, and if the numbers of applications and jobs differ.
    """
    unknown = set(apps) - set(APPLICATIONS)
    if unknown or len(apps) != len(annotations):
        raise ValueError(
            f"{len(annotations)} jobs need as many of {', '.join(APPLICATIONS)}; got {len(apps)}"
            + (f" with {sorted(unknown)[0]!r}" if unknown else "")
        )
    return replace(annotations, apps=apps)


def _unit_times_s(
    runs: Floats, sizes: Ints, apps: tuple[str, ...], a: Floats, sigma: Floats, cap_w: float
) -> Floats:
    slow = {name: float(APPLICATIONS[name].slowdowns([cap_w])[0]) for name in set(apps)}
    jobs = zip(runs.tolist(), sizes.tolist(), apps, a.tolist(), sigma.tolist(), strict=True)
    return np.array(
        [run / (scaled_time_s(1.0, ak, sk, size) * slow[app]) for run, size, app, ak, sk in jobs],
        dtype=np.float64,
    )


def write_annotations(annotations: Annotations, path: Path) -> None:
    """Write one CSV line per job, gzip by the name. Numbers are exact. Raises LogError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(
        zip(
            annotations.job_ids.tolist(),
            annotations.size_min.tolist(),
            annotations.size_max.tolist(),
            annotations.apps,
            annotations.average_parallelism.tolist(),
            annotations.sigma.tolist(),
            annotations.t1_s.tolist(),
            strict=True,
        )
    )
    with whole_file(path) as stream:
        stream.write(text.getvalue().encode())


def read_annotations(path: Path) -> Annotations:
    """Read a file of `write_annotations`. Raises LogError with the line and the error."""
    rows = csv.reader(io.StringIO(whole_text(path)))
    entries = []
    try:
        for row in rows:
            if rows.line_num == 1:
                if tuple(row) != _COLUMNS:
                    raise LogError(path, 1, f"expected the columns {','.join(_COLUMNS)}")
                continue
            entries.append(_entry(path, rows.line_num, row))
    except csv.Error as error:
        raise LogError(path, rows.line_num, f"not CSV: {error}") from error
    columns = list(zip(*entries, strict=True)) or [()] * len(_COLUMNS)
    return Annotations(
        job_ids=np.array(columns[0], dtype=np.int64),
        size_min=np.array(columns[1], dtype=np.int64),
        size_max=np.array(columns[2], dtype=np.int64),
        apps=tuple(str(app) for app in columns[3]),
        average_parallelism=np.array(columns[4], dtype=np.float64),
        sigma=np.array(columns[5], dtype=np.float64),
        t1_s=np.array(columns[6], dtype=np.float64),
    )


def _entry(path: Path, line: int, row: list[str]) -> tuple[int, int, int, str, float, float, float]:
    if len(row) != len(_COLUMNS):
        raise LogError(path, line, f"{len(row)} columns, expected {len(_COLUMNS)}")
    try:
        number, least, greatest = int(row[0]), int(row[1]), int(row[2])
        a, sigma, t1_s = float(row[4]), float(row[5]), float(row[6])
    except ValueError as error:
        raise LogError(path, line, f"not a number: {error}") from error
    if row[3] not in APPLICATIONS:
        raise LogError(path, line, f"no such application: {row[3]!r}")
    sane = 1 <= least <= greatest <= 2**53 and 1 <= a < np.inf
    if not (sane and 0 <= sigma <= 1 and 0 < t1_s < np.inf and 0 <= number <= 2**53):
        raise LogError(path, line, f"outside the model: {','.join(row)[:80]}")
    return number, least, greatest, row[3], a, sigma, t1_s
