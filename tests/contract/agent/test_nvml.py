"""GPUs through a simulated NVML library, and the guard with an NVML library in C."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from contract.agent.fake_nvml import FakeNvml, Gpu, NVMLError
from property.agent.emulated_node import MemoryRecords, Steps, VirtualClock
from waiting import at_once

from wattfold.contract.ids import ZoneName
from wattfold.nodeagent import check
from wattfold.nodeagent.adapters import wire
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.devices import nvml
from wattfold.nodeagent.adapters.devices.gpu_search import find_gpus
from wattfold.nodeagent.adapters.devices.nvml import NvmlFiles
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.core.caps import CapRequest, CapStatus, ZoneKind
from wattfold.nodeagent.core.gpus import GpuVendor
from wattfold.nodeagent.emulation.fixtures import load_fixture
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel
from wattfold.nodeagent.service.power.power import SAMPLE_NS, NodePower

S = 1_000_000_000
A, B = "GPU-aaaaaaaa-0000-1111-2222-333344445555", "GPU-bbbbbbbb-0000-1111-2222-333344445555"
LIMIT = "constraint_0_power_limit_uw"
RANGES = RangeSetting(package_uw_min=25_000_000, dram_uw_min=8_000_000)


def name_of(uuid: str) -> ZoneName:
    return ZoneName(f"gpu-{uuid.removeprefix('GPU-')}")


def opened(*gpus: Gpu, **how: bool) -> tuple[FakeNvml, NvmlFiles]:
    library = FakeNvml(*gpus, **how)
    library.nvmlInit()
    return library, NvmlFiles(library, privileged=how.get("root", True))


def zones(files: NvmlFiles, setting: RangeSetting | None = None):
    return {zone.name: zone for zone in discover(files, setting or RangeSetting())}


def test_a_gpu_is_its_uuid_whatever_its_index():
    _, files = opened(Gpu(uuid=B), Gpu(uuid=A))
    found = zones(files)
    assert list(found) == [name_of(A), name_of(B)]
    assert all(zone.kind is ZoneKind.GPU for zone in found.values())
    assert [(gpu.zone, gpu.index) for gpu in files.facts()] == [(name_of(B), 0), (name_of(A), 1)]


def test_the_range_is_the_drivers_and_the_configuration_can_narrow_it():
    _, files = opened(Gpu(uuid=A))
    limits = zones(files)[name_of(A)].limits
    assert (limits.cap_uw_min, limits.floor_uw, limits.cap_uw_max) == (
        200_000_000,
        200_000_000,
        700_000_000,
    )
    narrow = RangeSetting(gpu_uw_max=500_000_000, gpu_floor_uw=250_000_000)
    limits = zones(files, narrow)[name_of(A)].limits
    assert (limits.floor_uw, limits.cap_uw_max) == (250_000_000, 500_000_000)
    wide = zones(files, RangeSetting(gpu_uw_max=900_000_000))[name_of(A)].limits
    assert wide.cap_uw_max == 700_000_000


def test_a_limit_outside_the_range_is_refused_by_the_driver():
    library, files = opened(Gpu(uuid=A))
    for cap_uw in (199_000_000, 701_000_000):
        with pytest.raises(OSError, match="Invalid Argument") as caught:
            zones(files)[name_of(A)].write_cap_uw(cap_uw)
        assert caught.value.errno == errno.EINVAL
    assert library.gpus[0].limit_mw == 700_000


def test_a_lower_limiter_that_may_be_lifted_is_not_what_is_answered():
    library, files = opened(Gpu(uuid=A, outside_mw=250_000))
    gpu = zones(files)[name_of(A)]
    assert gpu.write_cap_uw(400_000_000) == 400_000_000
    library.gpus[0].ignores = True
    assert gpu.read_cap_uw() == 700_000_000


def test_persistence_is_switched_on_and_off_again():
    library, files = opened(Gpu(uuid=A, persistent=False))
    gpu = zones(files)[name_of(A)]
    before = gpu.snapshot()
    assert before[f"nvml:{A}/enabled"] == 0
    gpu.saved(before)
    gpu.write_cap_uw(300_000_000)
    assert library.gpus[0].persistent
    files.close()
    assert library.gpus[0].limit_mw == 300_000
    library.nvmlInit()
    assert gpu.restore(before) == {}
    assert not library.gpus[0].persistent
    assert library.gpus[0].limit_mw == 700_000


def test_energy_is_counted_and_does_not_wrap():
    library, files = opened(Gpu(uuid=A, load_mw=500_000))
    gpu = zones(files)[name_of(A)]
    before_uj = gpu.read_energy()[0]
    library.advance(2)
    assert gpu.read_energy()[0] - before_uj == 1_000_000_000
    assert gpu.range_uj == 0


def test_without_a_counter_energy_is_added_up_from_power():
    library = FakeNvml(Gpu(uuid=A, load_mw=100_000, unsupported={"energy"}))
    library.nvmlInit()
    clock = [0]
    files = NvmlFiles(library, now_ns=lambda: clock[0], privileged=True)
    gpu = zones(files)[name_of(A)]
    assert not gpu.cannot_measure
    assert gpu.read_energy()[0] == 0
    clock[0] += S
    library.gpus[0].load_mw = 300_000
    assert gpu.read_energy()[0] == 200_000_000
    clock[0] += S
    assert gpu.read_energy()[0] == 500_000_000


def test_what_cannot_be_measured_either_way_says_so():
    _, files = opened(Gpu(uuid=A, unsupported={"energy", "power"}))
    assert "Not Supported" in zones(files)[name_of(A)].cannot_measure


def test_a_gpu_without_limits_is_charged_with_what_is_configured():
    _, files = opened(Gpu(uuid=A, unsupported={"limit", "enforced", "constraints", "default"}))
    gpu = zones(files, RangeSetting(gpu_uw_max=450_000_000))[name_of(A)]
    assert "energy only" in gpu.cannot_cap
    assert (gpu.limits, gpu.draw_uw_max) == (None, 450_000_000)
    assert zones(files)[name_of(A)].draw_uw_max == 0


def test_a_gpu_that_is_lost_is_an_error_of_its_zone_and_is_found_again():
    library, files = opened(Gpu(uuid=A), Gpu(uuid=B))
    found = zones(files)
    library.gpus[0].lost = True
    with pytest.raises(OSError, match="GPU is lost") as caught:
        found[name_of(A)].write_cap_uw(300_000_000)
    assert caught.value.errno == errno.ENODEV
    assert found[name_of(B)].write_cap_uw(300_000_000) == 300_000_000
    library.gpus[0].lost = False
    library.gpus[0].generation += 1
    with pytest.raises(OSError, match=r"."):
        NvmlFiles._call(files, "nvmlDeviceGetUUID", library._handle(Gpu(uuid=A)))
    assert found[name_of(A)].write_cap_uw(300_000_000) == 300_000_000


def test_one_that_is_lost_from_the_start_is_told():
    _, files = opened(Gpu(uuid=A, lost=True), Gpu(uuid=B))
    assert list(zones(files)) == [name_of(B)]
    words = "look for Xid 79 in dmesg and reboot the node"
    assert files.unopened == {0: f"[Errno 19] NVML: GPU is lost ({words})"}


@pytest.mark.parametrize(
    ("code", "number", "words"),
    [
        (16, errno.EIO, "the GPU needs a reset: stop the agent"),
        (18, errno.EIO, "does not match its kernel module"),
        (4, errno.EACCES, "Insufficient Permissions"),
    ],
)
def test_errors_that_need_hands_say_what_to_do(code: int, number: int, words: str):
    library, files = opened(Gpu(uuid=A))
    gpu = zones(files)[name_of(A)]
    library.gpus[0].failing = code
    with pytest.raises(OSError, match=words) as caught:
        gpu.write_cap_uw(300_000_000)
    assert caught.value.errno == number


def test_jobs_know_a_gpu_by_its_uuid_its_model_and_the_device_of_its_minor_number():
    _, files = opened(Gpu(uuid=B, minor=3), Gpu(uuid=A, unsupported={"minor"}))
    first, second = files.gpus()
    assert (first.id, first.index, first.model, first.vendor) == (B, 0, "H100", GpuVendor.NVIDIA)
    (device,) = first.devices
    assert (device.major, device.minor, device.path) == (195, 3, "/dev/nvidia3")
    assert second.devices == ()
    assert first.zone == name_of(B)


def test_work_and_memory_are_told_where_the_driver_does():
    _, files = opened(Gpu(uuid=A), Gpu(uuid=B, unsupported={"utilization", "memory"}))
    told, silent = zones(files)[name_of(A)], zones(files)[name_of(B)]
    assert told.told("busy_percent") == (40, 0)
    assert told.told("memory_used_bytes") == (3 << 30, 0)
    assert silent.told("busy_percent")[0] is silent.told("memory_used_bytes")[0] is None


class Guard:
    """A guard that is always present."""

    async def hold_until(self, deadline_ns: int) -> None: ...

    def lapsed(self) -> None: ...

    def refresh(self) -> None: ...


class Node:
    """The power service of a node with two GPUs and the packages of a machine."""

    def __init__(self, *gpus: Gpu, root: bool = True) -> None:
        self.library = FakeNvml(*gpus, root=root)
        self.records = MemoryRecords(Steps())
        self.model = TreeModel(load_fixture("xeon-e5-2620").machine)
        self.clock = VirtualClock(self.model)
        gpu_facts = find_gpus(Path("/nowhere"), self.library, privileged=True)
        zones = discover(gpu_facts.joined_to(MemoryFiles(self.model)), RANGES)
        self.power = NodePower(zones, self.records, "boot", lambda: None, Guard(), clock=self.clock)
        self.power.start()

    def cap(self, uuid: str, cap_uw: int) -> CapStatus:
        return self.power.set_caps([CapRequest(name=name_of(uuid), cap_uw=cap_uw)])[0].status

    def pass_time(self, samples: int) -> None:
        for _ in range(samples):
            self.clock.advance(SAMPLE_NS)
            self.library.advance(SAMPLE_NS / S)
            self.power.sample()


def test_gpus_are_at_their_floor_without_a_lease_and_restored_at_the_end():
    node = Node(Gpu(uuid=A), Gpu(uuid=B, limit_mw=600_000))
    limits = lambda: [gpu.limit_mw for gpu in node.library.gpus]  # noqa: E731
    assert limits() == [200_000, 200_000]
    assert node.cap(A, 400_000_000) is CapStatus.NO_LEASE
    at_once(node.power.renew(10 * S))
    assert node.cap(A, 400_000_000) is CapStatus.OK
    assert node.cap(A, 199_000_000) is CapStatus.BELOW_MINIMUM
    assert node.cap(A, 701_000_000) is CapStatus.ABOVE_MAXIMUM
    assert limits() == [400_000, 200_000]
    node.pass_time(101)
    assert limits() == [200_000, 200_000]
    at_once(node.power.renew(10 * S))
    assert node.cap(A, 400_000_000) is CapStatus.OK
    assert node.power.stop()
    assert limits() == [200_000, 200_000]
    assert node.power.leave() == {}
    assert limits() == [700_000, 600_000]


def test_another_writer_is_found():
    node = Node(Gpu(uuid=A))
    node.library.gpus[0].limit_mw = 650_000
    node.pass_time(5)
    assert node.library.gpus[0].limit_mw == 200_000
    assert node.power.drift_count == 1


def test_a_lost_gpu_does_not_touch_the_others():
    node = Node(Gpu(uuid=A), Gpu(uuid=B))
    at_once(node.power.renew(100 * S))
    node.library.gpus[0].lost = True
    node.pass_time(10)
    assert not node.power.zones[name_of(A)].valid
    assert node.power.zones[name_of(B)].valid
    assert node.cap(A, 300_000_000) is CapStatus.DEVICE_ERROR
    assert node.cap(B, 300_000_000) is CapStatus.OK
    node.library.gpus[0].lost = False
    assert node.cap(A, 300_000_000) is CapStatus.OK


def test_without_permission_a_gpu_is_charged_with_the_most_it_draws():
    node = Node(Gpu(uuid=A), root=False)
    state = node.power.zones[name_of(A)]
    assert state.zone.cannot_cap == (
        f"the limit of nvml:{A} cannot be set: [Errno 13] NVML: Insufficient Permissions"
    )
    message = wire.zone_message(state, 0)
    assert (message.can_cap, message.cap_uw_max) == (False, 700_000_000)
    assert state.zone.cannot_measure == ""


def test_a_configured_maximum_is_no_promise_of_a_gpu_that_cannot_be_capped():
    library = FakeNvml(Gpu(uuid=A), root=False)
    library.nvmlInit()
    setting = RangeSetting(gpu_uw_max=300_000_000)
    (gpu,) = discover(NvmlFiles(library, privileged=True), setting)
    power = NodePower([gpu], MemoryRecords(Steps()), "boot", lambda: None, Guard())
    power.start()
    assert wire.zone_message(power.zones[name_of(A)], 0).cap_uw_max == 700_000_000


def test_a_cap_that_is_not_held_is_told():
    node = Node(Gpu(uuid=A, load_mw=600_000, ignores=True, unsupported={"enforced"}))
    node.pass_time(40)
    state = node.power.zones[name_of(A)]
    assert state.over_uw == 600_000_000
    assert wire.zone_message(state, 0).not_held_uw == 600_000_000
    node.library.gpus[0].ignores = False
    node.pass_time(40)
    assert state.over_uw == 0


def pci(root: Path, *cards: tuple[str, str]) -> Path:
    for number, (vendor, kind) in enumerate(cards):
        folder = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    return root


def checked(host: Path, library: FakeNvml) -> dict[str, list[tuple[str, str]]]:
    root = host / "powercap"
    root.mkdir()
    where = [f"--state-dir={host}/state", f"--run-dir={host}/run", f"--powercap-root={root}"]
    gpus = find_gpus(host, library, privileged=library.root)
    report = check.examine(load(where), host, gpus)
    found: dict[str, list[tuple[str, str]]] = {}
    for finding in report.findings:
        text = f"{finding.finding} -> {finding.remedy}"
        found.setdefault(finding.subject, []).append((finding.status.value, text))
    return found


def test_the_check_lists_gpus(tmp_path):
    library = FakeNvml(Gpu(uuid=A, partitioned=True), Gpu(uuid=B, persistent=False))
    found = checked(tmp_path, library)
    first = " ".join(text for _, text in found[name_of(A)])
    assert "GPU 0 of the driver, NVIDIA H100 80GB HBM3; partitioned (MIG)" in first
    assert "energy can be measured" in first
    second = " ".join(text for _, text in found[name_of(B)])
    assert "GPU 1 of the driver" in second


def test_the_check_says_what_a_gpu_can_and_what_is_wrong(tmp_path):
    library = FakeNvml(
        Gpu(uuid=A, persistent=False), Gpu(uuid=B, unsupported={"limit"}), Gpu(uuid="c", lost=True)
    )
    found = checked(tmp_path, library)
    texts = [text for _, text in found[name_of(A)]]
    assert any("can be capped from 200 to 700 W, floor 200 W" in text for text in texts)
    assert any("persistence mode is off" in text for text in texts)
    assert any(status == "no" and "gpu_max_w" in text for status, text in found[name_of(B)])
    ((status, text),) = found["gpus"]
    assert status == "no"
    assert "GPU 2 cannot be opened" in text
    assert "GPU is lost" in text


def test_the_check_says_that_this_account_may_not(tmp_path):
    status, text = checked(tmp_path, FakeNvml(Gpu(uuid=A), root=False))[name_of(A)][0]
    assert status == "no"
    assert "this account cannot set the limit" in text
    assert "run the agent as root" in text


def test_gpus_without_a_driver_are_told_and_machines_without_gpus_are_not(tmp_path):
    host = pci(tmp_path / "a", ("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x8086", "0x0300"))
    ((status, text),) = checked(host, FakeNvml(driver=False))["gpus"]
    assert status == "no"
    assert text.startswith(
        "1 NVIDIA GPU on the PCI bus, neither capped nor measured: NVML: Driver N"
    )
    assert "load the driver" in text
    assert "gpus" not in checked(pci(tmp_path / "b", ("0x8086", "0x0300")), FakeNvml(driver=False))


def test_a_driver_that_does_not_open_is_not_waited_for(tmp_path):
    opens = threading.Event()

    class Hanging(FakeNvml):
        def nvmlInit(self) -> None:  # noqa: N802 - the library's name
            assert opens.wait(240)

    found = find_gpus(pci(tmp_path, ("0x10de", "0x030200")), Hanging(Gpu(uuid=A)), open_s=0.05)
    opens.set()
    assert (found.files, found.gpus()) == (None, ())
    assert found.facts.why == "the driver has not answered for 0.05 s"
    assert found.facts.on_bus == 1


def test_gpus_can_be_left_alone():
    assert load([]).gpus
    assert not load(["--gpus", "off"]).gpus
    assert not load(["--emulate"]).gpus
    assert load(["--gpu-floor-w", "250", "--gpu-max-w", "500"]).ranges.gpu_floor_uw == 250_000_000


def test_the_fake_has_what_the_real_library_has():
    real = pytest.importorskip("pynvml")
    ours = {name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML_"))}
    known = {value: name for name, value in vars(real).items() if name.startswith("NVML_ERROR_")}
    assert set(nvml._ERRORS) <= known.keys()
    for name in ours:
        assert hasattr(real, name), name
        if name.startswith("NVML_"):
            assert getattr(real, name) == getattr(FakeNvml, name)
    for number in (2, 3, 4, 15):
        assert str(real.NVMLError(number)) == str(NVMLError(number))
        assert real.NVMLError(number).value == number
