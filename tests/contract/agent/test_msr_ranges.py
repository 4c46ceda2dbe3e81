"""Power ranges from registers: a file with the values at their offsets replaces the device."""

from pathlib import Path

import pytest
from contract.agent.powercap_trees import zone

from wattfold.nodeagent.adapters.devices.msr import HardwareRange, MsrRanges
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.caps import ZoneKind

EIGHTHS = 0x000A0E03
"""A power unit register: its low four bits select 1/8 W."""


def info(tdp_w: int, min_w: int, max_w: int) -> int:
    return tdp_w * 8 | min_w * 8 << 16 | max_w * 8 << 32


def host(root: Path, cpus: dict[int, tuple[int, int]], device: str = "msr", **registers: int):
    """CPUs with their package and die, and the registers of all CPUs."""
    values = {0x606: EIGHTHS, 0x614: info(165, 67, 330), 0x61C: info(36, 8, 47)}
    values |= {int(name[1:], 16): value for name, value in registers.items()}
    for cpu, (package, die) in cpus.items():
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{package}\n")
        (topology / "die_id").write_text(f"{die}\n")
        path = root / f"dev/cpu/{cpu}/{device}"
        path.parent.mkdir(parents=True)
        data = bytearray(0x700)
        for offset, value in values.items():
            data[offset : offset + 8] = value.to_bytes(8, "little")
        path.write_bytes(data)
    return MsrRanges(root)


@pytest.mark.parametrize("device", ["msr", "msr_safe"])
def test_minimum_and_maximum_are_read(tmp_path, device):
    ranges = host(tmp_path, {0: (0, 0), 1: (1, 0)}, device)
    package = HardwareRange(cap_uw_min=67_000_000, cap_uw_max=330_000_000)
    assert ranges.range_of("package-1", ZoneKind.PACKAGE) == package
    dram = HardwareRange(cap_uw_min=8_000_000, cap_uw_max=47_000_000)
    assert ranges.range_of("dram-0", ZoneKind.DRAM) == dram


def test_a_package_is_asked_by_a_cpu_of_its_own(tmp_path):
    host(tmp_path / "one", {0: (0, 0)})
    ranges = MsrRanges(tmp_path / "one")
    assert ranges.range_of("package-1", ZoneKind.PACKAGE) is None
    dies = host(tmp_path / "two", {0: (0, 0), 10: (0, 1)})
    assert dies.range_of("package-0-die-1", ZoneKind.PACKAGE) is not None
    (tmp_path / "two/dev/cpu/10/msr").unlink()
    assert dies.range_of("package-0-die-1", ZoneKind.PACKAGE) is None
    assert dies.range_of("package-0-die-2", ZoneKind.PACKAGE) is None


@pytest.mark.parametrize(("name", "kind"), [("psys", ZoneKind.PSYS), ("psys-0", ZoneKind.PSYS)])
def test_other_zones_have_no_register(tmp_path, name, kind):
    assert host(tmp_path, {0: (0, 0)}).range_of(name, kind) is None


def test_a_register_that_is_cut_off_is_unknown(tmp_path):
    ranges = host(tmp_path, {0: (0, 0)})
    (tmp_path / "dev/cpu/0/msr").write_bytes(bytes(0x616))
    assert ranges.range_of("package-0", ZoneKind.PACKAGE) is None


def limits(tree: Path, ranges: MsrRanges, **setting: int):
    (found,) = discover(tree, RangeSetting(**setting), ranges=ranges)
    assert found.limits is not None, found.cannot_cap
    return found.limits.cap_uw_min, found.limits.cap_uw_max


def test_the_minimum_of_a_zone_is_configured_or_the_processors_or_a_quarter(tmp_path):
    tree = tmp_path / "tree"
    zone(tree / "intel-rapl:0", "package-0", 165, 165)
    known = host(tmp_path / "known", {0: (0, 0)})
    unknown = host(tmp_path / "unknown", {0: (0, 0)}, x614=0)
    absurd = host(tmp_path / "absurd", {0: (0, 0)}, x614=info(165, 400, 330))
    assert limits(tree, known) == (67_000_000, 165_000_000)
    assert limits(tree, known, package_uw_min=90_000_000) == (90_000_000, 165_000_000)
    for ranges in (unknown, absurd):
        assert limits(tree, ranges) == (41_250_000, 165_000_000)


def test_the_maximum_is_the_processors_if_powercap_names_none(tmp_path):
    tree = tmp_path / "tree"
    zone(tree / "intel-rapl:0", "package-0", 4090, 0)
    assert limits(tree, host(tmp_path / "known", {0: (0, 0)})) == (67_000_000, 330_000_000)
