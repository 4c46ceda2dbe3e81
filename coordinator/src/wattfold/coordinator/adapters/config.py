"""The coordinator's configuration: a TOML file, then flags. Strict: a wrong value names itself.

Every setting has a type, a range and a unit in one table; a key that is not in it is refused with
the nearest one that is. Errors carry file and line.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattfold.contract.ids import NodeId, valid_name
from wattfold.contract.toml_places import line_of
from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.adapters.access_settings import MODES, AccessSettings
from wattfold.coordinator.adapters.audit_trail import ENTRIES_KEPT
from wattfold.coordinator.adapters.placing import (
    STRATEGIES,
    PlacementSettings,
    places_fault,
    torus_fault,
)
from wattfold.coordinator.adapters.submissions import PRIORITY_MAX, TimeLimits
from wattfold.coordinator.core.job import CoreSharing
from wattfold.coordinator.core.plan import Policy
from wattfold.coordinator.core.queue import Queue
from wattfold.coordinator.models.forecast import METHODS, USER
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.descriptions import Place, PolicySetting, SettingError
from wattfold.coordinator.policies.node_selection.selector import Strategy


class ConfigError(Exception):
    """The configuration is not usable; the message says where, what and what would be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A number's range and unit, or the choices of a text."""

    kind: type
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()


_TOP = {
    "listen": Setting(kind=str),
    "state_dir": Setting(kind=str),
    "token_file": Setting(kind=str),
    "agent_token_file": Setting(kind=str),
    "budget_w": Setting(kind=float, low=1, high=1e9, unit="W"),
    "accept_outside_w": Setting(kind=float, low=0, high=1e9, unit="W"),
    "policy": Setting(kind=str, choices=registry.service_names()),
    "predict": Setting(kind=str, choices=METHODS),
    "lease_s": Setting(kind=float, low=1, high=3600, unit="s"),
    "command_timeout_s": Setting(kind=float, low=0.1, high=60, unit="s"),
    "mask_deadline_s": Setting(kind=float, low=0.01, high=60, unit="s"),
    "map_deadline_s": Setting(kind=float, low=0.01, high=60, unit="s"),
    "term_grace_s": Setting(kind=float, low=0, high=600, unit="s"),
    "telemetry_interval_s": Setting(kind=float, low=0.05, high=60, unit="s"),
    "solver_deadline_s": Setting(kind=float, low=0.1, high=600, unit="s"),
    "dram_cap_w": Setting(kind=float, low=0, high=10_000, unit="W"),
    "audit_entries": Setting(kind=int, low=1000, high=10_000_000),
    "socket_mode": Setting(kind=str, choices=MODES),
    "socket_group": Setting(kind=str),
    "operators": Setting(kind=str),
    "token_account": Setting(kind=str),
    "root_jobs": Setting(kind=bool),
}
_ACCESS = ("socket_mode", "socket_group", "operators", "token_account", "root_jobs")
_POLICIES = {
    family.name: family.settings_in(Place.SERVICE)
    for family in registry.DESCRIPTIONS
    if family.settings_in(Place.SERVICE)
}
"""The settings of policies, by their tables."""
_JOBS = {
    "time_limit_s": Setting(kind=float, low=0, high=1e9, unit="s"),
    "time_limit_max_s": Setting(kind=float, low=0, high=1e9, unit="s"),
}
_NODE = {
    "id": Setting(kind=str),
    "address": Setting(kind=str),
    "features": Setting(kind=list),
    "place": Setting(kind=list),
}
_PLACEMENT = {
    "strategy": Setting(kind=str, choices=STRATEGIES),
    "torus": Setting(kind=list),
}


