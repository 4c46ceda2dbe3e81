"""``wattfold-agent check``: report what the agent can cap and measure here, and what to change.

It reads the configuration like the agent, and examines the resources that the agent would use. It
changes nothing and needs no running agent, so it cannot show whether the firmware obeys a cap.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from wattfold.nodeagent.adapters import host_findings
from wattfold.nodeagent.adapters.config import Config, load_flags
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.config_flags import add_flags
from wattfold.nodeagent.adapters.devices.gpu_search import Gpus, find_gpus
from wattfold.nodeagent.adapters.devices.hsmp import with_hsmp
from wattfold.nodeagent.adapters.devices.msr import MsrRanges
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles
from wattfold.nodeagent.adapters.devices.zone_facts import read_machine, read_zones
from wattfold.nodeagent.core import findings, gpu_findings
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.findings import Finding, MachineFacts, Status, ZoneFacts
from wattfold.nodeagent.emulation.memory_files import MemoryFiles
from wattfold.nodeagent.emulation.tree_model import TreeModel

EXIT_ABLE = 0
EXIT_LIMITED = 1
EXIT_USAGE = 2
_COLUMNS = 80
_NEEDED = frozenset(
    {"core masks", "ends of jobs", "throttle", "access to GPUs", "state folder", "run folder"}
)
"""Subjects without which the agent does not start."""
_KEEPER = "keeper"
"""The subject without which it starts no job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings. ``capping`` and ``measuring`` are the values of the worst package."""

    node_id: str
    powercap_root: str
    capping: Status
    measuring: Status
    starting: Status
    findings: tuple[Finding, ...]
    zones: tuple[ZoneFacts, ...]

    @property
    def able(self) -> bool:
        """Whether an agent can start, start jobs, and cap and measure the packages."""
        worst = findings.worst((self.capping, self.measuring, self.starting))
        return worst is Status.OK and self.starts_jobs

    @property
    def starts_jobs(self) -> bool:
        """Whether an agent that has started can start jobs."""
        return not any(f.subject == _KEEPER and f.status is Status.NO for f in self.findings)

    @property
    def effect(self) -> str:
        """What the agent can do at all, in words."""
        if self.starting is not Status.OK:
            return "does not start"
        return "starts" if self.starts_jobs else "starts but starts no job"


def main(arguments: list[str]) -> int:
    """Run the command and return the exit status. argparse itself exits with 2."""
    flags = check_parser().parse_args(arguments)
    as_json = flags.json
    del flags.json
    try:
        config = load_flags(flags)
    except ConfigError as error:
        print(f"wattfold-agent check: {error}", file=sys.stderr)
        return EXIT_USAGE
    report = examine(config)
    print(json_text(report) if as_json else human_text(report))
    return EXIT_ABLE if report.able else EXIT_LIMITED


def check_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(
        prog="wattfold-agent check",
        usage="wattfold-agent check [--json] [--config FILE] [OPTION...]",
        description="Report what the agent can cap and measure on this machine and what to change."
        " The command changes nothing and needs no running agent. It takes the options of"
        " wattfold-agent. Exit status: 0 if packages can be capped and measured and the agent can"
        " start and start jobs, 1 if not, 2 for a usage or configuration error.",
        add_help=False,
    )
    output = parser.add_argument_group("Output options")
    output.add_argument("--json", action="store_true", help="Print JSON. Default: text.")
    add_flags(parser)
    return parser


def examine(config: Config, host: Path = Path("/"), gpus: Gpus | None = None) -> Report:
    """Run all checks.

    ``host``: the root of the file system that explains a missing tree. ``gpus``: the GPUs of this
    machine; default: search for them.
    """
    if config.gpus and gpus is None:
        gpus = find_gpus(host)
    there = config.gpu.listed or (gpus.gpus() if gpus else ())
    if config.gpu.emulated is not None:
        there = config.gpu.emulated.gpus()
    power = _emulated(config) if config.emulation else _power(config, host, gpus)
    around = (
        host_findings.core_masks(config),
        host_findings.job_ends(config),
        *host_findings.throttle(config),
        *host_findings.gpu_access(config, there),
        *host_findings.folders(config),
        host_findings.keeper(),
        *host_findings.shim(config),
        *host_findings.slurm(config),
    )
    about = [host_findings.account(), *_fixture_findings(config)]
    starting = findings.worst(
        f.status for f in around if f.subject in _NEEDED and f.status is Status.NO
    )
    return Report(
        node_id=config.node_id,
        powercap_root=str(config.powercap_root),
        capping=power.capping,
        measuring=power.measuring,
        starting=starting,
        findings=(*about, *power.findings, *around),
        zones=power.zones,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Power:
    capping: Status
    measuring: Status
    findings: tuple[Finding, ...]
    zones: tuple[ZoneFacts, ...]


def _fixture_findings(config: Config) -> list[Finding]:
    if config.fixture is None:
        return []
    origins = Counter(origin.value for origin in config.fixture.origins.values())
    counted = ", ".join(f"{count} {origin}" for origin, count in sorted(origins.items()))
    machine = config.fixture.machine
    what = f"emulated: {machine.title} (source: {machine.source}); values: {counted}"
    return [Finding(subject="machine", status=Status.OK, finding=what)]


def _emulated(config: Config) -> _Power:
    gpus = config.gpu.emulated
    about_gpus: tuple[Finding, ...] = ()
    if gpus is not None:
        model = gpus.model
        finding = gpu_findings.emulated(model.name, gpus.count, model.least_w, model.most_w)
        about_gpus = (finding,)
    return _Power(
        capping=Status.LIMITED,
        measuring=Status.LIMITED,
        findings=(
            Finding(
                subject="packages",
                status=Status.LIMITED,
                finding="emulated, as configured: caps slow the jobs, but the power of this machine"
                " is neither capped nor measured",
                remedy="omit emulate to check the real zones",
            ),
            *about_gpus,
        ),
        zones=(),
    )


def _power(config: Config, host: Path, gpus: Gpus | None) -> _Power:
    files = with_hsmp(RealFiles(config.powercap_root), host / "dev/hsmp")
    if gpus is not None:
        files = gpus.joined_to(files)
    machine = read_machine(config.powercap_root, host)
    if config.fixture is not None:
        files = MemoryFiles(TreeModel(config.fixture.machine))
        machine = replace(machine, root=config.fixture.machine.title, root_exists=True)
        machine = replace(machine, vendor=config.fixture.machine.vendor, rapl_driver=True)
        machine = replace(machine, virtual=False, container="")
    ranges = MsrRanges(host) if config.fixture is None else None
    zones = tuple(read_zones(files, config.ranges, ranges))
    by_kind = sorted(zones, key=lambda zone: list(ZoneKind).index(zone.kind))
    found = [finding for zone in by_kind for finding in _zone_findings(zone, machine)]
    found += gpu_findings.gpus(gpus.facts) if gpus else []
    packages = [zone for zone in zones if zone.kind is ZoneKind.PACKAGE]
    if not packages:
        missing = findings.no_packages(machine)
        return _Power(
            capping=Status.NO, measuring=Status.NO, findings=(missing, *found), zones=zones
        )
    return _Power(
        capping=findings.worst(f.status for z in packages for f in findings.capping(z, machine)),
        measuring=findings.worst(findings.measuring(z).status for z in packages),
        findings=tuple(found),
        zones=zones,
    )


def _zone_findings(zone: ZoneFacts, machine: MachineFacts) -> list[Finding]:
    about = [findings.psys(zone)]
    if zone.kind is not ZoneKind.PSYS:
        about = findings.capping(zone, machine)
    return [*about, findings.measuring(zone)]


def human_text(report: Report) -> str:
    """Return a text of at most 80 columns, by subject."""
    title = f"wattfold-agent check: node {report.node_id}, zones in {report.powercap_root}"
    lines = [*textwrap.wrap(title, _COLUMNS, subsequent_indent="  "), ""]
    for finding in report.findings:
        lines += _paragraph(finding)
    lines += [
        "",
        f"packages: capping {report.capping.value}, measuring {report.measuring.value};"
        f" the agent {report.effect}",
    ]
    return "\n".join(lines)


def _paragraph(finding: Finding) -> list[str]:
    start = f"{finding.status.value:<8}"
    text = f"{finding.subject}: {finding.finding}"
    lines = textwrap.wrap(
        text, _COLUMNS, initial_indent=start, subsequent_indent=" " * 10, break_on_hyphens=False
    )
    if finding.remedy:
        lines += textwrap.wrap(
            finding.remedy,
            _COLUMNS,
            initial_indent=" " * 10 + "-> ",
            subsequent_indent=" " * 13,
            break_on_hyphens=False,
        )
    return lines


def json_text(report: Report) -> str:
    """Return the report as JSON. Powers are integer microwatts, energies microjoules."""
    return json.dumps(
        {
            "able": report.able,
            "node_id": report.node_id,
            "powercap_root": report.powercap_root,
            "capping": report.capping.value,
            "measuring": report.measuring.value,
            "starting": report.starting.value,
            "findings": [
                {
                    "subject": f.subject,
                    "status": f.status.value,
                    "finding": f.finding,
                    "remedy": f.remedy,
                }
                for f in report.findings
            ],
            "zones": [_zone_record(zone) for zone in report.zones],
        },
        indent=2,
    )


def _zone_record(zone: ZoneFacts) -> dict[str, object]:
    limits, long_term, short_term = zone.limits, zone.long_term, zone.short_term
    return {
        "name": zone.name,
        "kind": zone.kind.value,
        "path": zone.path,
        "enabled": zone.enabled,
        "limit_writable": long_term is not None and long_term.writable,
        "energy_readable": not zone.cannot_measure,
        "energy_range_uj": zone.energy_range_uj or None,
        "cap_uw_min": limits.cap_uw_min if limits else None,
        "cap_uw_max": limits.cap_uw_max if limits else None,
        "floor_uw": limits.floor_uw if limits else None,
        "long_term_limit_uw": long_term.limit_uw if long_term else None,
        "short_term_limit_uw": short_term.limit_uw if short_term else None,
        "twins": [{"path": t.path, "limit_uw": t.limit_uw} for t in zone.twins],
    }
