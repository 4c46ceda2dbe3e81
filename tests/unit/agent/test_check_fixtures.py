"""Verdicts of the check command on every shipped machine."""

import json

import pytest

from wattfold.nodeagent import check
from wattfold.nodeagent.adapters.config import load
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.core.findings import Status
from wattfold.nodeagent.emulation.fixtures import load_fixture, shipped

VERDICTS = {
    "client-mmio": (Status.OK, Status.OK),
    "dies-2x2": (Status.OK, Status.OK),
    "epyc-19h-2s": (Status.NO, Status.OK),
    "near-wrap-2s": (Status.OK, Status.OK),
    "pl2-below-pl1": (Status.LIMITED, Status.OK),
    "reversed-2s": (Status.OK, Status.OK),
    "reversed-4s": (Status.OK, Status.OK),
    "sapphire-rapids-2s": (Status.OK, Status.OK),
    "troubled-2s": (Status.LIMITED, Status.NO),
    "xeon-8260-4s": (Status.OK, Status.OK),
    "xeon-e5-2620": (Status.OK, Status.OK),
}


def examined(tmp_path, *flags: str) -> check.Report:
    folders = ("--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run"))
    return check.examine(load([*flags, *folders]))


def said(report: check.Report, subject: str) -> str:
    return "\n".join(f.finding for f in report.findings if f.subject == subject)


def test_a_verdict_is_known_for_every_machine():
    assert sorted(VERDICTS) == shipped()


@pytest.mark.parametrize("name", sorted(VERDICTS))
@pytest.mark.parametrize("flag", ["--emulate", "--powercap-root"])
def test_the_verdict_on_a_machine(tmp_path, name, flag):
    value = name if flag == "--emulate" else str(load_fixture(name).path)
    report = examined(tmp_path, flag, value)
    assert (report.capping, report.measuring) == VERDICTS[name]
    assert "assumed" in said(report, "machine")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "subject", "words"),
    [
        ("xeon-8260-4s", "dram-2", "disabled"),
        ("xeon-8260-4s", "package-2", "can be capped from 60 to 165 W"),
        ("sapphire-rapids-2s", "psys", "contains the packages (intel-rapl:1)"),
        ("sapphire-rapids-2s", "package-1", "(intel-rapl:2)"),
        ("reversed-4s", "package-3", "(intel-rapl:0)"),
        (
            "client-mmio",
            "package-0",
            "intel-rapl-mmio:0 limits this zone too, to 95 W; the agent sets",
        ),
        ("client-mmio", "package-10", "(intel-rapl:a)"),
        ("dies-2x2", "dram-0-die-1", "(intel-rapl:1:0)"),
        ("epyc-19h-2s", "package-0", "energy counter but no limit"),
        ("pl2-below-pl1", "package-0", "30 W, is below the long-term limit, 200 W"),
        ("troubled-2s", "package-1", "energy of intel-rapl:1 is unreadable"),
        ("xeon-e5-2620", "dram-1", "from 8 to 35 W"),
    ],
)
def test_what_is_said_of_a_zone(tmp_path, name, subject, words):
    assert words in said(examined(tmp_path, "--emulate", name), subject)


def test_amd_is_told_about_hsmp(tmp_path):
    report = examined(tmp_path, "--emulate", "epyc-19h-2s")
    assert any("HSMP" in f.remedy for f in report.findings if f.subject == "package-0")


def test_json_has_the_range_of_a_machine(tmp_path):
    record = json.loads(check.json_text(examined(tmp_path, "--emulate", "xeon-e5-2620")))
    package = next(z for z in record["zones"] if z["name"] == "package-1")
    assert (package["cap_uw_min"], package["cap_uw_max"]) == (25_000_000, 95_000_000)


def test_an_unknown_machine_is_a_wrong_configuration(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text('\nemulate = "nonsense"\n')
    with pytest.raises(ConfigError, match=r"agent\.toml:2: emulate = 'nonsense': no machine"):
        load(["--config", str(path)])
