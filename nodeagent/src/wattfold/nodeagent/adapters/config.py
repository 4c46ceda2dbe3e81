"""Configuration of the agent: a TOML file, overridden by flags, checked once at start.

Unknown keys are refused, because a misspelt limit that is silently ignored would not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import valid_name
from wattfold.contract.units import NS_PER_MS, NS_PER_S, uw_from_w
from wattfold.nodeagent.adapters.config_flags import parse_arguments
from wattfold.nodeagent.adapters.config_keys import (
    EMULATION,
    EMULATION_OPTIONS,
    TOP,
)
from wattfold.nodeagent.adapters.config_source import Source
from wattfold.nodeagent.adapters.devices.emulated_zones import AcceptedValues
from wattfold.nodeagent.adapters.devices.gpu_config import GpuConfig, gpu_config
from wattfold.nodeagent.adapters.devices.zone_ranges import RangeSetting
from wattfold.nodeagent.adapters.host import memory_bytes, schedulable_cpus
from wattfold.nodeagent.core.caps import quantised, quantised_up
from wattfold.nodeagent.core.residual import AlarmRule
from wattfold.nodeagent.emulation.fixtures import Fixture, FixtureError, load_fixture
from wattfold.shims.locate import OMP_SHIM_VARIABLE, installed_omp_shim


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationConfig:
    """The emulated hardware. The model explains the constants."""

    a: float
    b: float
    c: float
    f_low_ghz: float
    f_high_ghz: float
    dram_idle_w: float
    dram_dynamic_w: float
    cpu_share: float
    throttle: str
    zones: AcceptedValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of the agent."""

    node_id: str
    listen: str
    steps_listen: str
    """Address for the steps of jobs: unix:PATH or HOST:PORT; empty = none."""
    adopt_slurm: bool
    token: str | None
    state_dir: Path
    run_dir: Path
    metrics_file: Path | None
    metrics_interval_s: float
    cpus: CpuSet
    powercap_root: Path
    cgroup_root: Path
    ranges: RangeSetting
    base_power_uw: int
    package_idle_uw: int
    masks: str
    job_groups: str
    """How jobs are ended and counted: auto, cgroup (required) or off."""
    pids_max: int
    """Maximum number of processes and threads of one job on this node."""
    residual_alarm: AlarmRule
    omp_shim: str
    kill_jobs_on_exit: bool
    restore_on_stop: bool
    """Restore the original limits at an orderly stop, even if they exceed the budget."""
    gpus: bool
    """Search for the GPUs of this machine."""
    gpu: GpuConfig
    features: tuple[str, ...]
    """Features that jobs may request by name."""
    memory_bytes: int
    """Memory for all jobs together."""
    memory_limits: str
    """How memory limits are enforced: auto, cgroup (required) or watch."""
    emulation: EmulationConfig | None
    fixture: Fixture | None

    @property
    def group(self) -> str:
        """Name of the agent's cgroups: constant over restarts, and unique on this host.

        Two sites may both have a node of this name here, but their state folders differ.
        """
        folder = os.fsencode(self.state_dir.resolve())
        return f"{self.node_id}-{hashlib.sha256(folder).hexdigest()[:8]}"


def load(arguments: list[str]) -> Config:
    """Return the checked configuration. Raises ConfigError; argparse itself exits with 2."""
    return load_flags(parse_arguments(arguments))


def load_flags(flags: argparse.Namespace) -> Config:
    """Return the checked configuration of parsed flags. Raises ConfigError."""
    source = Source(flags.config)
    given = {**source.values, **{k: v for k, v in vars(flags).items() if v is not None}}
    given.pop("config", None)
    emulation = dict(given.pop("emulation", {}))
    for name in EMULATION_OPTIONS:
        if name in given:
            emulation[name] = given.pop(name)
    top = source.checked(given, TOP)
    return _build(top, source, emulation)


def _powercap_root(given: str, run_dir: Path | None) -> Path:
    """An emulated tree is made in the run folder unless another place is named."""
    named = given != TOP["powercap_root"].default and not given.endswith(".toml")
    return Path(given) if named or run_dir is None else run_dir / "powercap"


