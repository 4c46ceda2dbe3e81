"""Jobs that are held back for cheaper hours, as a site with prices does."""

from __future__ import annotations

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.energy_price import EnergyPrice
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.workloads.workload import Ints


def held_until_ns(table: JobTable, price: EnergyPrice, hold_ns: int) -> Ints:
    """Return when each job becomes visible to the policy, by its estimate. Shape: jobs, in ns.

    It is at most ``hold_ns`` after its submission. Times of the log are times of the prices.
    """
    found, hold_s = table.submit_ns.copy(), hold_ns / NS_PER_S
    rows = zip(table.submit_ns.tolist(), table.estimate_ns.tolist(), strict=True)
    for job, (submit_ns, run_ns) in enumerate(rows):
        begin_s = submit_ns / NS_PER_S
        until_s = price.cheapest_begin_s(begin_s, begin_s + hold_s, run_ns / NS_PER_S)
        if until_s > begin_s:
            found[job] = submit_ns + round((until_s - begin_s) * NS_PER_S)
    return found
