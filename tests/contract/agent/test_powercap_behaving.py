"""Zones of simulated machines: the same cases in memory and through real files."""

import errno

import pytest
from contract.agent.behaving_trees import served, why_no_fuse

from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.caps import ZoneKind

RANGES = RangeSetting()
LONG = "constraint_0_power_limit_uw"
SHORT = "constraint_1_power_limit_uw"
WINDOWS = ("constraint_0_time_window_us", "constraint_1_time_window_us")
HEAD = 'title = "t"\nsource = "s"\n'


def zone_text(folder: str, name: str, *, enabled: int = 1, extra: str = "", limit: str = "") -> str:
    return f"""
[[zone]]
folder = "{folder}"
name = ["{name}", "assumed"]
enabled = [{enabled}, "assumed"]
energy_uj = [1000, "assumed"]
energy_range_uj = [262143328850, "assumed"]
{extra}
[zone.constraint.short_term]
limit_uw = [120000000, "assumed"]
window_us = [2440, "assumed"]
[zone.constraint.long_term]
limit_uw = [100000000, "assumed"]
max_uw = [100000000, "assumed"]
window_us = [999424, "assumed"]
{limit}
"""


LOCKED = 'locked = [true, "assumed"]'


@pytest.fixture(params=["memory", "files"])
def machine(request, tmp_path):
    """Return a function that serves a fixture (by name or text) until the test ends."""
    if request.param == "files" and why_no_fuse():
        pytest.skip(why_no_fuse())
    open_trees = []

    def serve(fixture: str):
        if "\n" in fixture:
            path = tmp_path / "machine.toml"
            path.write_text(HEAD + fixture)
            fixture = str(path)
        tree = served(request.param, fixture, tmp_path)
        open_trees.append(tree)
        return tree.__enter__()

    yield serve
    for tree in open_trees:
        tree.__exit__(None, None, None)


def zones_of(files) -> dict[str, PowercapZone]:
    return {zone.name: zone for zone in discover(files, RANGES)}


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("sapphire-rapids-2s", "dram-0=0:0 dram-1=2:0 package-0=0 package-1=2 psys=1"),
        ("reversed-4s", "package-0=3 package-1=2 package-2=1 package-3=0"),
        ("reversed-2s", "package-0=1 package-1=0"),
        ("client-mmio", "package-0=0 package-10=a"),
        (
            "dies-2x2",
            "dram-0-die-0=0:0 dram-0-die-1=1:0"
            " package-0-die-0=0 package-0-die-1=1 package-1-die-0=2 package-1-die-1=3",
        ),
    ],
)
def test_identity_is_the_name(machine, fixture, expected):
    zones = zones_of(machine(fixture))
    found = [f"{n}={z.path.name.removeprefix('intel-rapl:')}" for n, z in zones.items()]
    assert " ".join(found) == expected


def test_psys_is_shown_and_not_capped(machine):
    psys = zones_of(machine("sapphire-rapids-2s"))["psys"]
    assert psys.kind is ZoneKind.PSYS
    assert "contains the packages" in psys.cannot_cap
    assert not psys.cannot_measure


def test_a_cap_is_floored_and_what_is_held_is_answered(machine):
    package = zones_of(machine("xeon-8260-4s"))["package-2"]
    assert package.write_cap_uw(100_060_000) == 100_000_000
    assert package.read_cap_uw() == 100_000_000


def test_a_locked_zone_refuses_and_its_neighbours_do_not(machine):
    zones = zones_of(machine("xeon-8260-4s"))
    with pytest.raises(OSError, match="No data") as caught:
        zones["dram-0"].write_cap_uw(20_000_000)
    assert caught.value.errno == errno.ENODATA
    assert zones["package-0"].write_cap_uw(90_000_000) == 90_000_000


def test_limits_go_by_name_and_windows_stay(machine):
    files = machine(zone_text("intel-rapl:0", "package-0"))
    package = zones_of(files)["package-0"]
    before = [files.read("intel-rapl:0", window) for window in WINDOWS]
    assert package.window_ns == 999_424_000
    assert package.write_cap_uw(60_000_000) == 60_000_000
    assert [files.read("intel-rapl:0", f) for f in (LONG, SHORT)] == ["60000000", "60000000"]
    assert package.restore({}) == {}
    assert (
        [files.read("intel-rapl:0", window) for window in WINDOWS] == before == ["2440", "999424"]
    )


def test_both_interfaces_are_set_and_restored(machine):
    files = machine("client-mmio")
    package = zones_of(files)["package-0"]
    assert package.twins == ["intel-rapl-mmio:0"]
    before = package.snapshot()
    assert package.read_cap_uw() == 95_000_000
    assert package.write_cap_uw(40_000_000) == 40_000_000
    held = [files.read(f, n) for f in ("intel-rapl:0", "intel-rapl-mmio:0") for n in (LONG, SHORT)]
    assert held == ["40000000"] * 4
    assert package.restore(before) == {}
    assert package.snapshot() == before
    assert files.read("intel-rapl:0", LONG) == "4090000000"


