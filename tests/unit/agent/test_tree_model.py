"""The simulated zone tree: how the kernel, the driver and the firmware treat a written value."""

import dataclasses
import errno
from pathlib import Path

import pytest

from wattfold.nodeagent.emulation.fixtures import FixtureError, load_fixture, shipped
from wattfold.nodeagent.emulation.machine import (
    ConstraintSpec,
    Disturbance,
    Machine,
    Origin,
    ZoneSpec,
)
from wattfold.nodeagent.emulation.tree_model import TreeModel

S = 1_000_000_000
LIMIT = "constraint_0_power_limit_uw"
WINDOW = "constraint_0_time_window_us"
LONG = ConstraintSpec(name="long_term", limit_uw=100_000_000, max_uw=100_000_000, window_us=999_424)
ZONE = ZoneSpec(
    folder="intel-rapl:0",
    name="package-0",
    enabled=True,
    energy_uj=0,
    energy_range_uj=10**9,
    constraints=(LONG,),
    idle_uw=20_000_000,
    full_uw=120_000_000,
)


def model(*zones: ZoneSpec, load: float = 1.0, disturbances=()) -> TreeModel:
    return TreeModel(
        Machine(title="t", source="s", zones=zones, load=load, disturbances=tuple(disturbances))
    )


def altered(**constraint) -> ZoneSpec:
    return dataclasses.replace(ZONE, constraints=(dataclasses.replace(LONG, **constraint),))


def error_of(call, *arguments) -> int:
    with pytest.raises(OSError, match=r".") as caught:
        call(*arguments)
    return caught.value.errno


@pytest.mark.parametrize(
    ("written_w", "held_uw"),
    [
        (40.06, 40_000_000),
        (0.1, 0),
        (4095.9, 4_095_875_000),
        (4096, 0),
        (4136, 40_000_000),
    ],
)
def test_limits_are_floored_and_wrap_at_4096_w(written_w, held_uw):
    tree = model(ZONE)
    tree.write("intel-rapl:0", LIMIT, f"{int(written_w * 1e6)}\n")
    assert tree.read("intel-rapl:0", LIMIT) == str(held_uw)


@pytest.mark.parametrize("text", ["-1", "", "1.5", "x", "0x10"])
def test_what_is_no_number_is_einval(text):
    tree = model(ZONE)
    assert error_of(tree.write, "intel-rapl:0", LIMIT, text) == errno.EINVAL
    assert tree.read("intel-rapl:0", LIMIT) == "100000000"


def test_what_follows_a_nul_byte_is_not_read():
    tree = model(ZONE)
    tree.write("intel-rapl:0", LIMIT, "50000000\0\0\0\1\0")
    tree.write("intel-rapl:0", "enabled", "0\0\0")
    assert tree.read("intel-rapl:0", LIMIT) == "50000000"
    assert tree.read("intel-rapl:0", "enabled") == "0"


def test_a_locked_limit_is_enodata_and_enabled_reads_0_and_gives_enosys():
    tree = model(altered(locked=True))
    assert error_of(tree.write, "intel-rapl:0", LIMIT, "50000000") == errno.ENODATA
    assert tree.read("intel-rapl:0", "enabled") == "0"
    assert error_of(tree.write, "intel-rapl:0", "enabled", "1") == errno.ENOSYS


def test_writing_a_limit_does_not_enable_it():
    tree = model(dataclasses.replace(ZONE, enabled=False))
    tree.write("intel-rapl:0", LIMIT, "50000000")
    assert tree.read("intel-rapl:0", "enabled") == "0"
    tree.advance(60 * S)
    assert tree.power_uw("intel-rapl:0") == 120_000_000
    tree.write("intel-rapl:0", "enabled", "1")
    tree.advance(60 * S)
    assert tree.power_uw("intel-rapl:0") == 50_000_000


