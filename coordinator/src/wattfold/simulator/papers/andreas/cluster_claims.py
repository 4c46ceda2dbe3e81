"""Report section on the small cluster of Table V: prediction compared with measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from wattfold.simulator.papers.andreas.cluster import (
    NODES,
    PUBLISHED_DEVIATION,
    PUBLISHED_PREDICTED_EUR,
    PUBLISHED_REAL_EUR,
    ClusterRun,
    Predicted,
    Submitted,
    cost_eur,
    deviation,
    predicted,
    watts_of,
)
from wattfold.simulator.papers.andreas.settings import CLUSTER as CLUSTER
from wattfold.simulator.papers.report import Section
from wattfold.simulator.papers.verdicts import Claim, Judgement, Verdict

EMULATED = (
    "EMULATED: nodes, GPUs and their power. Real: the service, the agents, and training "
    "jobs with numpy that save snapshots and resume. Epochs take as long as the authors "
    "measured, scaled down."
)

Draw = Callable[[ClusterRun, Predicted, Path], list[Path]]


def cluster_section(run: ClusterRun, jobs: Sequence[Submitted], draw: Draw) -> Section:
    """Return the section on a run. Raises SimulationError if it cannot be simulated."""
    told = predicted(run, jobs)
    return Section(
        name=CLUSTER,
        title=f"The small cluster (Tables III and V, {len(jobs)} jobs), emulated",
        judgements=[_deviation(run, told, jobs), _in_time(run, jobs)],
        table=_table(run, told),
        draw=partial(draw, run, told),
        how="\n\n".join([_how(run), "\n".join(job_rows(run, told))]),
        facts={
            "emulated": True,
            "scale": run.scale,
            "cost_measured_eur": cost_eur(run),
            "cost_predicted_eur": told.cost_eur,
        },
    )


def _how(run: ClusterRun) -> str:
    watts = "; ".join(
        f"{node.name} ({node.gpus} x {node.gpu_model}) "
        + ", ".join(
            f"{each:.0f} W with {gpus}" for gpus, each in watts_of(run.probes, node).items()
        )
        for node in NODES
    )
    return (
        f"{EMULATED} One second of the run is {run.scale:g} of the paper, in which all times here "
        f"are; on {run.processor}, {run.cores} cores. Profiled: {watts}."
    )


def _deviation(run: ClusterRun, predicted: Predicted, jobs: Sequence[Submitted]) -> Judgement:
    found, real = deviation(run, predicted), cost_eur(run)
    within = abs(found) <= PUBLISHED_DEVIATION
    return Judgement(
        claim=Claim(
            key="cluster-deviation",
            text=f"the predicted cost is within {PUBLISHED_DEVIATION:.2%} of the measured one (of "
            f"the predicted: {PUBLISHED_PREDICTED_EUR:g} and {PUBLISHED_REAL_EUR:g} EUR)",
            source="Table III",
        ),
        measured=f"{found:+.2%}: {predicted.cost_eur:.4f} EUR predicted, {real:.4f} measured, of "
        f"{len(jobs)} jobs on emulated nodes",
        verdict=Verdict.DIRECTION if within else Verdict.NOT,
        why="within it, on an emulation and once" if within else "further off than published",
    )


def _in_time(run: ClusterRun, jobs: Sequence[Submitted]) -> Judgement:
    """Judge whether all jobs end in time that can, given the epoch times of the authors."""
    late = {one.name: one.late_s for one in run.jobs if one.late_s > 0}
    never = [one.name for one in jobs if one.epochs * one.app.two_s > one.due_s]
    avoidable = [name for name in late if name not in never]
    why = "all that can be, on an emulation and once"
    if avoidable:
        why = "late: " + ", ".join(f"{name} by {late[name]:.0f} s" for name in avoidable)
    if never:
        why += f"; {', '.join(never)} cannot be, with the epochs that the authors measured"
    return Judgement(
        claim=Claim(key="cluster-due", text="all jobs are done when due", source="section V-C"),
        measured=f"{len(run.jobs) - len(late)} of {len(run.jobs)}",
        verdict=Verdict.NOT if avoidable else Verdict.DIRECTION,
        why=why,
    )


_HEAD = ("job", "submitted_s", "due_s", "started_s", "ended_s", "predicted_ended_s", "nodes")


def _table(run: ClusterRun, predicted: Predicted) -> list[list[object]]:
    rows: list[list[object]] = [list(_HEAD)]
    for one in run.jobs:
        times = (
            one.submitted_s,
            one.due_s,
            one.started_s,
            one.ended_s,
            predicted.ended_s[one.name],
        )
        rows.append([one.name, *(f"{each:.1f}" for each in times), " > ".join(one.nodes)])
    return rows


def job_rows(run: ClusterRun, predicted: Predicted) -> list[str]:
    """Return a Markdown line per job."""
    head = "job | submitted, s | due, s | began, s | ended, s | predicted end, s | off | nodes"
    rows = [f"| {head} |", "|---" * 8 + "|"]
    for one in run.jobs:
        end_s = predicted.ended_s[one.name]
        off = (one.ended_s - end_s) / (end_s - one.submitted_s)
        cells = [f"{each:.0f}" for each in (one.submitted_s, one.due_s, one.started_s, one.ended_s)]
        places = ", then ".join(one.nodes)
        rows.append(f"| {one.name} | {' | '.join(cells)} | {end_s:.0f} | {off:+.1%} | {places} |")
    return rows
