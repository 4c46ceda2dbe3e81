"""The power of a node and its idle part."""

from types import SimpleNamespace

from wattfold.contract.units import NS_PER_S
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.energy import EnergyMeter, IdlePower, PowerHistory
from wattfold.nodeagent.service.power.node_total import node_total
from wattfold.nodeagent.service.power.power import ZoneState

W = 1_000_000


def zone(kind: ZoneKind, watts: int, *, valid: bool = True, why: str = "") -> ZoneState:
    """A zone with this power for ten seconds."""
    history = PowerHistory()
    for second in range(11):
        history.add(second * NS_PER_S, second * watts * W)
    facts = SimpleNamespace(kind=kind, cannot_measure=why)
    meter = EnergyMeter(range_uj=10**12, power_uw_max=10**12, total_uj=10 * watts * W)
    return ZoneState(zone=facts, meter=meter, history=history, valid=valid)


PARTS = [zone(ZoneKind.PACKAGE, 40), zone(ZoneKind.PACKAGE, 50), zone(ZoneKind.DRAM, 10)]


def test_without_psys_packages_and_memory_are_added():
    total = node_total(PARTS)
    assert (total.by_psys, total.power_uw(5 * NS_PER_S)) == (False, 100 * W)
    assert total.energy_uj == 1000 * W


def test_psys_is_never_added_to_what_it_contains():
    total = node_total([*PARTS, zone(ZoneKind.PSYS, 150)])
    assert (total.by_psys, total.power_uw(5 * NS_PER_S)) == (True, 150 * W)


def test_a_psys_that_cannot_be_is_not_believed():
    for bad in (
        zone(ZoneKind.PSYS, 89),
        zone(ZoneKind.PSYS, 150, valid=False),
        zone(ZoneKind.PSYS, 150, why="unreadable"),
    ):
        assert node_total([*PARTS, bad]).power_uw(5 * NS_PER_S) == 100 * W


def test_nothing_measured_is_not_zero_watts():
    assert node_total([]) is None
    assert node_total([zone(ZoneKind.PACKAGE, 40, valid=False)]) is None


def test_idle_power_is_the_least_seen_without_jobs():
    idle = IdlePower()
    assert idle.power_uw == 0
    for watts, quiet in ((30, True), (25, True), (10, False), (28, True)):
        idle.observe(watts * W, NS_PER_S, quiet=quiet)
    assert idle.power_uw == 25 * W
    idle.observe(W, NS_PER_S // 10, quiet=True)
    assert idle.power_uw == 25 * W, "a moment says nothing of power"
    known = IdlePower(known_uw=45 * W)
    known.observe(25 * W, NS_PER_S, quiet=True)
    assert known.power_uw == 45 * W
