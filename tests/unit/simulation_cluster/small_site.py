"""Simulated nodes without a coordinator, and small job tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.messages.agent import Agent, Command
from wattfold.simulator.messages.clock import VirtualClock
from wattfold.simulator.messages.site import PACKAGE, node_specs
from wattfold.simulator.messages.truth import Truth
from wattfold.simulator.messages.work import Work

S = 1_000_000_000
W = 1_000_000
CORES = 4


class Site:
    """Nodes of four cores that obey immediately. ``ended`` lists nodes in the order of job ends."""

    def __init__(self, nodes: int = 1, **machine: Any) -> None:
        self.machine = Machine.of_watts(nodes, **machine)
        self.clock = VirtualClock()
        self.agents = [Agent(spec) for spec in node_specs(self.machine, CORES)]
        self.ended: list[NodeId] = []
        self.truth = Truth(
            self.clock,
            self.agents,
            lambda agent: self.ended.append(agent.node_id),
            self.machine.idle_uw,
        )
        self.truth.count({agent.node_id for agent in self.agents})
        self._requests = 0
        for node in range(nodes):
            self.tell(node, act.RenewLease, duration_ns=10_000 * S)

    def tell(self, node: int, kind: type[Any], **fields: Any) -> Any:
        self._requests += 1
        agent = self.agents[node]
        command: Command = kind(
            node_id=agent.node_id, request_id=str(self._requests), cause="", **fields
        )
        answer = agent.take(command, 1, self.clock.now_ns, False)
        self.truth.touch(agent)
        return answer

    def launch(self, job: str, work: Work, *nodes: int, cpus: str = "0-3") -> None:
        self.truth.works[JobId(job)] = work
        for rank, node in enumerate(nodes):
            self.tell(
                node,
                act.Launch,
                job_id=JobId(job),
                spec=JobSpec(name=job, app="", argv=("x",)),
                cpus=CpuSet.parse(cpus),
                launch_cpus=CORES,
                rank=rank,
                ranks=len(nodes),
            )

    def mask(self, node: int, job: str, cpus: str) -> Any:
        return self.tell(node, act.SetMask, job_id=JobId(job), cpus=CpuSet.parse(cpus))

    def cap(self, node: int, watts: float) -> None:
        self.tell(node, act.SetCaps, caps=((PACKAGE, round(watts * W)),))

    def until(self, seconds: float) -> None:
        until_ns = round(seconds * S)
        while (next_ns := self.clock.next_ns) is not None and next_ns <= until_ns:
            self.clock.step()
        self.clock.skip_to(until_ns)

    def end_s(self, job: str) -> float:
        """Process all pending events and return the end of a job, s."""
        self.until(10**6)
        return self.truth.runs[JobId(job)].totals.end_ns / S


def table(*jobs: tuple[int, int, int], estimate: float = 2.0) -> JobTable:
    """Rigid jobs of (submission s, size, run time s)."""
    columns = [np.array(column, dtype=np.int64) for column in zip(*jobs, strict=True)]
    submit, size, run = columns
    count = len(jobs)
    return JobTable(
        job_ids=np.arange(1, count + 1, dtype=np.int64),
        submit_ns=submit * S,
        size_min=size,
        size_max=size,
        run_ns=run * S,
        estimate_ns=np.rint(run * S * estimate).astype(np.int64),
        priority=np.ones(count),
        users=np.ones(count, dtype=np.int64),
        malleable=np.zeros(count, dtype=np.bool_),
    )
