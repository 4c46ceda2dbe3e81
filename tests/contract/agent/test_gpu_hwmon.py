"""GPUs of AMD and Intel on file trees like those of their drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattfold.nodeagent import check
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.devices.gpu_hwmon import HwmonGpus
from wattfold.nodeagent.adapters.devices.gpu_search import find_gpus
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.gpus import GpuVendor

W = 1_000_000
AMD = {
    "name": "amdgpu",
    "power1_cap": f"{300 * W}",
    "power1_cap_min": "0",
    "power1_cap_max": f"{300 * W}",
    "power1_average": f"{90 * W}",
}
XE = {
    "name": "xe",
    "power1_max": "0",
    "power1_cap": f"{400 * W}",
    "power1_rated_max": f"{150 * W}",
    "energy1_input": "1234",
}


def card(
    system: Path, number: int, hwmon: dict[str, str], device: dict[str, str] | None = None
) -> Path:
    """Create a card at PCI address 0000:0N:00.0 and return the folder of its sensors."""
    folder = system / f"devices/pci0000:00/0000:{number:02x}:00.0"
    sensors = folder / f"hwmon/hwmon{number}"
    sensors.mkdir(parents=True)
    for where, values in ((sensors, hwmon), (folder, device or {})):
        for name, text in values.items():
            (where / name).write_text(text + "\n")
    for node, minor in ((f"card{number}", number), (f"renderD{128 + number}", 128 + number)):
        (folder / "drm" / node).mkdir(parents=True)
        (folder / "drm" / node / "dev").write_text(f"226:{minor}\n")
    (folder / f"drm/card{number}/device").symlink_to(folder)
    drm = system / "class/drm"
    drm.mkdir(parents=True, exist_ok=True)
    (drm / f"card{number}").symlink_to(folder / f"drm/card{number}")
    (drm / f"card{number}-DP-1").mkdir()
    return sensors


def zone_of(gpus: HwmonGpus, setting: RangeSetting | None = None) -> PowercapZone:
    (zone,) = discover(gpus, setting or RangeSetting())
    return zone


def test_amd_has_a_limit_in_whole_watts_and_a_sum_of_power(tmp_path: Path) -> None:
    device = {"unique_id": "a1b2c3", "gpu_busy_percent": "73", "mem_info_vram_used": "4096"}
    sensors = card(tmp_path, 3, AMD, device | {"product_name": "AMD Instinct MI100"})
    clock = [0]
    gpus = HwmonGpus(tmp_path, now_ns=lambda: clock[0])
    zone = zone_of(gpus)
    assert (zone.name, zone.kind) == ("gpu-a1b2c3", ZoneKind.GPU)
    assert zone.limits is not None
    assert (zone.limits.cap_uw_min, zone.limits.cap_uw_max) == (75 * W, 300 * W)
    assert zone.write_cap_uw(180 * W + 125_000) == 180 * W
    assert (sensors / "power1_cap").read_text() == f"{180 * W}"
    assert zone.read_energy()[0] == 0
    clock[0] = 2_000_000_000
    (sensors / "power1_average").write_text(f"{110 * W}")
    assert zone.read_energy()[0] == 200 * W
    assert (zone.told("busy_percent")[0], zone.told("memory_used_bytes")[0]) == (73, 4096)
    (gpu,) = gpus.gpus()
    assert (gpu.id, gpu.vendor, gpu.model) == ("GPU-a1b2c3", GpuVendor.AMD, "MI100")
    assert [(d.major, d.minor) for d in gpu.devices] == [(226, 3), (226, 131)]


def test_a_range_that_makes_no_sense_is_not_believed(tmp_path: Path) -> None:
    card(tmp_path, 1, AMD | {"power1_cap_min": f"{2**64 - 1}", "power1_cap_max": f"{2**64 - 1}"})
    zone = zone_of(HwmonGpus(tmp_path), RangeSetting(gpu_uw_max=250 * W))
    assert zone.limits is not None
    assert zone.limits.cap_uw_max == 250 * W


def test_a_driver_that_holds_more_than_was_set_is_read_back(tmp_path: Path) -> None:
    sensors = card(tmp_path, 1, AMD)
    gpus = HwmonGpus(tmp_path)
    zone = zone_of(gpus)
    zone.write_cap_uw(100 * W)
    (sensors / "power1_cap").write_text(f"{290 * W}")
    assert zone.read_cap_uw() == 290 * W
    assert [change.found for change in zone.look().changes] == [290 * W]


def test_a_limit_of_intel_may_be_off_and_is_put_back_so(tmp_path: Path) -> None:
    sensors = card(tmp_path, 2, XE)
    gpus = HwmonGpus(tmp_path)
    zone = zone_of(gpus)
    assert zone.name == "gpu-pci-0000.02.00.0"
    assert not zone.enabled()
    assert zone.read_cap_uw() == 150 * W
    before = zone.snapshot()
    zone.saved(before)
    assert zone.write_cap_uw(100 * W) == 100 * W
    assert zone.enabled()
    assert zone.read_energy()[0] == 1234
    assert zone.floor_writes() == [(sensors / "power1_max", str(zone.limits.floor_uw))]
    assert zone.restore(before) == {}
    assert (sensors / "power1_max").read_text() == "0"
    assert (sensors / "power1_cap").read_text() == f"{400 * W}\n"


def test_a_card_without_a_limit_of_its_own_has_that_of_its_package(tmp_path: Path) -> None:
    package = {name.replace("1", "2", 1): text for name, text in XE.items() if name != "name"}
    sensors = card(tmp_path, 2, {"name": "xe"} | package | {"power2_max": f"{150 * W}"})
    zone_of(HwmonGpus(tmp_path)).write_cap_uw(90 * W)
    assert (sensors / "power2_max").read_text() == f"{90 * W}"


def test_graphics_without_power_are_no_gpus_and_one_that_is_gone_is_an_error(
    tmp_path: Path,
) -> None:
    card(tmp_path, 4, {"name": "i915"})
    card(tmp_path, 7, {"name": "amdgpu", "power1_average": f"{20 * W}"})
    card(tmp_path, 5, {"name": "nouveau", "power1_max": "1"})
    assert not HwmonGpus(tmp_path)
    sensors = card(tmp_path, 6, AMD)
    zone = zone_of(HwmonGpus(tmp_path))
    for file in sensors.iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError):
        zone.write_cap_uw(100 * W)
    assert list(sensors.iterdir()) == []


def test_the_check_says_what_they_can(tmp_path: Path) -> None:
    card(tmp_path / "sys", 1, AMD, {"unique_id": "a1b2"})
    (tmp_path / "powercap").mkdir()
    where = [f"--{name}={tmp_path / name}" for name in ("state-dir", "run-dir", "powercap-root")]
    flags = [*where[:2], f"--powercap-root={tmp_path / 'powercap'}", "--gpu-access", "off"]
    report = check.examine(load(flags), tmp_path)
    texts = {f.finding for f in report.findings if f.subject == "gpu-a1b2"}
    assert any("can be capped from 75 to 300 W" in text for text in texts), texts
    assert any("energy can be measured" in text for text in texts)
    access = [f.finding for f in report.findings if f.subject == "access to GPUs"]
    assert access == ["not denied, as configured: jobs receive the names of their GPUs"]


def test_they_are_found_beside_those_of_the_other_vendor(tmp_path: Path) -> None:
    card(tmp_path / "sys", 1, AMD)
    card(tmp_path / "sys", 2, XE)
    found = find_gpus(tmp_path)
    assert [gpu.vendor for gpu in found.gpus()] == [GpuVendor.AMD, GpuVendor.INTEL]
    assert [gpu.zone for gpu in found.facts.gpus] == [gpu.zone for gpu in found.gpus()]
