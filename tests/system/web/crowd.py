"""A large site in memory: the fake coordinator of the command's tests with many nodes and jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc
from unit.cli.fake_budgets import W
from unit.cli.fake_coordinator import FakeCoordinator

from wattfold.v1 import coordinator_pb2 as pb

CORES = 16
BASE_UW, FLOOR_UW, FULL_UW = 60 * W, 40 * W, 240 * W
APPS = ("openfoam", "gromacs", "wrf", "xtb", "lulesh")
HOSTILE = "<img src=x onerror=alert(1)>"
"""Name of job 2: it must be shown as text."""


class Crowd(FakeCoordinator):
    """Nodes of which four fifths run a job of their own, and a queue of waiting jobs.

    The last node is silent, the one before it is down. ``step_s``: time between two snapshots, or
    None for no change after the first.
    """

    def __init__(self, nodes: int = 1000, jobs: int = 10_000, step_s: float | None = 1.0) -> None:
        super().__init__()
        self._step_s = step_s
        began_s = time.time()
        running = nodes * 4 // 5
        self.nodes = [_node(index, index < running, began_s) for index in range(nodes)]
        self.jobs = {
            job.job_id: job
            for job in (_job(index, index < running, began_s) for index in range(jobs))
        }
        self._running = running
        self.power = pb.Power(
            budget_uw=nodes * 260 * W,
            floor_uw=nodes * (BASE_UW + FLOOR_UW),
            committed_uw=sum(node.committed_uw for node in self.nodes),
            measured_uw=sum(node.measured_uw for node in self.nodes),
            emulated_nodes=nodes // 4,
            known_nodes=nodes,
            policy="parm-wse",
            energy_uj=7_200_000_000 * W,
        )
        self.power.announced.add(
            number=1, at_s=began_s + 1200, from_s=began_s + 1180, budget_uw=nodes * 200 * W
        )
        self.power.announced.add(
            number=2, at_s=began_s + 2700, from_s=began_s + 2700, budget_uw=nodes * 260 * W
        )

    def ListAudit(  # noqa: N802
        self, request: pb.ListAuditRequest, context: grpc.ServicerContext
    ) -> pb.ListAuditResponse:
        self._enter("ListAudit", context)
        return pb.ListAuditResponse()

    def Watch(  # noqa: N802
        self, request: pb.WatchRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ClusterView]:
        self._enter("Watch", context)
        turn = 0
        while context.is_active():
            with self.changed:
                view = self._view(turn)
            # A slow reader must not keep other calls from the lock.
            yield view
            with self.changed:
                self.changed.wait(self._step_s)
            turn += 1

    def _view(self, turn: int) -> pb.ClusterView:
        if turn and self._step_s is not None:
            for index in range(turn % 7, len(self.nodes), 7):
                node = self.nodes[index]
                if node.state == pb.NODE_STATE_UP and node.job_ids:
                    node.measured_uw = node.committed_uw - (index * 31 + turn * 17) % 60 * W
            self.power.measured_uw = sum(node.measured_uw for node in self.nodes)
        return pb.ClusterView(
            time_s=time.time(), power=self.power, nodes=self.nodes, jobs=self.jobs.values()
        )


def _node(index: int, busy: bool, now_s: float) -> pb.Node:
    cap_uw = FLOOR_UW + (80 + index * 37 % 120) * W if busy else FLOOR_UW
    committed_uw = BASE_UW + cap_uw
    made = pb.Node(
        node_id=f"n{index + 1:04d}",
        state=pb.NODE_STATE_UP,
        cpus=f"0-{CORES - 1}",
        free_cpus="" if busy else f"0-{CORES - 1}",
        base_power_uw=BASE_UW,
        committed_uw=committed_uw,
        measured_uw=committed_uw - (index * 53 % 60) * W if busy else BASE_UW + 30 * W,
        emulated=index % 4 == 0,
        power_source="rapl",
        job_ids=[str(index + 1)] if busy else [],
    )
    made.zones.add(
        name="package-0",
        cap_uw=cap_uw,
        cap_uw_min=FLOOR_UW,
        cap_uw_max=FULL_UW,
        floor_uw=FLOOR_UW,
    )
    if index == 998:
        made.state = pb.NODE_STATE_DOWN
    if index == 999:
        made.state, made.lease_ends_at_s = pb.NODE_STATE_SILENT, now_s + 600
    return made


def _job(index: int, runs: bool, now_s: float) -> pb.Job:
    app = APPS[index % len(APPS)]
    made = pb.Job(
        job_id=str(index + 1),
        spec=pb.JobSpec(
            name=HOSTILE if index == 1 else f"{app}-{index + 1}",
            app=app,
            size_min=CORES,
            size_max=CORES,
            unit=pb.SIZE_UNIT_CORES,
            priority=1.0,
            time_ns=3600 * 10**9,
        ),
        state=pb.JOB_STATE_RUNNING if runs else pb.JOB_STATE_PENDING,
        user=f"user{index % 23}",
        access=pb.JOB_ACCESS_OPERATOR,
        submitted_at_s=now_s - 7200 + index * 0.1,
    )
    if runs:
        made.size, made.cap_uw = CORES, FLOOR_UW + (80 + index * 37 % 120) * W
        made.started_at_s, made.remaining_s = now_s - 60 - index % 1500, 60.0 + index % 3000
        made.done, made.energy_uj = (index % 97) / 100, index * 1000 * W
        made.shares.add(node_id=f"n{index + 1:04d}", cpus=f"0-{CORES - 1}")
    else:
        made.expected_start_at_s = now_s + 60 + index
        made.reason = f"needs {CORES} free cores; {40 + index % 90} W are missing"
    return made
