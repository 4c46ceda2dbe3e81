"""Random problems like those of the paper, for tests, benchmarks and the report of the gap.

Half of the nodes have GPUs of one model, half of another, which is slower and draws less. What a
job takes of both and how it gains by more of them is drawn, so that either may be the cheaper one.
Due dates, weights and what is drawn are as in the generator of the authors' public simulator: due
after one to three times the fastest time, 0.003 to 0.015 EUR a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattfold.coordinator.solvers.training.building import (
    Asking,
    Configurations,
    Weighing,
    built,
)
from wattfold.coordinator.solvers.training.problem import ANY, Nodes, Problem

EUR_PER_KWH = 0.172 * 1.33
"""Price and PUE of the paper."""
GPU_KW = (0.25, 0.07)
IDLE_KW = (0.036, 0.010)
HOST_KW = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What kind of problem. ``gpus``: of a node of either model."""

    nodes: int = 4
    jobs: int = 10
    gpus: tuple[int, int] = (2, 1)
    running: float = 0.0
    """The share of jobs that run already, as far as there is room."""
    waited_s: float = 3600.0
    """Jobs were submitted so long ago at most."""
    weighing: Weighing = Weighing()  # noqa: RUF009 - immutable


def drawn(mix: Mix, seed: int) -> Problem:
    """A problem of this kind; the same for the same seed."""
    rng = np.random.default_rng(seed)
    kind = np.arange(mix.nodes, dtype=np.int64) % 2
    free = np.array([[mix.gpus[one]] for one in kind], dtype=np.int64).reshape(-1, 1)
    rows: list[tuple[int, int, int, int, float, float, float]] = []
    alone = [(HOST_KW + mix.gpus[one] * IDLE_KW[one]) * EUR_PER_KWH / 3600 for one in (0, 1)]
    left = free[:, 0].copy()
    due_s, weight, lost = np.zeros(mix.jobs), np.zeros(mix.jobs), np.zeros(mix.jobs)
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
                rows.append((job, one, here[2], gpus, time_s, time_s * rate, 0.0))
            lost_s = 60.0 if here is not None else 0.0
            again_s = time_s + lost_s
            rows.append((job, one, ANY, gpus, again_s, again_s * rate, lost_s * rate))
        if here is not None:
            lost[job] = 60.0 * HOST_KW * EUR_PER_KWH / 3600
    table = list(zip(*rows, strict=True))
    whose, of_kind, on, used = (np.array(column, dtype=np.int64) for column in table[:4])
    time_s, cost, loss = (np.array(column, dtype=np.float64) for column in table[4:])
    problem, _ = built(
        Asking(
            due_s=due_s,
            weight_eur_s=weight,
            must=np.zeros(mix.jobs, dtype=np.bool_),
            preempted_eur=lost,
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
            loss_eur=loss,
            last=np.zeros(len(whose), dtype=np.bool_),
        ),
        Nodes(kind=kind, free=free),
        power_uw=0,
        weighing=mix.weighing,
    )
    return problem
