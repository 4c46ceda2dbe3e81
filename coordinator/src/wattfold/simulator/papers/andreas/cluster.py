"""Small cluster of the paper's Table V, run live on an emulation and compared with a prediction.

The cluster has three nodes as in Table II, and eight jobs 1,200 s apart. Before the run, a profile
was measured: an epoch of each application on each number of GPUs of each node, with the power of
the node. The prediction is a simulation of the same policy with these times. Its cost is the energy
of nodes with a job at the power of the profile. As in the paper's simulator, it does not count
restarts. Times are those of the paper: seconds of the run, divided by its scale.

Due dates of Table V count from the submission; otherwise J1 would be due before its submission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from wattfold.contract.units import NS_PER_S, uw_from_w
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.coordinator.models.training import EpochTime
from wattfold.coordinator.models.training_cost import Tariff
from wattfold.coordinator.policies import registry
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.engine import PoolSimulation
from wattfold.simulator.engine.machines.node_machine import GpuWatts, NodeClass, NodeMachine
from wattfold.simulator.engine.prices import Prices
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.schedulers.named_scheduler import NamedPolicyScheduler
from wattfold.simulator.engine.trainings.training_table import training_table
from wattfold.simulator.papers.andreas.measured import (
    CONV,
    EFFICIENT,
    LSTM_BIG,
    LSTM_SMALL,
    MeasuredApplication,
)
from wattfold.simulator.papers.andreas.profiles import T4, V100
from wattfold.simulator.papers.andreas.settings import CONSTANT_EUR, PUE
from wattfold.simulator.results.metrics import metrics_of
from wattfold.simulator.runs.schedulers import ready_of
from wattfold.simulator.workloads.training_files import TrainingJob

PUBLISHED_DEVIATION = 0.1229
"""(predicted - real) / predicted; relative to the real cost it is 14.0 %."""
PUBLISHED_REAL_EUR, PUBLISHED_PREDICTED_EUR = 0.95111, 1.08438
APART_S = 1200.0
INTERVAL_S = 300.0
CORES = 4
J_PER_KWH = 3.6e6


class Submitted(NamedTuple):
    """A line of Table V, with times in seconds."""

    name: str
    app: MeasuredApplication
    epochs: int
    due_s: float
    """Due date after its submission."""
    weight: float


TABLE_V = (
    Submitted("J6", EFFICIENT, 80, 3600, 4),
    Submitted("J9", CONV, 160, 2600, 2),
    Submitted("J10", CONV, 80, 7600, 3),
    Submitted("J7", LSTM_BIG, 160, 17600, 3),
    Submitted("J8", LSTM_SMALL, 160, 7600, 3),
    Submitted("J1", LSTM_BIG, 60, 5600, 5),
    Submitted("J2", LSTM_SMALL, 60, 12600, 2),
    Submitted("J3", EFFICIENT, 60, 11600, 1),
)
"""Jobs in the order of their submissions, with `APART_S` between two submissions."""


class ClusterNode(NamedTuple):
    """A node of Table II for jobs."""

    name: str
    gpu_model: str
    gpus: int


NODES = (
    ClusterNode("armida-05", V100, 1),
    ClusterNode("armida-06", V100, 2),
    ClusterNode("armida-07", T4, 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledRun:
    """A profile of one application on a number of GPUs of a node."""

    app: str
    node: str
    gpus: int
    epoch_s: float
    watts: float
    """Power of the whole node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterJobResult:
    """Results of a job, in seconds after the first submission."""

    name: str
    submitted_s: float
    started_s: float
    ended_s: float
    due_s: float
    nodes: tuple[str, ...]
    """Nodes of its attempts, in order."""
    epochs: int
    """Saved epochs at its end."""

    @property
    def late_s(self) -> float:
        """Time from its due date to a late end; 0 if in time."""
        return max(self.ended_s - self.due_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRun:
    """Measurements of a run. ``scale``: seconds of the paper per second of the run."""

    scale: float
    processor: str
    cores: int
    probes: tuple[ProfiledRun, ...]
    jobs: tuple[ClusterJobResult, ...]
    energy_j: float
    """Energy of nodes while they had a job, in the time of the paper."""
    power: tuple[tuple[float, tuple[float, ...]], ...]
    """Time, and the power of each node in W; zero without a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Results of the simulation of the same jobs."""

    cost_eur: float
    ended_s: Mapping[str, float]
    started_s: Mapping[str, float]


_CONVERTER = make_converter()


def store(run: ClusterRun, path: Path) -> None:
    """Write a run to a file. Raises OSError."""
    beside = path.with_suffix(".part")
    beside.write_text(_CONVERTER.dumps(run, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def load(path: Path) -> ClusterRun:
    """Read a file of `store`. Raises OSError, and ValueError for another file."""
    try:
        found: Any = _CONVERTER.loads(path.read_text(encoding="utf-8"), ClusterRun)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has no run of the small cluster: {error}") from error
    run: ClusterRun = found
    return run


def cost_eur(run: ClusterRun) -> float:
    """Return the cost of the measured energy, in EUR."""
    return run.energy_j / J_PER_KWH * CONSTANT_EUR * PUE


def deviation(run: ClusterRun, predicted: Predicted) -> float:
    """Return the deviation of the cost relative to the predicted cost, as in the paper."""
    return (predicted.cost_eur - cost_eur(run)) / predicted.cost_eur


def predicted(run: ClusterRun, jobs: Sequence[Submitted] = TABLE_V) -> Predicted:
    """Simulate the jobs under the same policy with the profile. Raises SimulationError."""
    machine = NodeMachine(classes=tuple(_node_class(node, run.probes) for node in NODES))
    table = training_table(_training_jobs(jobs), _epoch_times(run.probes), machine)
    entry = registry.find("andreas")
    assert entry is not None, "there is no policy andreas"
    policy = entry.service(
        {"pue": PUE, "interval_s": INTERVAL_S, "price_eur_per_kwh": CONSTANT_EUR}
    )
    ready = ready_of(policy.name)
    scheduler = NamedPolicyScheduler(table, machine, policy, "andreas", ready=ready)
    simulation = PoolSimulation(
        table,
        machine,
        scheduler,
        BudgetSchedule.constant(machine.full_uw),
        preemption=PreemptionRule(restart_ns=0),
        prices=Prices(tariff=Tariff(price=EnergyPrice.constant(CONSTANT_EUR), pue=PUE)),
    )
    simulation.run()
    record = simulation.record()
    names = [jobs[number - 1].name for number in record.jobs.job_ids.tolist()]
    ends = (record.columns.end_ns / NS_PER_S).tolist()
    starts = (record.columns.start_ns / NS_PER_S).tolist()
    return Predicted(
        cost_eur=metrics_of(record).energy_eur,
        ended_s=dict(zip(names, ends, strict=True)),
        started_s=dict(zip(names, starts, strict=True)),
    )


def _training_jobs(jobs: Sequence[Submitted]) -> list[TrainingJob]:
    return [
        TrainingJob(
            job_id=number + 1,
            submit_s=number * APART_S,
            app=one.app.app,
            epochs=one.epochs,
            due_s=number * APART_S + one.due_s,
            weight=one.weight,
        )
        for number, one in enumerate(jobs)
    ]


def _epoch_times(probes: Sequence[ProfiledRun]) -> dict[str, tuple[EpochTime, ...]]:
    """Return epoch times by application; for identical GPUs of two nodes their mean."""
    models = {node.name: node.gpu_model for node in NODES}
    seen: dict[tuple[str, str, int], list[float]] = {}
    for one in probes:
        seen.setdefault((one.app, models[one.node], one.gpus), []).append(one.epoch_s)
    found: dict[str, tuple[EpochTime, ...]] = {}
    for (app, model, gpus), each in seen.items():
        time = EpochTime(gpu_model=model, gpus=gpus, seconds=sum(each) / len(each))
        found[app] = (*found.get(app, ()), time)
    return found


def watts_of(probes: Sequence[ProfiledRun], node: ClusterNode) -> dict[int, float]:
    """Return the power of a node by its GPUs at work, as a mean over all applications."""
    own = [one for one in probes if one.node == node.name]
    return {
        gpus: sum(one.watts for one in own if one.gpus == gpus)
        / sum(1 for one in own if one.gpus == gpus)
        for gpus in sorted({one.gpus for one in own})
    }


def _node_class(node: ClusterNode, probes: Sequence[ProfiledRun]) -> NodeClass:
    """Return a node with the power of the profile."""
    watts = watts_of(probes, node)
    most = max(watts)
    each_w = (watts[most] - watts[1]) / (most - 1) if most > 1 else watts[1] / 2
    each_uw = uw_from_w(max(each_w, 1.0))
    host_w = watts[1] - each_uw / 1e6
    return NodeClass.of_watts(
        node.name,
        1,
        CORES,
        gpus=node.gpus,
        gpu=GpuWatts(model=node.gpu_model, min_w=each_uw / 1e6, max_w=each_uw / 1e6, idle_w=0),
        base_w=host_w / 2,
        dram_w=0.0,
        cap_w_min=host_w / 2,
        cap_w_max=host_w / 2,
    )