def test_a_locked_second_interface_does_not_stop_the_first(machine):
    text = zone_text("intel-rapl:0", "package-0")
    files = machine(text + zone_text("intel-rapl-mmio:0", "package-0", limit=LOCKED))
    assert zones_of(files)["package-0"].write_cap_uw(60_000_000) == 60_000_000
    assert files.read("intel-rapl-mmio:0", "constraint_1_power_limit_uw") == "100000000"


def test_one_interface_that_takes_the_cap_is_enough(machine):
    locked = zone_text("intel-rapl:0", "package-0", limit=LOCKED)
    files = machine(locked + zone_text("intel-rapl-mmio:0", "package-0"))
    assert zones_of(files)["package-0"].write_cap_uw(60_000_000) == 60_000_000
    assert files.read("intel-rapl-mmio:0", "constraint_1_power_limit_uw") == "60000000"


def test_a_lower_twin_that_somebody_set_is_what_is_enforced(machine):
    text = zone_text("intel-rapl:0", "package-0") + zone_text("intel-rapl-mmio:0", "package-0")
    files = machine(text)
    package = zones_of(files)["package-0"]
    package.write_cap_uw(60_000_000)
    files.write("intel-rapl-mmio:0", "constraint_1_power_limit_uw", "45000000")
    assert package.read_cap_uw() == 45_000_000


def test_a_zone_that_is_off_is_switched_on_and_off_again(machine):
    files = machine(zone_text("intel-rapl:0", "package-0", enabled=0))
    package = zones_of(files)["package-0"]
    before = package.snapshot()
    assert before["intel-rapl:0/enabled"] == 0
    package.write_cap_uw(60_000_000)
    assert package.enabled()
    assert package.restore(before) == {}
    assert not package.enabled()


def test_a_zone_that_cannot_be_switched_on_is_an_error(machine):
    stuck = 'enable_fails = [true, "assumed"]'
    files = machine(zone_text("intel-rapl:0", "package-0", enabled=0, extra=stuck))
    with pytest.raises(OSError, match="not implemented"):
        zones_of(files)["package-0"].write_cap_uw(60_000_000)


def test_a_zone_that_is_on_is_not_switched(machine):
    stuck = 'enable_fails = [true, "assumed"]'
    files = machine(zone_text("intel-rapl:0", "package-0", extra=stuck))
    assert zones_of(files)["package-0"].write_cap_uw(60_000_000) == 60_000_000


def test_what_the_firmware_shows_it_clipped_is_answered(machine):
    package = zones_of(machine("xeon-e5-2620"))["package-1"]
    assert package.write_cap_uw(20_000_000) == 25_000_000


def test_4096_w_would_be_0_and_is_not_written(machine):
    files = machine("xeon-e5-2620")
    with pytest.raises(ValueError, match="outside the range of the register"):
        zones_of(files)["package-0"].write_cap_uw(4_096_000_000)
    assert files.read("intel-rapl:0", LONG) == "95000000"
    wide = discover(files, RangeSetting(package_uw_max=9_000_000_000))
    limits = next(z.limits for z in wide if z.name == "package-0")
    assert limits is not None
    assert limits.cap_uw_max == 4_095_875_000


def test_energy_only_zones_are_measured(machine):
    zones = zones_of(machine("epyc-19h-2s"))
    assert set(zones) == {"package-0", "package-1"}
    assert all("energy only" in z.cannot_cap and not z.cannot_measure for z in zones.values())
    assert all(z.range_uj == 65_532_610_987 and z.read_energy()[0] > 0 for z in zones.values())


def test_unreadable_energy_does_not_stop_capping(machine):
    package = zones_of(machine("troubled-2s"))["package-1"]
    assert "unreadable" in package.cannot_measure
    assert package.write_cap_uw(70_000_000) == 70_000_000


def test_a_restore_that_fails_names_the_file_and_goes_on(machine):
    files = machine("xeon-8260-4s")
    package = zones_of(files)["package-0"]
    package.write_cap_uw(70_000_000)
    values = {
        "intel-rapl:0/constraint_0_power_limit_uw": 165_000_000,
        "intel-rapl:0/constraint_1_power_limit_uw": 198_000_000,
        "intel-rapl:0:0/constraint_0_power_limit_uw": 20_000_000,
        "intel-rapl:9/constraint_0_power_limit_uw": 1,
    }
    failed = package.restore(values)
    assert list(failed) == list(values)[2:]
    assert package.read_cap_uw() == 165_000_000
    assert files.read("intel-rapl:0", SHORT) == "198000000"


@pytest.mark.parametrize("missing", ["enabled", "constraint_1_power_limit_uw"])
def test_what_could_not_be_saved_is_not_changed(machine, missing):
    text = zone_text("intel-rapl:0", "package-0") + zone_text("intel-rapl-mmio:0", "package-0")
    files = machine(text)
    package = zones_of(files)["package-0"]
    values = package.snapshot()
    del values[f"intel-rapl:0/{missing}"]
    package.saved(values)
    assert package.write_cap_uw(60_000_000) == 60_000_000
    assert [files.read("intel-rapl:0", f) for f in (LONG, SHORT)] == ["120000000", "100000000"]
    assert {path.parent.name for path, _ in package.floor_writes()} == {"intel-rapl-mmio:0"}
    package.saved({})
    assert "could not be saved" in package.cannot_cap
