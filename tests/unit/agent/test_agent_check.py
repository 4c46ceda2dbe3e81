"""The check command: its findings on zone trees of real machines. It changes nothing."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from wattfold.nodeagent import check
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles
from wattfold.nodeagent.adapters.devices.zone_facts import read_machine, read_zones
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.host_findings import folder
from wattfold.nodeagent.core.findings import LimitFacts, MachineFacts, Status, capping, measuring

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
PACKAGE_RANGE_UJ = 262_143_328_850
BARE_METAL = MachineFacts(
    root="/sys/class/powercap",
    root_exists=True,
    vendor="GenuineIntel",
    virtual=False,
    container="",
    rapl_driver=True,
)


def zone(folder: Path, name: str, *, energy_range_uj: int = PACKAGE_RANGE_UJ, **files: int) -> Path:
    """A zone without limits, except those in ``files``."""
    folder.mkdir(parents=True)
    values = {"name": name, "enabled": 1, "energy_uj": 1, "max_energy_range_uj": energy_range_uj}
    for file, value in (values | files).items():
        (folder / file).write_text(f"{value}\n")
    return folder


def limit(folder: Path, index: int, name: str, limit_uw: int, max_uw: int, window_us: int) -> None:
    start = f"constraint_{index}_"
    (folder / f"{start}name").write_text(f"{name}\n")
    (folder / f"{start}power_limit_uw").write_text(f"{limit_uw}\n")
    (folder / f"{start}max_power_uw").write_text(f"{max_uw}\n")
    (folder / f"{start}time_window_us").write_text(f"{window_us}\n")


def package(folder: Path, name: str, long_w: float = 165, short_w: float = 198, **files: int):
    path = zone(folder, name, **files)
    limit(path, 0, "long_term", int(long_w * 1e6), 165_000_000, 999_424)
    limit(path, 1, "short_term", int(short_w * 1e6), 413_000_000, 976)
    return path


def captured_xeon(root: Path) -> None:
    """4 x Xeon Platinum 8260, Linux 6.18 (captured)."""
    for n in range(4):
        path = package(root / f"intel-rapl:{n}", f"package-{n}")
        dram = zone(path / f"intel-rapl:{n}:0", "dram", energy_range_uj=65_712_999_613, enabled=0)
        limit(dram, 0, "long_term", 0, 47_250_000, 976)
        (root / dram.name).symlink_to(dram)


def psys_at_index_1(root: Path) -> None:
    """2 x Sapphire Rapids (published)."""
    package(root / "intel-rapl:0", "package-0")
    zone(root / "intel-rapl:1", "psys", enabled=0, energy_uj=60_293_987_000_000)
    package(root / "intel-rapl:2", "package-1")


def reversed_sockets(root: Path) -> None:
    for n in range(4):
        package(root / f"intel-rapl:{n}", f"package-{3 - n}", long_w=100 + n)


def client(root: Path, twin_uw: int = 4_090_000_000) -> None:
    """A client CPU: unlimited, with a second zone tree of the MMIO interface."""
    path = zone(root / "intel-rapl:0", "package-0")
    limit(path, 0, "long_term", 4_090_000_000, 95_000_000, 999_424)
    limit(path, 1, "short_term", 4_090_000_000, 0, 2440)
    twin = zone(root / "intel-rapl-mmio:0", "package-0")
    limit(twin, 0, "long_term", twin_uw, 95_000_000, 999_424)


def amd(root: Path) -> None:
    path = zone(root / "intel-rapl:0", "package-0", energy_range_uj=65_532_610_987)
    zone(path / "intel-rapl:0:0", "core", energy_range_uj=65_532_610_987)


def host(folder: Path, *, vendor: str = "GenuineIntel", flags: str = "", driver: bool = True):
    """Files of a machine that explain a missing zone tree."""
    (folder / "proc").mkdir(parents=True)
    (folder / "proc/cpuinfo").write_text(f"processor : 0\nvendor_id : {vendor}\nflags : {flags}\n")
    if driver:
        (folder / "sys/module/intel_rapl_msr").mkdir(parents=True)
    return folder


def examined(tmp_path: Path, *flags: str, machine: Path | None = None) -> check.Report:
    (tmp_path / "tree").mkdir(exist_ok=True)
    (tmp_path / "cgroup").mkdir(exist_ok=True)
    places = ["--powercap-root", "tree", "--cgroup-root", "cgroup"]
    places += ["--state-dir", "state", "--run-dir", "run"]
    given = [w if w.startswith("--") else str(tmp_path / w) for w in places]
    return check.examine(load([*given, *flags]), machine or host(tmp_path / "host"))


def said(report: check.Report, subject: str) -> dict[str, Status]:
    return {f.finding: f.status for f in report.findings if f.subject == subject}


def one_saying(report: check.Report, subject: str, words: str):
    found = [f for f in report.findings if f.subject == subject and words in f.finding]
    assert len(found) == 1, report.findings
    return found[0]


def contents(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(p): (p.read_text() if p.is_file() else "", p.lstat().st_mtime_ns)
        for p in root.rglob("*")
    }


def test_a_captured_xeon_is_fit_and_its_dram_doubtful(tmp_path):
    captured_xeon(tmp_path / "tree")
    report = examined(tmp_path)
    assert report.able
    assert [z.name for z in report.zones] == [
        *(f"dram-{n}" for n in range(4)),
        *(f"package-{n}" for n in range(4)),
    ]
    text = "can be capped from 41.25 to 165 W, floor 41.25 W (intel-rapl:2)"
    assert said(report, "package-2") == {text: Status.OK, "energy can be measured": Status.OK}
    assert one_saying(report, "dram-2", "enabled is 0").status is Status.LIMITED
    assert len(said(report, "dram-2")) == 2
    subjects = list(dict.fromkeys(f.subject for f in report.findings))
    assert subjects[:6] == ["account", *(f"package-{n}" for n in range(4)), "dram-0"]


def test_psys_at_index_1_is_not_a_package(tmp_path):
    psys_at_index_1(tmp_path / "tree")
    report = examined(tmp_path)
    assert report.able
    assert one_saying(report, "psys", "contains the packages").status is Status.OK
    assert {z.name: z.path for z in report.zones} == {
        "package-0": "intel-rapl:0",
        "package-1": "intel-rapl:2",
        "psys": "intel-rapl:1",
    }


def test_reversed_sockets_go_by_name(tmp_path):
    reversed_sockets(tmp_path / "tree")
    zones = json.loads(check.json_text(examined(tmp_path)))["zones"]
    assert [(z["name"], z["path"], z["long_term_limit_uw"]) for z in zones] == [
        (f"package-{n}", f"intel-rapl:{3 - n}", (103 - n) * 1_000_000) for n in range(4)
    ]


def test_an_unlimited_client_is_fit_and_its_twin_named(tmp_path):
    client(tmp_path / "tree")
    report = examined(tmp_path)
    assert report.able
    assert one_saying(report, "package-0", "unlimited").status is Status.OK
    assert one_saying(
        report, "package-0", "intel-rapl-mmio:0 limits this zone too, to 4090 W; the agent"
    )
    assert one_saying(report, "package-0", "from 23.75 to 95 W")


@pytest.mark.parametrize(
    ("settable", "status", "words"),
    [(True, Status.OK, "sets both"), (False, Status.LIMITED, "cannot be set; the lower")],
)
def test_a_lower_twin_matters_if_it_cannot_be_set(tmp_path, settable, status, words):
    client(tmp_path / "tree", twin_uw=45_000_000)
    zone = examined(tmp_path).zones[0]
    twin = dataclasses.replace(zone.twins[0], settable=settable)
    found = capping(dataclasses.replace(zone, twins=(twin,)), BARE_METAL)
    about = next(f for f in found if "to 45 W" in f.finding)
    assert about.status is status
    assert words in about.finding
    assert ("package_max_w" in about.remedy) is not settable


def test_amd_measures_only(tmp_path):
    amd(tmp_path / "tree")
    report = examined(tmp_path, machine=host(tmp_path / "host", vendor="AuthenticAMD"))
    assert (report.capping, report.measuring) == (Status.NO, Status.OK)
    assert "HSMP" in one_saying(report, "package-0", "energy counter but no limit").remedy


@pytest.mark.parametrize(
    ("vendor", "flags", "driver", "mark", "finding", "remedy"),
    [
        ("GenuineIntel", "", False, "", "driver intel_rapl_msr is not loaded", "modprobe"),
        ("GenuineIntel", "", True, "", "found no zone", "dmesg"),
        ("GenuineIntel", "fpu hypervisor", False, "", "virtual machine", "physical machine"),
        ("GenuineIntel", "fpu", True, "lxc", "container (lxc)", "mount its tree"),
        ("AuthenticAMD", "", False, "", "not loaded", "HSMP"),
    ],
)
def test_a_missing_tree_is_explained(tmp_path, vendor, flags, driver, mark, finding, remedy):
    machine = host(tmp_path / "host", vendor=vendor, flags=flags, driver=driver)
    if mark:
        (machine / "run/systemd").mkdir(parents=True)
        (machine / "run/systemd/container").write_text(mark)
    report = examined(tmp_path, machine=machine)
    assert (report.capping, report.measuring) == (Status.NO, Status.NO)
    assert remedy in one_saying(report, "packages", finding).remedy


def test_a_package_behind_the_second_interface_alone_is_one(tmp_path):
    package(tmp_path / "tree" / "intel-rapl-mmio:0", "package-0")
    report = examined(tmp_path)
    assert report.able
    assert report.zones[0].path == "intel-rapl-mmio:0"


# ---- single findings ----------------------------------------------------------------------------


def one_zone(tmp_path: Path, **changed):
    package(tmp_path / "intel-rapl:0", "package-0")
    (facts,) = read_zones(RealFiles(tmp_path), RangeSetting())
    return dataclasses.replace(facts, **changed)


DENIED = LimitFacts(limit_uw=165_000_000, writable=False)


@pytest.mark.parametrize(
    ("changed", "status", "words"),
    [
        ({}, Status.OK, "can be capped"),
        ({"enabled": False}, Status.LIMITED, "firmware may have locked"),
        ({"enabled": False, "enabled_writable": False}, Status.NO, "cannot enable them"),
        ({"long_term": DENIED}, Status.NO, "cannot write"),
        ({"short_term": DENIED}, Status.LIMITED, "bursts may exceed"),
        (
            {"long_term": LimitFacts(limit_uw=None, writable=True, error="ENODATA")},
            Status.NO,
            "ENODATA",
        ),
        ({"long_term": LimitFacts(limit_uw=0, writable=True)}, Status.LIMITED, "limit is 0 W"),
        (
            {"short_term": LimitFacts(limit_uw=30_000_000, writable=True)},
            Status.LIMITED,
            "30 W, is below the long-term limit, 165 W",
        ),
    ],
)
def test_each_doubt_of_a_zone_is_said(tmp_path, changed, status, words):
    found = capping(one_zone(tmp_path, **changed), BARE_METAL)
    assert [f.status for f in found] == [status]
    assert words in found[0].finding
    assert bool(found[0].remedy) is (status is not Status.OK)


def test_energy_for_root_only_is_said(tmp_path):
    facts = one_zone(tmp_path, cannot_measure="Permission denied", energy_denied=True)
    assert measuring(facts).status is Status.NO
    assert "CAP_DAC_READ_SEARCH" in measuring(facts).remedy


def test_an_unknown_range_and_a_wrong_floor_ask_for_the_configuration(tmp_path):
    path = zone(tmp_path / "tree" / "intel-rapl:0", "package-0")
    limit(path, 0, "long_term", 4_090_000_000, 0, 976)
    assert "package_max_w" in one_saying(examined(tmp_path), "package-0", "is unknown").remedy
    assert examined(tmp_path, "--package-max-w", "95", machine=tmp_path).able
    wrong = examined(tmp_path, "--package-max-w", "95", "--floor-w", "5", machine=tmp_path)
    assert "floor_w" in one_saying(wrong, "package-0", "outside the range").remedy


def test_permission_bits_hold_for_root_too(tmp_path):
    path = package(tmp_path / "intel-rapl:0", "package-0")
    (path / "constraint_0_power_limit_uw").chmod(0o444)
    (path / "energy_uj").chmod(0o000)
    (facts,) = read_zones(RealFiles(tmp_path), RangeSetting())
    assert facts.long_term is not None
    assert not facts.long_term.writable
    assert facts.short_term is not None
    assert facts.short_term.writable
    assert facts.energy_denied


# ---- other properties of the host ---------------------------------------------------------------


def test_nothing_is_changed(tmp_path):
    captured_xeon(tmp_path / "tree")
    (tmp_path / "cgroup/cpuset").mkdir(parents=True)
    (tmp_path / "cgroup/cpuset/cpuset.cpus").write_text("0")
    machine = host(tmp_path / "host")
    before = contents(tmp_path)
    report = examined(tmp_path, machine=machine)
    check.human_text(report)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("files", "wanted", "status", "words"),
    [
        ({"cpuset/cpuset.cpus": "0"}, "auto", Status.OK, "cpuset-v1"),
        (
            {"cgroup.controllers": "cpu cpuset", "cgroup.subtree_control": ""},
            "auto",
            Status.OK,
            "cpuset-v2",
        ),
        ({"cgroup.controllers": "cpu"}, "auto", Status.LIMITED, "affinity"),
        ({}, "auto", Status.LIMITED, "no cpuset controller"),
        ({}, "cgroup", Status.NO, "masks = cgroup"),
        ({}, "affinity", Status.OK, "as configured"),
    ],
)
def test_core_masks(tmp_path, files, wanted, status, words):
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    package(tmp_path / "tree" / "intel-rapl:0", "package-0")
    report = examined(tmp_path, "--masks", wanted)
    assert one_saying(report, "core masks", words).status is status
    assert report.able is (status is not Status.NO)


def test_emulation_is_not_capping_and_names_its_throttle(tmp_path):
    report = examined(tmp_path, "--emulate")
    assert (report.capping, report.measuring) == (Status.LIMITED, Status.LIMITED)
    assert one_saying(report, "throttle", "SIGSTOP and SIGCONT").status is Status.LIMITED
    assert examined(tmp_path, "--emulate", "--throttle", "cgroup", machine=tmp_path).starting is (
        Status.NO
    )


def test_emulation_uses_the_bandwidth_controller_where_it_can(tmp_path):
    (tmp_path / "cgroup/cpu").mkdir(parents=True)
    (tmp_path / "cgroup/cpu/cpu.cfs_quota_us").write_text("-1")
    report = examined(tmp_path, "--emulate")
    assert one_saying(report, "throttle", "bandwidth").status is Status.OK
    (tmp_path / "cgroup/cpu").chmod(0o555)
    report = examined(tmp_path, "--emulate", machine=tmp_path)
    assert one_saying(report, "throttle", "SIGSTOP and SIGCONT").status is Status.LIMITED


def test_folders(tmp_path):
    assert folder("state folder", "state_dir", tmp_path / "a/b").status is Status.OK
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    found = folder("state folder", "state_dir", open_to_all)
    assert (found.status, found.remedy) == (Status.NO, f"chmod go-w {open_to_all}")
    (tmp_path / "file").write_text("")
    assert folder("run folder", "run_dir", tmp_path / "file").status is Status.NO
    assert folder("run folder", "run_dir", tmp_path / "file/below").status is Status.NO


@ROOT_ONLY
def test_a_folder_of_another_account_is_no_use(tmp_path):
    os.chown(tmp_path, 65534, 65534)
    assert "uid 65534" in folder("state folder", "state_dir", tmp_path).finding


def test_a_shim_that_is_no_library_is_said(tmp_path):
    path = tmp_path / "shim.so"
    path.write_text("#!/bin/sh\n")
    report = examined(tmp_path, "--omp-shim", str(path))
    assert one_saying(report, "shim", "is not a library").status is Status.NO


def test_text_keeps_to_80_columns(tmp_path):
    captured_xeon(tmp_path / "tree")
    client(tmp_path / "other")
    report = examined(tmp_path)
    text = check.human_text(report)
    words = [word for word in text.split() if len(word) < 60]
    assert len(words) > 100
    lines = [line for line in text.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    assert text.splitlines()[-1] == "packages: capping ok, measuring ok; the agent starts"


def test_the_machine_is_read_from_its_own_files(tmp_path):
    machine = host(tmp_path / "host", vendor="AuthenticAMD", flags="sse hypervisor", driver=False)
    facts = read_machine(tmp_path / "none", machine)
    assert (facts.vendor, facts.virtual, facts.container) == ("AuthenticAMD", True, "")
    assert (facts.root_exists, facts.rapl_driver) == (False, False)