def _build(top: dict[str, Any], source: Source, emulation: dict[str, Any]) -> Config:
    node_id = top["node_id"] or socket.gethostname().partition(".")[0]
    if not valid_name(node_id):
        raise source.wrong("node_id", f"= {node_id!r} must be 1-63 characters of A-Z a-z 0-9 . _ -")
    run_dir = Path(top["run_dir"]).absolute()
    given = source.checked(emulation, EMULATION, "emulation")
    emulated = _emulation(source, given) if top["emulate"] is True else None
    fixture = _fixture(top, source)
    made_in = run_dir if emulated or fixture else None
    return Config(
        node_id=node_id,
        listen=_listen(top, source, run_dir),
        steps_listen=_steps_listen(top, source, run_dir),
        adopt_slurm=top["adopt_slurm"],
        token=_token(top, source),
        state_dir=Path(top["state_dir"]).absolute(),
        run_dir=run_dir,
        metrics_file=_metrics_file(top["metrics_file"], source),
        metrics_interval_s=top["metrics_interval_s"],
        cpus=_cpus(top["cpus"], source),
        powercap_root=_powercap_root(top["powercap_root"], made_in),
        cgroup_root=Path(top["cgroup_root"]),
        ranges=_ranges(top, source, emulated, fixture),
        base_power_uw=uw_from_w(top["base_power_w"]),
        package_idle_uw=uw_from_w(emulated.c if emulated else top["package_idle_w"]),
        masks=top["masks"],
        job_groups=top["job_groups"],
        pids_max=top["pids_max"],
        residual_alarm=AlarmRule(
            share=top["residual_alarm_percent"] / 100,
            window_ns=int(top["residual_window_s"] * NS_PER_S),
        ),
        omp_shim=_shim(top["omp_shim"], source),
        kill_jobs_on_exit=top["kill_jobs_on_exit"],
        restore_on_stop=top["restore_on_stop"],
        # An emulated node has no GPUs of its host.
        gpus=top["gpus"] == "auto" and not emulated and not fixture,
        gpu=gpu_config(top, given, _names("gpus", top, source), source),
        features=_names("features", top, source),
        memory_bytes=_memory_bytes(top, source),
        memory_limits=top["memory_limits"],
        emulation=emulated,
        fixture=fixture,
    )


def _metrics_file(given: str | None, source: Source) -> Path | None:
    if given is None:
        return None
    path = Path(given).absolute()
    if path.suffix != ".prom":
        raise source.wrong("metrics_file", f"= {given!r} must end in .prom: others are not read")
    if not path.parent.is_dir():
        raise source.wrong("metrics_file", f"= {given!r}: the folder {path.parent} does not exist")
    if find_spec("prometheus_client") is None:
        raise source.wrong(
            "metrics_file", "needs the package prometheus-client; install wattfold[metrics]"
        )
    return path


def _names(key: str, top: dict[str, Any], source: Source) -> tuple[str, ...]:
    names = tuple(part.strip() for part in top[key].split(",") if part.strip())
    for name in names:
        if not valid_name(name):
            raise source.wrong(
                key, f"= {name!r} must be names of 1-63 characters of A-Z a-z 0-9 . _ -"
            )
    if len(set(names)) < len(names):
        raise source.wrong(key, f"= {', '.join(names)} contains a name twice")
    return names


def _memory_bytes(top: dict[str, Any], source: Source) -> int:
    there = memory_bytes()
    if top["memory_mib"] is None:
        return there
    given = top["memory_mib"] << 20
    if there and given > there:
        raise source.wrong(
            "memory_mib",
            f"= {top['memory_mib']} MiB is above {there >> 20} MiB, the memory of this machine",
        )
    return int(given)


def _fixture(top: dict[str, Any], source: Source) -> Fixture | None:
    """Return the machine to emulate, named by ``emulate``, or by ``powercap_root`` as a file."""
    key = "powercap_root" if str(top["powercap_root"]).endswith(".toml") else "emulate"
    name = top[key]
    if not isinstance(name, str) or not name:
        return None
    try:
        return load_fixture(name)
    except FixtureError as error:
        raise source.wrong(key, f"= {name!r}: {error}") from None


def _listen(top: dict[str, Any], source: Source, run_dir: Path) -> str:
    listen: str = top["listen"] or f"unix:{run_dir}/agent.sock"
    if listen.startswith("unix:"):
        path = listen.removeprefix("unix:")
        if not path.startswith("/") or len(path) > 107:
            raise source.wrong(
                "listen", f"= {listen!r} must name an absolute path of at most 107 bytes"
            )
        return listen
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise source.wrong("listen", f"= {listen!r} must be unix:/PATH or HOST:PORT")
    if not top["token_file"] and not top["insecure"]:
        raise source.wrong("listen", f"= {listen!r} needs token_file (or insecure, for tests only)")
    return listen


def _steps_listen(top: dict[str, Any], source: Source, run_dir: Path) -> str:
    """Return the address for steps. Default: a socket next to the agent's, or the next port."""
    given: str | None = top["steps_listen"]
    if given == "off":
        return ""
    if given is None:
        listen: str = top["listen"] or "unix:"
        if listen.startswith("unix:"):
            return f"unix:{run_dir}/steps.sock"
        host, _, port = listen.rpartition(":")
        return f"{host}:{int(port) + 1 if int(port) else 0}"
    if given.startswith("unix:/") and len(given) <= 5 + 107:
        return given
    host, _, port = given.rpartition(":")
    if given.startswith("unix:") or not host or not port.isdigit() or int(port) > 65535:
        raise source.wrong("steps_listen", f"= {given!r} must be unix:/PATH, HOST:PORT or off")
    return given


