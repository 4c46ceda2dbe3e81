"""Run times of the jobs of a simulation at a number of nodes and a cap.

* **pass**: the profile of the job (PARM, Eq. 9-19).
* **ideal**: work divided by nodes; on half of its nodes a job takes twice as long (SD-Policy, Eq.
  5).
* **worst-case**: as ideal, but the node on which the job has the fewest cores determines its speed
  (Eq. 6). In a pool of whole nodes all have the same number, so both models agree. They differ if
  cores of nodes are assigned, as in simulations with messages.

Caps slow a job only if it has a profile.
"""

from __future__ import annotations

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.simulator.choices import RunTimeModel as RunTimeModel
from wattfold.simulator.engine.running_jobs.jobs import JobTable

KNOWN_MAX = 200_000
"""Bound on the memory of the cache."""


class RunTimes:
    """Run times of whole jobs, with a cache. Raises ValueError for PASS without profiles."""

    def __init__(
        self, table: JobTable, model: RunTimeModel, dram_model: DramModel | None = None
    ) -> None:
        if model is RunTimeModel.PASS and not table.profiles:
            raise ValueError("run times after PASS need jobs with profiles")
        self._table = table
        self._profiles = table.profiles if model is RunTimeModel.PASS else ()
        self._run_ns: list[int] = table.run_ns.tolist()
        self._sizes: list[int] = table.size_max.tolist()
        self._dram_model = dram_model or DramModel()
        self._known: dict[tuple[int, int, int, int], int] = {}

    def total_ns(self, job: int, size: int, cap_uw: int, dram_uw: int = 0) -> int:
        """Return the run time of a job on ``size`` nodes with this package cap per node, in ns.

        ``dram_uw`` is a chosen DRAM cap; 0 = the default cap, at which run times are known.
        """
        if not self._profiles:
            asked = self._sizes[job]
            return self._run_ns[job] if size == asked else -(-self._run_ns[job] * asked // size)
        key = (job, size, cap_uw, dram_uw)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            seconds = self._seconds(self._profiles[job], size, cap_uw, dram_uw)
            known = self._known[key] = max(round(seconds * 1e9), 1)
        return known

    def _seconds(self, profile: PassProfile, size: int, cap_uw: int, dram_uw: int) -> float:
        if not dram_uw:
            return profile.time_s(size, w_from_uw(cap_uw))
        caps_w, drams_w = [w_from_uw(cap_uw)], [w_from_uw(dram_uw)]
        return float(self._dram_model.times_s(profile, [size], caps_w, drams_w)[0, 0, 0])

    def useful_cap_uw(self, job: int, cap_uw: int) -> int:
        """Return the power of a node's packages under a cap: a job draws at most p_high."""
        if not self._profiles:
            return cap_uw
        return min(cap_uw, round(self._profiles[job].p_high_w * 1e6))