_TIME = Setting(kind=float, low=0, high=1e9, unit="s")
SHARES = tuple(one.value for one in CoreSharing if one is not CoreSharing.AS_KIND)
_QUEUE = {
    "name": Setting(kind=str),
    "priority": Setting(kind=float, low=1e-6, high=PRIORITY_MAX),
    "weight": Setting(kind=float, low=1e-6, high=PRIORITY_MAX),
    "time_limit_s": _TIME,
    "time_limit_max_s": _TIME,
    "cores_max": Setting(kind=int, low=0, high=1_000_000),
    "nodes_max": Setting(kind=int, low=0, high=1_000_000),
    "wait_expected_s": _TIME,
    "wait_max_s": _TIME,
    "preempts": Setting(kind=list),
    "share": Setting(kind=str, choices=SHARES),
    "sharing_factor": Setting(kind=float, low=0.0, high=1.0),
    "max_slowdown": Setting(kind=float, low=0.0, high=1e6),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEntry:
    """An agent to contact; ``place`` on the torus. ``features`` are added to those it tells."""

    node_id: NodeId
    address: str
    features: tuple[str, ...] = ()
    place: tuple[int, ...] = ()


def _default_policy() -> Policy:
    # It needs numpy; the other policies do without its solvers.
    from wattfold.coordinator.policies.parm import Parm

    return Parm()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, checked. ``budget_uw`` None leaves the budget of the journal."""

    listen: str = ""
    state_dir: Path = field(default_factory=lambda: default_state_dir())
    token_file: Path | None = None
    agent_token_file: Path | None = None
    budget_uw: int | None = None
    accept_outside_uw: int = 0
    policy: Policy = field(default_factory=_default_policy)
    nodes: tuple[NodeEntry, ...] = ()
    queues: tuple[Queue, ...] = ()
    placement: PlacementSettings = PlacementSettings()  # noqa: RUF009 - immutable
    lease_s: float = 10.0
    command_timeout_s: float = 2.0
    mask_deadline_s: float = 1.0
    map_deadline_s: float = 10.0
    term_grace_s: float = 5.0
    telemetry_interval_s: float = 1.0
    solver_deadline_s: float = 15.0
    dram_cap_uw: int = 0
    predict: str = USER
    limits: TimeLimits = TimeLimits()  # noqa: RUF009 - immutable
    audit_entries: int = ENTRIES_KEPT
    access: AccessSettings = AccessSettings()  # noqa: RUF009 - immutable


def default_state_dir() -> Path:
    """Where a coordinator of this account keeps its journal."""
    if os.geteuid() == 0:
        return Path("/var/lib/wattfold/coordinator")
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "wattfold" / "coordinator"


def load(path: Path | None, flags: dict[str, Any]) -> Config:
    """Reads the file, lays the flags over it and checks everything. Raises ConfigError."""
    text, where = "", "command line"
    if path is not None:
        where = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: {error}") from error
    return _build(_Source(where, text), raw, flags)


@dataclass(frozen=True, slots=True)
class _Source:
    where: str
    text: str

    def at(self, key: str, table: str = "", index: int = 0) -> str:
        """File and line of a key for messages, or of a table of that name.

        ``index``: in which of the tables of one name, as [[node]].
        """
        line = line_of(self.text, key, table, index) or line_of(self.text, "", key)
        line = line or (line_of(self.text, "", table, index) if table else 0)
        return f"{self.where}, line {line}" if line else self.where


def _build(source: _Source, raw: dict[str, Any], flags: dict[str, Any]) -> Config:
    tables = {*_POLICIES, "jobs", "node", "queue", "placement"}
    top = _by_one_name({key: value for key, value in raw.items() if key not in tables})
    checked = _check(source, top, _TOP, "", extra=tables)
    flags = _by_one_name(flags)
    checked |= _check(_Source("command line", ""), flags, _TOP | {"nodes": Setting(kind=list)}, "")
    policies = {
        name: _check(source, _table(source, raw, name), _settings(known), f"{name}.")
        for name, known in _POLICIES.items()
    }
    jobs = _check(source, _table(source, raw, "jobs"), _JOBS, "jobs.")
    placement = _placement(source, _table(source, raw, "placement"))
    names = {f: checked[f] for f in _PLAIN if f in checked}
    for key in ("state_dir", "token_file", "agent_token_file"):
        if key in checked:
            names[key] = Path(checked[key]).expanduser()
    if "budget_w" in checked:
        names["budget_uw"] = uw_from_w(checked["budget_w"])
    if "accept_outside_w" in checked:
        names["accept_outside_uw"] = uw_from_w(checked["accept_outside_w"])
    if "dram_cap_w" in checked:
        names["dram_cap_uw"] = uw_from_w(checked["dram_cap_w"])
    return Config(
        policy=_policy(source, checked.get("policy", "parm-wse"), policies),
        nodes=_placed(
            source, placement, _nodes(source, raw.get("node", []), checked.get("nodes", []))
        ),
        placement=placement,
        queues=_queues(source, raw.get("queue", [])),
        limits=_limits(source, jobs),
        access=_access(source, checked),
        **names,
    )


_PLAIN = (
    "listen",
    "lease_s",
    "command_timeout_s",
    "mask_deadline_s",
    "map_deadline_s",
    "term_grace_s",
    "telemetry_interval_s",
    "solver_deadline_s",
    "predict",
    "audit_entries",
)


def _table(source: _Source, raw: dict[str, Any], name: str) -> dict[str, Any]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{source.at(name)}: {name} must be a table, as in [{name}]")
    return table


def _check(
    source: _Source,
    values: dict[str, Any],
    known: dict[str, Setting],
    prefix: str,
    extra: set[str] | None = None,
    index: int = 0,
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    table = prefix.rstrip(".")
    if not isinstance(values, dict):
        raise ConfigError(f"{source.at(table)}: {prefix}... must be a table")
    for key, value in values.items():
        setting = known.get(key)
        if setting is None:
            near = difflib.get_close_matches(key, [*known, *(extra or ())], n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            where = source.at(key, table, index)
            raise ConfigError(f"{where}: unknown setting {prefix}{key}{hint}")
        out[key] = _value(f"{source.at(key, table, index)}: {prefix}{key}", value, setting)
    return out


_WANTED = {
    float: "a number",
    int: "a whole number",
    str: "a string",
    bool: "true or false",
    list: "a list",
}


def _value(name: str, value: Any, setting: Setting) -> Any:
    if setting.kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, setting.kind) or isinstance(value, bool) != (setting.kind is bool):
        wanted = _WANTED.get(setting.kind, "")
        raise ConfigError(f"{name} = {value!r} is not {wanted}")
    if isinstance(value, bool):
        return value
    if isinstance(value, float | int):
        unit = f" {setting.unit}" if setting.unit else ""
        if not setting.low <= value <= setting.high:
            limits = f"{setting.low:g}..{setting.high:g}{unit}"
            raise ConfigError(f"{name} = {value:g}{unit} is outside {limits}")
    if setting.choices and value not in setting.choices:
        raise ConfigError(f"{name} = {value!r}; choose one of {', '.join(setting.choices)}")
    return value


def _by_one_name(values: dict[str, Any]) -> dict[str, Any]:
    """The settings with the policy by its first name, if it is named by another."""
    entry = registry.find(values["policy"]) if "policy" in values else None
    if entry is None or entry.variant.service is None:
        return values
    return values | {"policy": entry.variant.name}


def _settings(known: tuple[PolicySetting, ...]) -> dict[str, Setting]:
    return {
        one.key: Setting(
            kind=one.kind, low=one.low, high=one.high, unit=one.unit, choices=one.choices
        )
        for one in known
    }


def _policy(source: _Source, name: str, tables: dict[str, dict[str, Any]]) -> Policy:
    entry = registry.find(name)
    assert entry is not None, "the name was checked"
    table = entry.family.name
    try:
        return entry.service(tables.get(table, {}))
    except SettingError as error:
        raise ConfigError(f"{source.at(table)}: [{table}] {error}") from None


def _limits(source: _Source, jobs: dict[str, Any]) -> TimeLimits:
    default_s, max_s = jobs.get("time_limit_s", 0.0), jobs.get("time_limit_max_s", 0.0)
    if max_s and default_s > max_s:
        raise ConfigError(
            f"{source.at('time_limit_s')}: jobs.time_limit_s = {default_s:g} s is above "
            f"jobs.time_limit_max_s = {max_s:g} s"
        )
    return TimeLimits(default_ns=ns_from_s(default_s), max_ns=ns_from_s(max_s))


def _queues(source: _Source, tables: Any) -> tuple[Queue, ...]:
    if not isinstance(tables, list):
        raise ConfigError(f"{source.at('queue')}: queues must be [[queue]] tables with a name")
    out: dict[str, Queue] = {}
    for index, table in enumerate(tables):
        given = _check(source, table, _QUEUE, "queue.", index=index)
        where, name = source.at("name", "queue", index), given.get("name", "")
        if not valid_name(name) or name in out:
            raise ConfigError(f"{where}: queue {name!r} needs a valid, unique name")
        out[name] = _queue(where, given)
    for index, queue in enumerate(out.values()):
        _check_preempts(source.at("preempts", "queue", index), queue, out)
    return tuple(out.values())


def _check_preempts(where: str, queue: Queue, queues: dict[str, Queue]) -> None:
    """Two queues that pre-empt each other, over others as well, would end each other's jobs."""
    unknown = [name for name in queue.preempts if name not in queues]
    if unknown:
        raise ConfigError(
            f"{where}: queue {queue.name} preempts {unknown[0]!r}, which does not exist"
        )
    reached, look = set[str](), list(queue.preempts)
    while look:
        name = look.pop()
        if name not in reached:
            reached.add(name)
            look += queues[name].preempts if name in queues else ()
    if queue.name in reached:
        raise ConfigError(
            f"{where}: queue {queue.name} preempts itself, directly or through other queues"
        )


def _queue(where: str, given: dict[str, Any]) -> Queue:
    for low, high in (("time_limit_s", "time_limit_max_s"), ("wait_expected_s", "wait_max_s")):
        least, most = given.get(low, 0.0), given.get(high, 0.0)
        if most and least > most:
            raise ConfigError(
                f"{where}: queue {given['name']}: {low} = {least:g} s is above {high} = {most:g} s"
            )
    preempts = given.get("preempts", [])
    if not all(isinstance(name, str) for name in preempts):
        raise ConfigError(
            f"{where}: queue {given['name']}: preempts = {preempts!r} must be a list of names"
        )
    return Queue(
        name=given["name"],
        preempts=tuple(dict.fromkeys(preempts)),
        priority=given.get("priority", 1.0),
        weight=given.get("weight", 1.0),
        time_limit_ns=ns_from_s(given.get("time_limit_s", 0.0)),
        time_limit_max_ns=ns_from_s(given.get("time_limit_max_s", 0.0)),
        cores_max=given.get("cores_max", 0),
        nodes_max=given.get("nodes_max", 0),
        wait_expected_ns=ns_from_s(given.get("wait_expected_s", 0.0)),
        wait_max_ns=ns_from_s(given.get("wait_max_s", 0.0)),
        sharing=CoreSharing(given.get("share", CoreSharing.AS_KIND)),
        sharing_factor=given.get("sharing_factor"),
        max_slowdown=given.get("max_slowdown"),
    )


def _access(source: _Source, checked: dict[str, Any]) -> AccessSettings:
    found = AccessSettings(**{name: checked[name] for name in _ACCESS if name in checked})
    if found.socket_group and found.socket_mode != "0660":
        raise ConfigError(
            f"{source.at('socket_group')}: socket_group = {found.socket_group!r} needs "
            'socket_mode = "0660"'
        )
    return found


def _nodes(source: _Source, tables: Any, flags: list[str]) -> tuple[NodeEntry, ...]:
    if not isinstance(tables, list):
        raise ConfigError(f"{source.at('node')}: nodes must be [[node]] tables with id and address")
    entries = [_check(source, t, _NODE, "node.", index=n) for n, t in enumerate(tables)]
    for text in flags:
        node_id, equals, address = text.partition("=")
        if not equals:
            raise ConfigError(f"command line: --node {text!r} is not ID=ADDRESS")
        entries.append({"id": node_id, "address": address})
    out: dict[str, NodeEntry] = {}
    for index, entry in enumerate(entries):
        where = source.at("id", "node", index) if index < len(tables) else "command line"
        node_id, address = entry.get("id", ""), entry.get("address", "")
        if not valid_name(node_id) or not address:
            raise ConfigError(
                f"{where}: node {node_id!r} at {address!r} needs a valid id and an address"
            )
        if node_id in out:
            raise ConfigError(f"{where}: node {node_id} is listed twice")
        features = entry.get("features", [])
        if not all(isinstance(name, str) and valid_name(name) for name in features):
            raise ConfigError(
                f"{where}: features {features!r} of node {node_id} must be a list of names"
            )
        out[node_id] = NodeEntry(
            node_id=NodeId(node_id),
            address=address,
            features=tuple(dict.fromkeys(features)),
            place=_numbers(f"{where}: node.place", entry.get("place", [])),
        )
    return tuple(out.values())


def _placement(source: _Source, table: dict[str, Any]) -> PlacementSettings:
    given = _check(source, table, _PLACEMENT, "placement.")
    where = source.at("torus", "placement")
    torus = _numbers(f"{where}: placement.torus", given.get("torus", []))
    strategy = Strategy(given.get("strategy", Strategy.FIRST))
    if (torus or strategy is Strategy.CUBOID) and (fault := torus_fault(torus)):
        where = where if torus else source.at("strategy", "placement")
        raise ConfigError(f"{where}: placement: {fault}")
    return PlacementSettings(strategy=strategy, torus=torus)


def _placed(
    source: _Source, placement: PlacementSettings, nodes: tuple[NodeEntry, ...]
) -> tuple[NodeEntry, ...]:
    """The nodes, if the strategy can choose among them."""
    if placement.strategy is Strategy.CUBOID:
        if not nodes:
            where = source.at("strategy", "placement")
            raise ConfigError(
                f"{where}: placement: strategy cuboid needs [[node]] tables with places"
            )
        fault = places_fault(placement.torus, ((node.node_id, node.place) for node in nodes))
        if fault is not None:
            index = [node.node_id for node in nodes].index(fault[0])
            key = "place" if nodes[index].place else "id"
            raise ConfigError(f"{source.at(key, 'node', index)}: {fault[1]}")
    return nodes


def _numbers(name: str, values: list[Any]) -> tuple[int, ...]:
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise ConfigError(f"{name} = {values!r} is not a list of whole numbers")
    return tuple(values)