def _token(top: dict[str, Any], source: Source) -> str | None:
    if not top["token_file"]:
        return None
    path = Path(top["token_file"])
    try:
        token = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise source.wrong("token_file", f"= {str(path)!r} cannot be read: {error}") from None
    if mode & 0o077:
        raise source.wrong("token_file", f"= {str(path)!r} can be read by others; chmod 600 it")
    if len(token) < 16:
        raise source.wrong(
            "token_file",
            f"= {str(path)!r} holds a token of {len(token)} characters; the minimum is 16",
        )
    return token


def _cpus(text: str | None, source: Source) -> CpuSet:
    own = schedulable_cpus()
    if text is None:
        return own
    try:
        cpus = CpuSet.parse(text)
    except ValueError as error:
        raise source.wrong("cpus", f"= {text!r}: {error}") from None
    if not cpus or not cpus <= own:
        raise source.wrong(
            "cpus", f"= {text!r} must be a subset of {own}, the CPUs that this process may use"
        )
    return cpus


def _shim(text: str | None, source: Source) -> str:
    if text == "off":
        return ""
    installed = installed_omp_shim()
    path = text or os.environ.get(OMP_SHIM_VARIABLE) or (str(installed) if installed else "")
    if path and not Path(path).is_file():
        raise source.wrong("omp_shim", f"= {path!r} is not a file")
    return str(Path(path).absolute()) if path else ""


def _ranges(
    top: dict[str, Any],
    source: Source,
    emulation: EmulationConfig | None,
    fixture: Fixture | None,
) -> RangeSetting:
    zones = emulation.zones if emulation else None
    package_uw_min, dram_uw_min = _uw(top["package_min_w"]), _uw(top["dram_min_w"])
    if fixture and package_uw_min is None:
        package_uw_min = fixture.machine.package_uw_min
    if fixture and dram_uw_min is None:
        dram_uw_min = fixture.machine.dram_uw_min
    setting = RangeSetting(
        package_uw_min=package_uw_min if not zones else zones.package_uw_min,
        package_uw_max=_uw(top["package_max_w"]) if not zones else zones.package_uw_max,
        package_floor_uw=_uw(top["floor_w"]),
        dram_uw_min=dram_uw_min if not zones else zones.dram_uw_min,
        dram_uw_max=_uw(top["dram_max_w"]) if not zones else zones.dram_uw_max,
        dram_floor_uw=_uw(top["dram_floor_w"]),
        gpu_uw_max=_uw(top["gpu_max_w"]),
        gpu_floor_uw=_uw(top["gpu_floor_w"]),
    )
    for key, value, low, high in (
        ("floor_w", setting.package_floor_uw, setting.package_uw_min, setting.package_uw_max),
        ("dram_floor_w", setting.dram_floor_uw, setting.dram_uw_min, setting.dram_uw_max),
        ("gpu_floor_w", setting.gpu_floor_uw, None, setting.gpu_uw_max),
    ):
        if value is None:
            continue
        if (low is not None and value < low) or (high is not None and value > high):
            limits = f"{(low or 0) / 1e6:g}..{'' if high is None else f'{high / 1e6:g}'} W"
            raise source.wrong(
                key, f"= {value / 1e6:g} W is outside the range of the zone, {limits}"
            )
    return setting


def _uw(watts: float | None) -> int | None:
    return None if watts is None else uw_from_w(watts)


def _emulation(source: Source, v: dict[str, Any]) -> EmulationConfig:
    for key, low, high, unit in (
        ("package_max_w", "package_min_w", "package_max_w", "W"),
        ("dram_max_w", "dram_min_w", "dram_max_w", "W"),
        ("f_high_ghz", "f_low_ghz", "f_high_ghz", "GHz"),
        # Below these values, an idle node would exceed its cap.
        ("package_min_w", "c", "package_min_w", "W"),
        ("dram_min_w", "dram_idle_w", "dram_min_w", "W"),
    ):
        if not v[low] < v[high]:
            why = f"= {v[high]:g} {unit} must be above {low} = {v[low]:g} {unit}"
            raise source.wrong(key, why, "emulation")
    zones = AcceptedValues(
        package_uw_min=quantised_up(uw_from_w(v["package_min_w"])),
        package_uw_max=quantised(uw_from_w(v["package_max_w"])),
        dram_uw_min=quantised_up(uw_from_w(v["dram_min_w"])),
        dram_uw_max=quantised(uw_from_w(v["dram_max_w"])),
        window_us=int(v["window_ms"] * NS_PER_MS / 1000),
        energy_range_uj=int(v["energy_range_uj"]),
    )
    names = ("a", "b", "c", "f_low_ghz", "f_high_ghz", "dram_idle_w", "dram_dynamic_w")
    return EmulationConfig(
        **{name: v[name] for name in names},
        cpu_share=v["cpu_share"],
        throttle=v["throttle"],
        zones=zones,
    )
