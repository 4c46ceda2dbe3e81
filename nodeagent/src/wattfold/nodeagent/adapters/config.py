"""Configuration of the agent: a TOML file, overridden by flags, checked once at start.

Unknown keys are refused: a misspelt limit that is silently ignored is a limit that does not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import valid_name
from wattfold.contract.toml_places import line_of
from wattfold.contract.units import NS_PER_MS, NS_PER_S, uw_from_w
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.config_keys import (
    EMULATION,
    EMULATION_OPTIONS,
    GENERAL,
    GROUPS,
    TOP,
    Key,
)
from wattfold.nodeagent.adapters.emulated_zones import ZoneSpec
from wattfold.nodeagent.adapters.gpu_config import GpuConfig, gpu_config
from wattfold.nodeagent.adapters.host import memory_bytes, schedulable_cpus
from wattfold.nodeagent.adapters.powercap import RangeSetting
from wattfold.nodeagent.core.caps import quantised, quantised_up
from wattfold.nodeagent.core.residual import AlarmRule
from wattfold.nodeagent.emulation.fixtures import Fixture, FixtureError, load_fixture, shipped
from wattfold.shims.locate import OMP_SHIM_VARIABLE, installed_omp_shim


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationConfig:
    """The emulated hardware; see the model for the meaning of the constants."""

    a: float
    b: float
    c: float
    f_low_ghz: float
    f_high_ghz: float
    dram_idle_w: float
    dram_dynamic_w: float
    cpu_share: float
    throttle: str
    zones: ZoneSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything the agent is started with."""

    node_id: str
    listen: str
    steps_listen: str
    """Where steps of jobs are asked for: unix:PATH or HOST:PORT; empty = nowhere."""
    token: str | None
    state_dir: Path
    run_dir: Path
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
    """Of one job on this node, threads counted."""
    residual_alarm: AlarmRule
    omp_shim: str
    kill_jobs_on_exit: bool
    restore_on_stop: bool
    """Put the original limits back at an orderly stop, whatever the coordinator reckons with."""
    gpus: bool
    """Look for GPUs of this machine."""
    gpu: GpuConfig
    features: tuple[str, ...]
    """What jobs may ask of this node by name."""
    memory_bytes: int
    """What jobs may use together."""
    memory_limits: str
    """How jobs are held to their memory: auto, cgroup (required) or watch."""
    emulation: EmulationConfig | None
    fixture: Fixture | None

    @property
    def group(self) -> str:
        """Name of the agent's cgroups: the same after a restart, of nobody else on this host.

        Two sites may both have a node of this name here; their state folders differ.
        """
        folder = os.fsencode(self.state_dir.resolve())
        return f"{self.node_id}-{hashlib.sha256(folder).hexdigest()[:8]}"


USAGE = """wattfold-agent [--config FILE] [OPTION...]
       wattfold-agent check [--json] [--config FILE] [OPTION...]
       wattfold-agent restore [--config FILE] [OPTION...]"""
DESCRIPTION = """\
Agent of one node. It enforces power caps and core masks, starts and monitors the
processes of jobs, and reports power and CPU time to wattfold-coordinator.

Commands:
  check                 Report what the agent can cap and measure on this machine
                        and what to change. It changes nothing.
  restore               Restore the original power limits of a node whose agent
                        is stopped.

Without a command, the agent runs until SIGTERM or SIGINT. Every option except
--config is also a key of the configuration file: --node-id is node_id."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The flags. Those not given are None, so that the file counts."""
    return agent_parser().parse_args(arguments)


