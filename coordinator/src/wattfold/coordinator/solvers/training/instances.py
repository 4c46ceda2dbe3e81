"""Random problems like those of the paper, for tests, benchmarks and the report of the gap.

Half of the nodes have GPUs of one model, half of another model, which is slower and draws less. The
demand of a job and its speedup with more GPUs are random on both, so that either may be cheaper.
Due dates, weights and random ranges are those of the authors' public simulator: due after one to
three times the fastest time, 0.003 to 0.015 EUR per second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.solvers.training.building import (
    Configurations,
    RequestContext,
    Weighing,
    built,
)
from wattfold.coordinator.solvers.training.problem import ANY, TrainingNodes, TrainingProblem

EUR_PER_KWH = 0.172 * 1.33
"""Price and PUE of the paper."""
GPU_KW = (0.25, 0.07)
IDLE_KW = (0.036, 0.010)
HOST_KW = 0.2
RESTART_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Parameters of a problem. ``gpus``: number of GPUs of a node of either model."""

    nodes: int = 4
    jobs: int = 10
    gpus: tuple[int, int] = (2, 1)
    running: float = 0.0
    """Share of the jobs that run already, as far as there is room."""
    waited_s: float = 3600.0
    """Maximum time since the submission of a job."""
    weighing: Weighing = Weighing()  # noqa: RUF009 - immutable


def drawn(mix: Mix, seed: int) -> TrainingProblem:
    """Return a random problem; equal seeds give equal problems."""
    rng = np.random.default_rng(seed)
    kind = np.arange(mix.nodes, dtype=np.int64) % 2
    free = np.array([[mix.gpus[one]] for one in kind], dtype=np.int64).reshape(-1, 1)
    rows: list[tuple[int, int, int, int, float, float, bool]] = []
    alone = [(HOST_KW + mix.gpus[one] * IDLE_KW[one]) * EUR_PER_KWH / 3600 for one in (0, 1)]
    left = free[:, 0].copy()
    due_s, weight = np.zeros(mix.jobs), np.zeros(mix.jobs)
    restart_s = 0.0
    for job in range(mix.jobs):
        alone_s = np.exp(rng.uniform(np.log(600), np.log(6 * 3600)))
        slower, gain = rng.uniform(1.7, 5.5), rng.uniform(0.7, 0.97)
        speed, draws = (1.0, 1 / slower), rng.uniform(0.65, 1.0)
        times = {
            (one, gpus): alone_s / speed[one] / gpus**gain
            for one in (0, 1)
            for gpus in range(1, mix.gpus[one] + 1)
            if (kind == one).any()
        }
        waited_s = rng.uniform(0, mix.waited_s)
        due_s[job] = rng.uniform(1, 3) * min(times.values()) - waited_s
        weight[job] = 2 * rng.uniform(0.0015, 0.0075)
        here = None
        if rng.random() < mix.running:
            able = [(one, g) for one, g in times if (left[kind == one] >= g).any()]
            if able:
                one, gpus = able[rng.integers(len(able))]
                node = int(np.flatnonzero((kind == one) & (left >= gpus))[0])
                left[node] -= gpus
                here, done = (one, gpus, node), rng.uniform(0, 0.9)
                times = {key: (1 - done) * time_s for key, time_s in times.items()}
        for (one, gpus), time_s in times.items():
            idle_kw = (mix.gpus[one] - gpus) * IDLE_KW[one]
            rate = (HOST_KW + gpus * draws * GPU_KW[one] + idle_kw) * EUR_PER_KWH / 3600
            if here is not None and here[:2] == (one, gpus):
                rows.append((job, one, here[2], gpus, time_s, time_s * rate, True))
            again_s = time_s + (RESTART_S if here is not None else 0.0)
            rows.append((job, one, ANY, gpus, again_s, again_s * rate, False))
        if here is not None:
            restart_s = RESTART_S
    table = list(zip(*rows, strict=True))
    whose, of_kind, on, used = (np.array(column, dtype=np.int64) for column in table[:4])
    time_s, cost = (np.array(column, dtype=np.float64) for column in table[4:6])
    problem, _ = built(
        RequestContext(
            due_s=due_s,
            weight_eur_s=weight,
            must=np.zeros(mix.jobs, dtype=np.bool_),
            restart_s=restart_s,
        ),
        Configurations(
            job=whose,
            kind=of_kind,
            node=on,
            amounts=used.reshape(-1, 1),
            power_uw=np.zeros(len(whose), dtype=np.int64),
            time_s=time_s,
            cost_eur=cost,
            node_eur=time_s * np.array(alone)[of_kind],
            stays=np.array(table[6], dtype=np.bool_),
            last=np.zeros(len(whose), dtype=np.bool_),
        ),
        TrainingNodes(kind=kind, free=free),
        power_uw=0,
        weighing=mix.weighing,
    )
    return problem
