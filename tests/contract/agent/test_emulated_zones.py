"""Features of the emulated firmware that plain files lack."""

import time

from wattfold.nodeagent.adapters.devices.emulated_zones import AcceptedValues, EmulatedTree
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles

S = 1_000_000_000

SPEC = AcceptedValues(
    package_uw_min=25_000_000,
    package_uw_max=95_000_000,
    dram_uw_min=8_000_000,
    dram_uw_max=35_000_000,
    window_us=100_000,
    energy_range_uj=50_000_000,
)


def test_limits_are_rounded_down_and_clipped_in_the_file(tmp_path):
    tree = EmulatedTree(tmp_path, SPEC)
    limit = tmp_path / "intel-rapl:0" / "constraint_0_power_limit_uw"
    for written, held in ((40_060_000, 40_000_000), (1, 25_000_000), (10**9, 95_000_000)):
        limit.write_text(str(written))
        assert tree.limits_w()[0] == held / 1e6
        assert int(limit.read_text()) == held


def test_nonsense_in_the_file_keeps_the_limit(tmp_path):
    tree = EmulatedTree(tmp_path, SPEC)
    limit = tmp_path / "intel-rapl:0" / "constraint_0_power_limit_uw"
    limit.write_text("40000000")
    tree.limits_w()
    limit.write_text("")
    assert tree.limits_w()[0] == 40


def test_energy_advances_and_wraps(tmp_path):
    tree = EmulatedTree(tmp_path, SPEC)
    energy = tmp_path / "intel-rapl:0" / "energy_uj"
    tree.advance(30.0, 2.0, 1.0, S)
    assert int(energy.read_text()) == 30_000_000
    tree.advance(30.0, 2.0, 1.0, 2 * S)
    assert int(energy.read_text()) == 10_000_000


def test_a_counter_written_late_is_of_the_time_it_stands_for(tmp_path):
    tree = EmulatedTree(tmp_path, SPEC)
    files = RealFiles(tmp_path, stamped=True)
    files.folders()
    for zone in ("intel-rapl:0", "intel-rapl:0:0"):
        until_ns = time.monotonic_ns() - 5 * S
        tree.advance(30.0, 2.0, 1.0, until_ns)
        before_ns = time.monotonic_ns()
        _, age_ns = files.read_counter(zone, "energy_uj")
        assert before_ns - until_ns <= age_ns <= time.monotonic_ns() - until_ns


def test_limits_survive_the_agent(tmp_path):
    EmulatedTree(tmp_path, SPEC)
    (tmp_path / "intel-rapl:0" / "constraint_0_power_limit_uw").write_text("40000000")
    assert EmulatedTree(tmp_path, SPEC).limits_w()[0] == 40


def test_the_child_is_linked_beside_its_parent_as_in_sysfs(tmp_path):
    EmulatedTree(tmp_path, SPEC)
    assert (tmp_path / "intel-rapl:0:0" / "name").read_text().strip() == "dram"