def agent_parser() -> argparse.ArgumentParser:
    """Return the parser of the command without a subcommand."""
    parser = argparse.ArgumentParser(
        prog="wattfold-agent",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=textwrap.fill(f"Machines for --emulate: {', '.join(shipped())}.", 80),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add_flags(parser)
    return parser


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options of the configuration to a parser that has no help option yet."""
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    groups[GENERAL].add_argument("-h", "--help", action="help", help="Print this help.")
    groups[GENERAL].add_argument(
        "--config",
        metavar="FILE",
        help="Configuration file in TOML. Options take precedence over it. Default: no file.",
    )
    keys = TOP | {name: EMULATION[name] for name in EMULATION_OPTIONS}
    for name, key in keys.items():
        flag = "--" + name.replace("_", "-")
        add = groups[key.group].add_argument
        if key.or_text:
            add(flag, nargs="?", const=True, default=None, metavar=key.metavar, help=key.help)
        elif key.kind is bool:
            add(flag, action="store_const", const=True, default=None, help=key.help)
        else:
            value = {"choices": key.choices} if key.choices else {"metavar": key.metavar}
            add(flag, type=key.kind, help=key.help, **value)


def load(arguments: list[str]) -> Config:
    """The checked configuration. Raises ConfigError; argparse itself exits with 2."""
    return load_flags(parse_arguments(arguments))


def load_flags(flags: argparse.Namespace) -> Config:
    """The checked configuration of parsed flags. Raises ConfigError."""
    source = _Source(flags.config)
    given = {**source.values, **{k: v for k, v in vars(flags).items() if v is not None}}
    given.pop("config", None)
    emulation = dict(given.pop("emulation", {}))
    for name in EMULATION_OPTIONS:
        if name in given:
            emulation[name] = given.pop(name)
    top = source.checked(given, TOP)
    return _build(top, source, emulation)


_KIND_NAMES = {float: "a number", int: "an integer", str: "a string", bool: "true or false"}


class _Source:
    """The file, for values and for saying where a wrong one is."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._text = ""
        self.values: dict[str, Any] = {}
        if path is None:
            return
        try:
            self._text = Path(path).read_text(encoding="utf-8")
            self.values = tomllib.loads(self._text)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
        if not isinstance(self.values.get("emulation", {}), dict):
            raise self.wrong("emulation", "must be a section [emulation]")

    def wrong(self, key: str, why: str, section: str = "") -> ConfigError:
        """An error that says where the key is. Keys of two sections may have the same name."""
        line = line_of(self._text, key, section) or line_of(self._text, "", key)
        if not line:
            return ConfigError(f"{self._path or 'command line'}: {key} {why}")
        return ConfigError(f"{self._path}:{line}: {key} {why}")

    def checked(
        self, given: Mapping[str, Any], keys: Mapping[str, Key], section: str = ""
    ) -> dict[str, Any]:
        """The values with defaults filled in. Raises ConfigError."""
        for name in given:
            if name not in keys:
                known = ", ".join(sorted(keys))
                raise self.wrong(name, f"is unknown; known keys: {known}", section)
        return {
            name: self._value(name, given.get(name, key.default), key, section)
            for name, key in keys.items()
        }

    def _value(self, name: str, given: Any, key: Key, section: str) -> Any:
        value: Any = given
        if value is None:
            return None
        if key.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if key.or_list and isinstance(value, list):
            if not all(isinstance(part, str) for part in value):
                raise self.wrong(name, f"= {value!r} must be a list of strings", section)
            return ",".join(value)
        kind: Any = (key.kind, str) if key.or_text else key.kind
        if not isinstance(value, kind):
            raise self.wrong(name, f"= {value!r} must be {_KIND_NAMES[key.kind]}", section)
        if key.choices and value not in key.choices:
            raise self.wrong(name, f"= {value!r} must be one of {', '.join(key.choices)}", section)
        if key.low is not None and key.high is not None and not key.low <= value <= key.high:
            raise self.wrong(
                name,
                f"= {value:g}{key.unit} is outside {key.low:g}..{key.high:g}{key.unit}",
                section,
            )
        return value


def _powercap_root(given: str, run_dir: Path | None) -> Path:
    """An emulated tree is made in the run folder unless another place is named."""
    named = given != TOP["powercap_root"].default and not given.endswith(".toml")
    return Path(given) if named or run_dir is None else run_dir / "powercap"


def _build(top: dict[str, Any], source: _Source, emulation: dict[str, Any]) -> Config:
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
        token=_token(top, source),
        state_dir=Path(top["state_dir"]).absolute(),
        run_dir=run_dir,
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
        # What is emulated has no GPUs, and those of this host are not part of it.
        gpus=top["gpus"] == "auto" and not emulated and not fixture,
        gpu=gpu_config(top, given, _names("gpus", top, source), source),
        features=_names("features", top, source),
        memory_bytes=_memory_bytes(top, source),
        memory_limits=top["memory_limits"],
        emulation=emulated,
        fixture=fixture,
    )


def _names(key: str, top: dict[str, Any], source: _Source) -> tuple[str, ...]:
    names = tuple(part.strip() for part in top[key].split(",") if part.strip())
    for name in names:
        if not valid_name(name):
            raise source.wrong(
                key, f"= {name!r} must be names of 1-63 characters of A-Z a-z 0-9 . _ -"
            )
    if len(set(names)) < len(names):
        raise source.wrong(key, f"= {', '.join(names)} contains a name twice")
    return names


def _memory_bytes(top: dict[str, Any], source: _Source) -> int:
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


def _fixture(top: dict[str, Any], source: _Source) -> Fixture | None:
    """The machine to emulate, named by ``emulate``, or by ``powercap_root`` as a file."""
    key = "powercap_root" if str(top["powercap_root"]).endswith(".toml") else "emulate"
    name = top[key]
    if not isinstance(name, str) or not name:
        return None
    try:
        return load_fixture(name)
    except FixtureError as error:
        raise source.wrong(key, f"= {name!r}: {error}") from None


def _listen(top: dict[str, Any], source: _Source, run_dir: Path) -> str:
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


def _steps_listen(top: dict[str, Any], source: _Source, run_dir: Path) -> str:
    """By default a socket of its own beside that of the agent, or the port after the agent's."""
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


def _token(top: dict[str, Any], source: _Source) -> str | None:
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


def _cpus(text: str | None, source: _Source) -> CpuSet:
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


def _shim(text: str | None, source: _Source) -> str:
    if text == "off":
        return ""
    installed = installed_omp_shim()
    path = text or os.environ.get(OMP_SHIM_VARIABLE) or (str(installed) if installed else "")
    if path and not Path(path).is_file():
        raise source.wrong("omp_shim", f"= {path!r} is not a file")
    return str(Path(path).absolute()) if path else ""


def _ranges(
    top: dict[str, Any],
    source: _Source,
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


def _emulation(source: _Source, v: dict[str, Any]) -> EmulationConfig:
    for key, low, high, unit in (
        ("package_max_w", "package_min_w", "package_max_w", "W"),
        ("dram_max_w", "dram_min_w", "dram_max_w", "W"),
        ("f_high_ghz", "f_low_ghz", "f_high_ghz", "GHz"),
        # Below these an idle node would already break its cap.
        ("package_min_w", "c", "package_min_w", "W"),
        ("dram_min_w", "dram_idle_w", "dram_min_w", "W"),
    ):
        if not v[low] < v[high]:
            why = f"= {v[high]:g} {unit} must be above {low} = {v[low]:g} {unit}"
            raise source.wrong(key, why, "emulation")
    zones = ZoneSpec(
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
