"""Jobs that run on a pool of identical whole nodes: their nodes and power."""

from __future__ import annotations

from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule, Progress
from wattfold.simulator.engine.running_jobs.run_times import RunTimes


class RunningJobs(Progress):
    """Running jobs on counted nodes, each charged with the cap of its job."""

    def __init__(
        self,
        table: JobTable,
        machine: Machine,
        times: RunTimes,
        preemption: PreemptionRule | None = None,
    ) -> None:
        count = len(table)
        super().__init__(count, table.limit_ns, preemption)
        self.times = times
        self._standing_uw = machine.dram_uw
        self._base_uw = machine.base_uw
        self._idle_uw = machine.idle_uw
        # Power per node of a job outside its packages, above an idle node.
        self.beside_uw = [machine.base_uw + machine.dram_uw - machine.idle_uw] * count
        self.drawn_cap_uw = [0] * count
        self.dram_uw = [0] * count
        """DRAM cap chosen by a scheduler; 0 = the machine's default cap."""

    def start(self, job: int, size: int, cap_uw: int, now_ns: int, dram_uw: int = 0) -> None:
        """Start a job on ``size`` nodes."""
        if dram_uw:
            self._set_dram(job, dram_uw)
        drawn_uw = self.times.useful_cap_uw(job, cap_uw)
        total_ns = self.times.total_ns(job, size, cap_uw, dram_uw)
        self.size[job], self.cap_uw[job], self.drawn_cap_uw[job] = size, cap_uw, drawn_uw
        beside_uw = self.beside_uw[job]
        self.committed_uw += size * (beside_uw + cap_uw)
        self.drawn_uw += size * (beside_uw + drawn_uw)
        self.nodes += size
        self.first_size[job], self.first_cap_uw[job] = size, cap_uw
        self._begin(job, total_ns, now_ns)

    def _release(self, job: int) -> None:
        """Subtract the resources of a job from the sums."""
        size = self.size[job]
        beside_uw = self.beside_uw[job]
        self.committed_uw -= size * (beside_uw + self.cap_uw[job])
        self.drawn_uw -= size * (beside_uw + self.drawn_cap_uw[job])
        self.nodes -= size

    def change(
        self, job: int, size: int, cap_uw: int, now_ns: int, dram_uw: int | None = None
    ) -> None:
        """Continue a running job with another number of nodes or other caps (None: unchanged)."""
        self._advance(job, now_ns)
        self._book(job, now_ns)
        old = self.size[job]
        drawn_uw = self.times.useful_cap_uw(job, cap_uw)
        beside_uw = self.beside_uw[job]
        self.committed_uw -= old * (beside_uw + self.cap_uw[job])
        self.drawn_uw -= old * (beside_uw + self.drawn_cap_uw[job])
        if dram_uw is not None and dram_uw != self.dram_uw[job]:
            self._set_dram(job, dram_uw)
            beside_uw = self.beside_uw[job]
        self.committed_uw += size * (beside_uw + cap_uw)
        self.drawn_uw += size * (beside_uw + drawn_uw)
        self.nodes += size - old
        self.size[job], self.cap_uw[job], self.drawn_cap_uw[job] = size, cap_uw, drawn_uw
        self.total_ns[job] = self.times.total_ns(job, size, cap_uw, self.dram_uw[job])
        self._renew_end(job, now_ns)

    def _book(self, job: int, now_ns: int) -> None:
        """Book the resources and energy of a job since its last booking."""
        span_ns = now_ns - self.held_since_ns[job]
        node_ns = self.size[job] * span_ns
        self.node_ns[job] += node_ns
        beside_uw = self.beside_uw[job] + self._idle_uw
        self.energy[job] += node_ns * (beside_uw + self.drawn_cap_uw[job])
        self.cap_ns[job] += self.cap_uw[job] * span_ns
        self.held_since_ns[job] = now_ns

    def _set_dram(self, job: int, dram_uw: int) -> None:
        self.dram_uw[job] = dram_uw
        self.beside_uw[job] = self._base_uw + (dram_uw or self._standing_uw) - self._idle_uw
