"""Emulated GPUs are zones like others; their limits hold and slow the jobs that own them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from wattfold.contract.ids import JobId
from wattfold.nodeagent import check
from wattfold.nodeagent.adapters.config import Config, load
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.devices.emulated_gpus import EmulatedGpus, EmulatedGpuSpec
from wattfold.nodeagent.adapters.devices.emulated_zones import EmulatedFirmware, EmulatedTree
from wattfold.nodeagent.adapters.devices.powercap import PowercapZone
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.throttle import BandwidthThrottle
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.emulation_model import EmulationModel
from wattfold.nodeagent.core.findings import Status

A, B = "GPU-emulated-0", "GPU-emulated-1"
W = 1_000_000


def configured(*flags: str) -> Config:
    return load(["--emulate", *flags])


def spec_of(*flags: str) -> EmulatedGpuSpec:
    spec = configured("--emulated-gpus", "2", *flags).gpu.emulated
    assert spec is not None
    return spec


def zones(root: Path, config: Config) -> dict[str, PowercapZone]:
    return {zone.name: zone for zone in discover(root, config.ranges, stamped=True)}


def test_they_are_zones_with_the_range_of_their_model(tmp_path: Path) -> None:
    EmulatedGpus(tmp_path, spec_of())
    found = zones(tmp_path, configured())
    assert list(found) == ["gpu-emulated-0", "gpu-emulated-1"]
    gpu = found["gpu-emulated-0"]
    assert gpu.kind is ZoneKind.GPU
    assert gpu.limits is not None
    assert (gpu.limits.cap_uw_min, gpu.limits.cap_uw_max) == (100 * W, 250 * W)
    assert gpu.window_ns == 100_000_000
    assert not gpu.cannot_cap
    assert not gpu.cannot_measure
    narrow = zones(tmp_path, configured("--gpu-max-w", "200", "--gpu-floor-w", "120"))
    limits = narrow["gpu-emulated-0"].limits
    assert limits is not None
    assert (limits.floor_uw, limits.cap_uw_max) == (120 * W, 200 * W)


def test_limits_are_clipped_as_hardware_does_and_outlive_the_agent(tmp_path: Path) -> None:
    gpus = EmulatedGpus(tmp_path, spec_of())
    gpu = zones(tmp_path, configured())["gpu-emulated-0"]
    assert gpu.write_cap_uw(30 * W) == 30 * W
    gpus.operate()
    assert gpu.read_cap_uw() == 100 * W
    EmulatedGpus(tmp_path, spec_of())
    assert gpu.read_cap_uw() == 100 * W
    one = configured("--emulated-gpus", "1").gpu.emulated
    assert one is not None
    EmulatedGpus(tmp_path, one)
    assert list(zones(tmp_path, configured())) == ["gpu-emulated-0"]


def test_the_slowest_of_its_gpus_sets_the_speed_of_a_job(tmp_path: Path) -> None:
    gpus = EmulatedGpus(tmp_path, spec_of())
    assert gpus.speed([]) == gpus.speed(["GPU-real"]) == 1
    assert gpus.speed([A, B]) == pytest.approx(1)
    zones(tmp_path, configured())["gpu-emulated-1"].write_cap_uw(150 * W)
    gpus.operate()
    assert gpus.speed([A]) == pytest.approx(1)
    assert gpus.speed([A, B]) == gpus.speed([B]) == pytest.approx(0.842, abs=0.01)
    assert gpus.speed([A, B], 100) == pytest.approx(0.516, abs=0.01)


def test_power_follows_the_work_and_never_passes_the_limit(tmp_path: Path) -> None:
    gpus = EmulatedGpus(tmp_path, spec_of())
    found = zones(tmp_path, configured())
    found["gpu-emulated-0"].write_cap_uw(150 * W)
    gpus.operate()
    gpus.advance({A: 1.5}, 2.0, time.monotonic_ns())
    used_uj = [found[f"gpu-emulated-{i}"].read_energy()[0] for i in (0, 1)]
    assert used_uj == pytest.approx([300 * W, 72 * W])
    assert used_uj[0] <= 300 * W
    assert found["gpu-emulated-0"].told("busy_percent")[0] == 100
    assert found["gpu-emulated-1"].told("busy_percent")[0] == 0
    assert found["gpu-emulated-0"].told("memory_used_bytes")[0] is None


def test_quotas_are_those_of_package_or_gpus_whichever_is_less(tmp_path: Path) -> None:
    (tmp_path / "cpu/wattfold/n/job").mkdir(parents=True)
    config = configured()
    assert config.emulation is not None
    tree = EmulatedTree(tmp_path / "tree", config.emulation.zones)
    gpus = EmulatedGpus(tmp_path / "tree", spec_of())
    model = EmulationModel(
        a=2.63,
        b=8.36,
        c=13,
        f_low_ghz=1.2,
        f_high_ghz=2,
        dram_idle_w=2,
        dram_dynamic_w=6,
        cpu_share=1,
        cores=2,
    )
    throttle = BandwidthThrottle(tmp_path / "cpu", "n", v2=False)
    clock = CpuClock(tmp_path, "n", use_cgroups=False)
    firmware = EmulatedFirmware(tree, model, throttle, clock, gpus)
    quota = tmp_path / "cpu/wattfold/n/job/cpu.cfs_quota_us"

    def share(package_w: float, gpu_w: float) -> float:
        found = zones(tmp_path / "tree", config)
        found["package-0"].write_cap_uw(int(package_w * W))
        found["gpu-emulated-0"].write_cap_uw(int(gpu_w * W))
        firmware.prepare(JobId("job"), 1, (A,))
        return int(quota.read_text()) / 50_000

    assert share(95, 250) == pytest.approx(1, abs=0.01)
    assert share(95, 150) == pytest.approx(0.842, abs=0.01)
    assert share(25, 150) == pytest.approx(share(25, 250)) != pytest.approx(share(95, 150))
    at_floor = dict(firmware.floor_writes(95 * W, 35 * W, 100 * W))
    assert int(at_floor[quota.absolute()]) / 50_000 == pytest.approx(0.516, abs=0.01)


def test_the_check_says_that_they_are_emulated(tmp_path: Path) -> None:
    where = (f"--state-dir={tmp_path}/state", f"--run-dir={tmp_path}/run")
    report = check.examine(configured("--emulated-gpus", "2", "--gpu-model", "T4", *where))
    (told,) = (f for f in report.findings if f.subject == "gpus")
    assert told.finding.startswith("2 emulated T4, 60..70 W each")
    assert told.status is Status.LIMITED


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--emulated-gpus", "1"], "emulated_gpus = 1 needs emulate"),
        (["--emulate", "--emulated-gpus", "17"], "= 17 is outside 0..16"),
        (
            ["--emulate", "--emulated-gpus", "1", "--gpu-model", "K20"],
            "is not one of V100, RTX6000",
        ),
        (
            ["--emulate", "--emulated-gpus", "1", "--gpu-model", "two words"],
            "must be 1-63 characters of",
        ),
        (
            ["--emulate", "--emulated-gpus", "1", "--gpus", "0"],
            "cannot be combined with emulated_gpus",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(flags: list[str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load(flags)


def test_other_models_are_described_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    own = {"min": 50, "max": 120, "idle": 8, "static": 12, "full": 110}
    lines = [f"gpu_{name}_w = {value}.0" for name, value in own.items()]
    text = "emulate = true\nemulated_gpus = 1\ngpu_model = 'K20'\n[emulation]\ngpu_beta = 0.2\n"
    file.write_text(text + "\n".join([*lines, "gpu_knee = 0.8"]))
    config = load(["--config", str(file)])
    assert config.gpu.emulated is not None
    assert config.gpu.model == config.gpu.emulated.model.name == "K20"
    assert config.gpu.emulated.accepts.uw_max == 120 * W
    file.write_text(file.read_text().replace("gpu_min_w = 50", "gpu_min_w = 14"))
    with pytest.raises(ConfigError, match="= 14 W cannot be held: the model draws"):
        load(["--config", str(file)])