def test_a_window_read_back_may_shift_when_it_is_written_again():
    tree = model(altered(window_us=2440))
    assert tree.read("intel-rapl:0", WINDOW) == "2440"
    tree.write("intel-rapl:0", WINDOW, "2440")
    assert tree.read("intel-rapl:0", WINDOW) == "1952"
    tree.write("intel-rapl:0", WINDOW, "999424")
    assert tree.read("intel-rapl:0", WINDOW) == "999424"


def test_a_peak_limit_has_no_window():
    tree = model(altered(window_us=None))
    assert error_of(tree.read, "intel-rapl:0", WINDOW) == errno.ENODATA
    assert error_of(tree.write, "intel-rapl:0", WINDOW, "976") == errno.ENODATA


@pytest.mark.parametrize(("shown", "read_back"), [(False, "10000000"), (True, "30000000")])
def test_the_firmware_clips_whether_it_shows_it_or_not(shown, read_back):
    tree = model(altered(clip_uw_min=30_000_000, clip_shown=shown))
    tree.write("intel-rapl:0", LIMIT, "10000000")
    assert tree.read("intel-rapl:0", LIMIT) == read_back
    tree.advance(60 * S)
    assert tree.power_uw("intel-rapl:0") == 30_000_000


def test_no_cap_makes_the_hardware_draw_less_than_idle():
    tree = model(ZONE)
    tree.write("intel-rapl:0", LIMIT, "5000000")
    tree.advance(60 * S)
    assert tree.power_uw("intel-rapl:0") == 20_000_000


