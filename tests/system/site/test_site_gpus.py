"""Emulated GPUs on a real site: assigned, capped, measured and reported."""

from __future__ import annotations

import time
from collections.abc import Callable

from system.site.live_site import FLOOR_W as PACKAGE_FLOOR_W
from system.site.live_site import LiveSite, uw, wait_until

from wattfold.v1 import coordinator_pb2 as pb

BURN = ("sh", "-c", "while :; do :; done")
FLOOR_W, MOST_W = 100.0, 250.0


def limit_w(site: LiveSite, index: int) -> float:
    """Limit in force on an emulated GPU of the node, W."""
    zone = site.folder / "n0" / "powercap" / f"emulated-gpu:{index}"
    text = wait_until("a limit", (zone / "constraint_0_power_limit_uw").read_text)
    return int(text) / 1e6


def above_floors_w(site: LiveSite) -> float:
    """Sum of the GPU limits of the node above their floors, W."""
    return limit_w(site, 0) + limit_w(site, 1) - 2 * FLOOR_W


def give(site: LiveSite, above_w: float) -> None:
    """Set a budget that leaves this power to jobs."""
    budget_w = site.client.power().floor_uw / 1e6 + above_w
    site.lowered.append((time.time(), time.time() + 10))
    site.wattfold("budget", "set", f"{budget_w}W", "--deadline", "10s")
    wait_until("the budget", lambda: not site.client.power().pending_budget_uw)


def test_watts_of_idle_gpus_and_of_lower_levels_are_everybodys(
    start_site: Callable[..., LiveSite],
) -> None:
    """The budget feeds one GPU at its maximum or two GPUs at less, but never more."""
    site = start_site(nodes=1, policy="fifo-easy", budget_w=900, agent="emulated_gpus = 2\n")
    give(site, 170)
    floor_w = site.client.power().floor_uw / 1e6
    whole = site.submit(BURN, gpus=1)
    (gpu,) = site.running(whole).shares[0].gpus
    wait_until("the greatest", lambda: limit_w(site, int(gpu[-1])) == MOST_W)
    second = site.submit(BURN, gpus=1)
    wait_until("a reason", lambda: site.job(second).reason)
    assert site.job(second).state == pb.JOB_STATE_PENDING
    told = site.wattfold("power").stdout
    assert "1 of 2 in use, 150.0 W above their floors" in told
    assert "1 GPU at 250.0 W, their maximum: 150.0 W" in site.wattfold("explain", whole).stdout
    site.client.cancel(whole)
    site.ended(whole)
    site.running(second)
    site.client.cancel(second)
    site.ended(second)
    low = [site.submit(BURN, gpus=1, gpu_cap_uw=uw(170), cap_uw=uw(PACKAGE_FLOOR_W)) for _ in "ab"]
    for job in low:
        site.running(job)
    wait_until("both levels", lambda: above_floors_w(site) == 140)
    assert "1 GPU at 170.0 W: 70.0 W" in site.wattfold("explain", low[0]).stdout
    give(site, 50)
    wait_until("lower limits", lambda: 0 < above_floors_w(site) <= 50)
    assert site.client.power().committed_uw <= uw(floor_w + 50)
    site.cancel_all()
    wait_until("standing limits", lambda: above_floors_w(site) == 0)
    site.check_record()


def test_parm_chooses_levels_so_that_two_run(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(
        nodes=1, policy="parm-wse", budget_w=900, agent="emulated_gpus = 2\n", parm="gpu_levels = 4"
    )
    give(site, 170)
    for _ in range(2):
        site.submit(BURN, gpus=1)
    jobs = wait_until("both run", lambda: [j for j in site.client.list_jobs().jobs if j.shares][1:])
    assert jobs
    wait_until("their levels", lambda: 0 < above_floors_w(site) <= 170)
    levels_w = {job.gpu_cap_uw / 1e6 for job in site.client.list_jobs().jobs}
    assert levels_w <= {125, 166.625, 208.25, 0}
    assert levels_w != {0}
    shown = next(job for job in site.client.list_jobs().jobs if job.gpu_cap_uw)
    assert "W for each GPU" in site.wattfold("explain", shown.job_id).stdout
    assert "GPU cap" in site.wattfold("show", shown.job_id).stdout
    site.cancel_all()
    wait_until("standing limits", lambda: above_floors_w(site) == 0)
    site.check_record()


def test_a_gpu_is_given_capped_and_accounted(start_site: Callable[..., LiveSite]) -> None:
    site = start_site(nodes=1, policy="fifo-easy", budget_w=600, agent="emulated_gpus = 2\n")
    node = site.node(0)
    assert (node.gpu_model, node.gpu_access, len(node.free_gpus)) == ("V100", "told", 2)
    power = site.client.power()
    assert node.emulated
    assert (power.emulated_nodes, power.known_nodes) == (1, 1)
    wait_until("standing limits", lambda: limit_w(site, 0) == limit_w(site, 1) == FLOOR_W)

    job = site.submit(BURN, gpus=1, gpu_cap_uw=uw(150))
    (gpu,) = site.running(job).shares[0].gpus
    own = int(gpu.rpartition("-")[2])
    wait_until("its cap", lambda: limit_w(site, own) == 150)
    assert limit_w(site, 1 - own) == FLOOR_W

    def told() -> bool:
        gpus = site.job(job).gpus
        return bool(gpus) and gpus[0].busy_percent > 0 and 0 < gpus[0].power_uw <= uw(157.5)

    wait_until("its power within the cap", told)
    # Later than its power, which belongs to the GPU and includes the time before the job.
    used_uj = wait_until("its energy", lambda: site.job(job).gpu_energy_uj)
    site.client.cancel(job)
    ended = site.ended(job)
    assert ended.gpu_energy_uj >= used_uj
    assert list(ended.gpus) == []
    wait_until("its standing limit", lambda: limit_w(site, own) == FLOOR_W)
