"""Caps stay within the granted caps and fall to the floor with the lease, for any commands."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from contract.agent.powercap_trees import zone
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.state_store import StateStore
from wattfold.nodeagent.core.caps import CapRequest, CapStatus
from wattfold.nodeagent.core.errors import WrongState
from wattfold.nodeagent.service.power.power import NodePower

RANGES = RangeSetting(package_uw_min=25_000_000, package_floor_uw=30_000_000, dram_uw_min=8_000_000)
ZONES = ("package-0", "dram-0", "gpu-0")
FLOORS = {"package-0": 30_000_000, "dram-0": 8_000_000}

caps = st.tuples(
    st.just("caps"),
    st.dictionaries(st.sampled_from(ZONES), st.integers(0, 120_000_000), min_size=1),
)
renew = st.tuples(st.just("renew"), st.just(None))
lapse = st.tuples(st.just("lapse"), st.just(None))
no_guard = st.tuples(st.just("no guard"), st.just(None))
tamper = st.tuples(st.just("tamper"), st.integers(0, 200_000_000))


class PresentOrNot:
    """A guard that records its orders, or is absent."""

    def __init__(self) -> None:
        self.present = True
        self.until_ns = 0

    async def hold_until(self, deadline_ns: int) -> None:
        if not self.present:
            raise WrongState("no guard")
        self.until_ns = deadline_ns

    def lapsed(self) -> None:
        self.until_ns = 0

    def refresh(self) -> None:
        self.refreshed = True


@settings(max_examples=examples(60))
@given(st.lists(st.one_of(caps, renew, lapse, no_guard, tamper), max_size=12))
def test_enforced_never_exceeds_granted(steps):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder), steps))


async def play(folder: Path, steps) -> None:
    package = zone(folder / "tree/intel-rapl:0", "package-0", 95, 95)
    dram = zone(package / "intel-rapl:0:0", "dram", 35, 35)
    files = {
        "package-0": package / "constraint_0_power_limit_uw",
        "dram-0": dram / "constraint_0_power_limit_uw",
    }
    store = StateStore(folder / "state")
    guard = PresentOrNot()
    power = NodePower(discover(folder / "tree", RANGES), store, "boot", lambda: None, guard)
    power.start()
    granted = dict(FLOORS)
    for kind, value in steps:
        if kind == "caps":
            granted |= set_caps(power, value)
        elif kind == "renew":
            await power.renew(3_600_000_000_000)
            assert guard.until_ns == power.lease.expires_ns
        elif kind == "no guard":
            await renew_without_guard(power, guard)
        elif kind == "lapse":
            power.lease = power.lease.ended()
            power.sample()
            granted = {name: min(granted[name], FLOORS[name]) for name in granted} | FLOORS
            assert power.at_floor
        else:
            files["package-0"].write_text(str(value))
            for _ in range(5):
                power.sample()
        for name, file in files.items():
            enforced = int(file.read_text())
            assert enforced <= granted[name]
            assert enforced == power.zones[ZoneName(name)].cap_uw
            if not power.lease.live(0):
                assert enforced <= FLOORS[name]
    assert power.stop()
    assert [int(file.read_text()) for file in files.values()] == list(FLOORS.values())
    assert power.leave() == {}
    assert int(files["package-0"].read_text()) == 95_000_000
    assert int(files["dram-0"].read_text()) == 35_000_000
    store.close()


async def renew_without_guard(power: NodePower, guard: PresentOrNot) -> None:
    before, guard.present = power.lease, False
    with pytest.raises(WrongState):
        await power.renew(3_600_000_000_000)
    assert power.lease == before
    guard.present = True


def set_caps(power: NodePower, asked: dict[str, int]) -> dict[str, int]:
    """Return the granted caps: those with outcome OK."""
    requests = [CapRequest(name=ZoneName(name), cap_uw=uw) for name, uw in asked.items()]
    outcomes = power.set_caps(requests)
    assert [o.name for o in outcomes] == list(asked)
    assert all(o.enforced_uw <= o.requested_uw for o in outcomes if o.status is CapStatus.OK)
    return {o.name: o.requested_uw for o in outcomes if o.status is CapStatus.OK}
