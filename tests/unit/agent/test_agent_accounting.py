"""Charges to jobs that are restarted."""

from __future__ import annotations

from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId
from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.launch import ResizeMode
from wattfold.nodeagent.service.jobs.accounting import Accounting, AccountingRules
from wattfold.nodeagent.service.jobs.records import Job, JobState


class Node:
    """Jobs, power and clock of a node, as needed by the accounting."""

    by_group = True

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.orders = self
        self.energy_uj = 0
        self.used_ns = 0

    def package_energy_uj(self) -> int:
        return self.energy_uj

    def read_ns(self, job: str, keeper: int, members: list[int]) -> int:
        return self.used_ns

    def by_cpu_ns(self, job: str) -> list[int] | None:
        return [self.used_ns]

    def processes(self, job: str) -> list[int]:
        return []

    def check_memory(self, job: Job) -> None:
        """Do nothing: this node has no memory limits."""


def attempt(number: int, core_ns: int = 0) -> Job:
    cpus = CpuSet.parse("0")
    return Job(
        id=JobId("7"),
        state=JobState.RUNNING,
        cpus=cpus,
        held=cpus,
        mode=ResizeMode.FIXED,
        launch_cpus=1,
        attempt=number,
        core_ns=core_ns,
    )


def test_an_attempt_is_not_charged_what_the_one_before_has_used() -> None:
    node: Any = Node()
    rules = AccountingRules(idle_uw=1_000_000, cpus=1)
    accounting = Accounting(node, node, node, rules, lambda: None)
    for number, core_ns, used_ns in ((1, 50 * NS_PER_S, 40 * NS_PER_S), (2, 0, NS_PER_S)):
        node.jobs[JobId("7")] = job = attempt(number, core_ns)
        node.energy_uj += 10_000_000
        node.used_ns = used_ns
        accounting.sample(force=True)
        assert job.energy_uj >= 0
        assert job.idle_energy_uj >= 0
        assert job.residual.total_ns >= 0
    assert job.energy_uj > 9_000_000, "all that was used above idle"
    accounting.close()
