"""How long the jobs of a simulation take at a number of nodes and a cap.

* **pass**: the profile of the job (PARM, Eq. 9-19).
* **ideal**: work over nodes; a job on half of its nodes takes twice as long (SD-Policy, Eq. 5).
* **worst-case**: as ideal, but the speed follows the node on which the job has least (Eq. 6). In a
  pool, where nodes are given whole, all have the same and both models agree; where cores of nodes
  are given, at the level of messages, they do not.

Caps slow a job only where its profile says how.
"""

from __future__ import annotations

from wattfold.contract.units import w_from_uw
from wattfold.coordinator.models.dram_model import DramModel
from wattfold.coordinator.models.pass_model import PassProfile
from wattfold.coordinator.simulation.choices import RunTimeModel as RunTimeModel
from wattfold.coordinator.simulation.pool.jobs import JobTable

KNOWN_MAX = 200_000
"""Bounds the memory of what is remembered."""


class RunTimes:
    """Run times of whole jobs, remembered. Raises ValueError for PASS without profiles."""

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
        """The whole job on so many nodes, each with its packages capped so, ns.

        ``dram_uw`` is a DRAM cap that was chosen, 0 the standing one, under which times are known.
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
        """What the packages of one node draw under a cap: a job draws no more than p_high."""
        if not self._profiles:
            return cap_uw
        return min(cap_uw, round(self._profiles[job].p_high_w * 1e6))
