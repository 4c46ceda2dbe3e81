"""Emulated GPUs on a real site: given, capped, measured and told, from submission to account."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from system.site.live_site import LiveSite, uw, wait_until

pytestmark = pytest.mark.timeout(120)
BURN = ("sh", "-c", "while :; do :; done")
FLOOR_W, MOST_W = 100.0, 250.0


def limit_w(site: LiveSite, index: int) -> float:
    """What an emulated GPU of the node holds, W."""
    zone = site.folder / "n0" / "powercap" / f"emulated-gpu:{index}"
    text = wait_until("a limit", (zone / "constraint_0_power_limit_uw").read_text)
    return int(text) / 1e6


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
    used_uj = site.job(job).gpu_energy_uj
    assert used_uj > 0
    site.client.cancel(job)
    ended = site.ended(job)
    assert ended.gpu_energy_uj >= used_uj
    assert list(ended.gpus) == []
    wait_until("its standing limit", lambda: limit_w(site, own) == FLOOR_W)