def test_the_power_nears_a_cap_over_the_window():
    tree = model(dataclasses.replace(ZONE, energy_range_uj=10**12))
    tree.advance(60 * S)
    tree.write("intel-rapl:0", LIMIT, "50000000")
    tree.advance(S // 10)
    assert 50_000_000 < tree.power_uw("intel-rapl:0") < 100_000_000
    before = tree.energy_uj("intel-rapl:0")
    tree.advance(S)
    assert 50_000_000 < tree.energy_uj("intel-rapl:0") - before < 70_000_000


def test_energy_does_not_depend_on_how_often_time_is_counted():
    coarse, fine = model(ZONE), model(ZONE)
    coarse.advance(5 * S)
    for _ in range(500):
        fine.advance(S // 100)
    assert abs(coarse.energy_uj("intel-rapl:0") - fine.energy_uj("intel-rapl:0")) < 1000


def test_energy_wraps_below_its_range():
    tree = model(dataclasses.replace(ZONE, energy_uj=990_000_000), load=0)
    tree.advance(S)
    assert tree.energy_uj("intel-rapl:0") == 10_000_000


def test_an_unreadable_counter_is_enodata_and_not_0():
    tree = model(dataclasses.replace(ZONE, energy_uj=None))
    assert error_of(tree.read, "intel-rapl:0", "energy_uj") == errno.ENODATA


def test_of_two_interfaces_the_lower_limit_wins_and_energy_is_shared():
    twin = dataclasses.replace(altered(limit_uw=60_000_000), folder="intel-rapl-mmio:0")
    tree = model(ZONE, twin)
    tree.advance(60 * S)
    assert tree.power_uw("intel-rapl:0") == 60_000_000
    assert tree.enforced_uw("intel-rapl:0") == 60_000_000
    assert tree.energy_uj("intel-rapl:0") == tree.energy_uj("intel-rapl-mmio:0")
    tree.write("intel-rapl-mmio:0", "enabled", "0")
    assert tree.enforced_uw("intel-rapl:0") == 100_000_000


def test_dram_of_two_sockets_is_not_one_supply():
    def dram(folder: str, energy_uj: int) -> ZoneSpec:
        return dataclasses.replace(ZONE, folder=folder, name="dram", energy_uj=energy_uj)

    second = dataclasses.replace(ZONE, folder="intel-rapl:1", name="package-1")
    tree = model(ZONE, dram("intel-rapl:0:0", 7), second, dram("intel-rapl:1:0", 9))
    assert (tree.energy_uj("intel-rapl:0:0"), tree.energy_uj("intel-rapl:1:0")) == (7, 9)


def test_a_zone_that_vanishes_takes_its_children_and_comes_back_uncapped():
    child = dataclasses.replace(ZONE, folder="intel-rapl:0:0", name="dram")
    tree = model(ZONE, child)
    tree.vanish("intel-rapl:0")
    assert tree.folders() == ["intel-rapl"]
    assert error_of(tree.read, "intel-rapl:0:0", "name") == errno.ENOENT
    tree.appear("intel-rapl:0")
    assert tree.read("intel-rapl:0", "enabled") == "0"


def test_a_second_writer_and_an_absence_happen_at_their_time():
    writer = Disturbance(
        folder="intel-rapl:0", every_ns=2 * S, constraint="long_term", value_uw=90_000_000
    )
    away = Disturbance(folder="intel-rapl:0", every_ns=5 * S, absent_ns=S, once=True)
    tree = model(ZONE, disturbances=(writer, away))
    tree.advance(2 * S - 1)
    assert tree.read("intel-rapl:0", LIMIT) == "100000000"
    tree.advance(1)
    assert tree.read("intel-rapl:0", LIMIT) == "90000000"
    tree.advance(3 * S)
    assert "intel-rapl:0" not in tree.folders()
    tree.advance(S)
    assert "intel-rapl:0" in tree.folders()
    tree.advance(60 * S)
    assert "intel-rapl:0" in tree.folders()


def test_a_planned_failure_happens_once():
    tree = model(ZONE)
    tree.fail_next("intel-rapl:0", LIMIT, errno.EIO)
    assert error_of(tree.write, "intel-rapl:0", LIMIT, "1") == errno.EIO
    tree.write("intel-rapl:0", LIMIT, "50000000")
    assert tree.read("intel-rapl:0", LIMIT) == "50000000"


@pytest.mark.parametrize("file", ["name", "energy_uj", "constraint_0_name"])
def test_what_is_for_reading_cannot_be_written(file):
    assert error_of(model(ZONE).write, "intel-rapl:0", file, "1") == errno.EACCES


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_fixture_says_where_each_value_is_from(name):
    fixture = load_fixture(name)
    assert fixture.machine.title
    assert fixture.machine.source
    for zone in fixture.machine.zones:
        for key in ("name", "enabled", "energy_uj", "energy_range_uj"):
            assert isinstance(fixture.origins[f"{zone.folder}/{key}"], Origin)
        for constraint in zone.constraints:
            assert f"{zone.folder}/{constraint.name}/limit_uw" in fixture.origins


def test_captured_values_are_those_of_the_machine():
    fixture = load_fixture("xeon-8260-4s")
    package = next(z for z in fixture.machine.zones if z.name == "package-3")
    assert [c.limit_uw for c in package.constraints] == [165_000_000, 198_000_000]
    assert fixture.origins["intel-rapl:3/long_term/limit_uw"] is Origin.CAPTURED
    assert fixture.origins["intel-rapl:3/idle_uw"] is Origin.ASSUMED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 1", "source is missing"),
        ("title = 't'\nsource = 's'\nodd = 1", "odd is unknown"),
        ("title = 't'\nsource = 's'\nload = 1", "must be"),
        ("title = 't'\nsource = 's'\nload = [1, 'guessed']", "guessed"),
        ("title = ", "Invalid value"),
        (
            "title = 't'\nsource = 's'\n[[disturbance]]\nfolder = 'intel-rapl:0'\nevery_s = 1",
            "intel-rapl:0 is missing",
        ),
    ],
)
def test_a_wrong_fixture_is_refused_with_its_place(tmp_path: Path, text, words):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(FixtureError, match=words):
        load_fixture(str(path))


def test_an_unknown_fixture_names_those_there_are():
    with pytest.raises(FixtureError, match="xeon-8260-4s"):
        load_fixture("nonsense")
