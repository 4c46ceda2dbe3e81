"""Settings of the coordinator, from a TOML file and then from flags.

Tables give each setting a type, a range and a unit. The modules ``queues`` and ``nodes`` read the
tables of queues and nodes.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattfold.contract.toml_text import parsed
from wattfold.contract.units import ns_from_s, uw_from_w
from wattfold.coordinator.adapters.config import energy
from wattfold.coordinator.adapters.config.accounts import accounts_from
from wattfold.coordinator.adapters.config.budget import ramp_from
from wattfold.coordinator.adapters.config.emergency import EmergencySettings, emergency_from
from wattfold.coordinator.adapters.config.nodes import (
    NodeEntry,
    checked_places,
    nodes_from,
    placement_from,
)
from wattfold.coordinator.adapters.config.queues import check_queue_nodes, queues_from
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    checked_values,
    table_of,
)
from wattfold.coordinator.adapters.door.access_settings import MODES, AccessSettings
from wattfold.coordinator.adapters.history.recorder import KEEP_DAYS
from wattfold.coordinator.adapters.journal.audit_trail import ENTRIES_KEPT
from wattfold.coordinator.adapters.mail.settings import MailSettings, mail_from
from wattfold.coordinator.adapters.metrics.settings import address_fault
from wattfold.coordinator.adapters.node_power.settings import SETTINGS as _POWER
from wattfold.coordinator.adapters.node_power.settings import PowerSettings, power_from
from wattfold.coordinator.adapters.placing import PlacementSettings
from wattfold.coordinator.adapters.requests.submissions import TimeLimits
from wattfold.coordinator.adapters.resource_manager.settings import KEY as _SLURM
from wattfold.coordinator.adapters.resource_manager.settings import SlurmSettings, slurm_from
from wattfold.coordinator.core.model.configuration import AccountsConfigured
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.models.forecast import METHODS, USER
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.description import PolicySetting, SettingError, SettingScope

if TYPE_CHECKING:
    from wattfold.coordinator.models.energy_price import EnergyPrice

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
    energy.KEY: Setting(kind=str),
}
_ACCESS = ("socket_mode", "socket_group", "operators", "token_account", "root_jobs")
_POLICIES = {
    family.name: family.settings_in(SettingScope.SERVICE)
    for family in registry.DESCRIPTIONS
    if family.settings_in(SettingScope.SERVICE)
}
"""The settings of the policies, by the names of their tables."""
_JOBS = {
    "time_limit_s": Setting(kind=float, low=0, high=1e9, unit="s"),
    "time_limit_max_s": Setting(kind=float, low=0, high=1e9, unit="s"),
}
_METRICS = {"listen": Setting(kind=str)}
_HISTORY = {"keep_days": Setting(kind=int, low=1, high=36_600, unit="days")}
_DEFAULT_POLICY = "parm-wse"


def _default_policy() -> Policy:
    entry = registry.find(_DEFAULT_POLICY)
    assert entry is not None, "the registry has the default policy"
    return entry.service({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, checked. ``budget_uw`` None keeps the budget of the journal."""

    listen: str = ""
    state_dir: Path = field(default_factory=lambda: default_state_dir())
    token_file: Path | None = None
    agent_token_file: Path | None = None
    budget_uw: int | None = None
    accept_outside_uw: int = 0
    policy: Policy = field(default_factory=_default_policy)
    policy_settings: tuple[tuple[str, str], ...] = ()
    """Stated settings of the policy by key, such as ``parm.alpha``, as text."""
    nodes: tuple[NodeEntry, ...] = ()
    queues: tuple[Queue, ...] = ()
    accounts: AccountsConfigured = AccountsConfigured(accounts=(), users=())  # noqa: RUF009
    energy_price: EnergyPrice | None = None
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
    metrics_listen: str = ""
    history_days: int = KEEP_DAYS
    emergency: EmergencySettings = EmergencySettings()  # noqa: RUF009 - immutable
    power: PowerSettings = PowerSettings()  # noqa: RUF009 - immutable
    mail: MailSettings = MailSettings()  # noqa: RUF009 - immutable
    ramp: RampLimits = RampLimits()  # noqa: RUF009 - immutable
    slurm: SlurmSettings | None = None
    """Slurm owns the jobs; None = the coordinator has its own queue."""

    @property
    def planning_settings(self) -> tuple[tuple[str, str], ...]:
        """Settings of all policies that differ from their defaults, by key, as text."""
        dram = (("dram_cap_w", f"{self.dram_cap_uw / 1e6:g}"),) if self.dram_cap_uw else ()
        return (("predict", self.predict), *dram) if self.predict != USER else dram


def default_state_dir() -> Path:
    """Return the default folder of the journal for this account."""
    if os.geteuid() == 0:
        return Path("/var/lib/wattfold/coordinator")
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "wattfold" / "coordinator"


def load(path: Path | None, flags: dict[str, Any]) -> Config:
    """Return the checked settings of the file. Flags replace them. Raises ConfigError."""
    text, where = "", "command line"
    if path is not None:
        where, text = str(path), _text(path)
    try:
        raw = parsed(text)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    return _build(Source(where, text), raw, flags)


def place_of(path: Path | None, setting: str, flags: Collection[str]) -> str:
    """Return the place of a setting, such as `metrics.listen`, for a message about a loaded file.

    ``flags`` are the settings given on the command line, which take precedence. Raises ConfigError.
    """
    if path is None or setting in flags:
        return "command line"
    table, _, key = setting.rpartition(".")
    return str(Source(str(path), _text(path)).at(key, table))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _build(source: Source, raw: dict[str, Any], flags: dict[str, Any]) -> Config:
    others = (
        "jobs",
        "node",
        "queue",
        "placement",
        "metrics",
        "history",
        "emergency",
        "power",
        "mail",
    )
    tables = {*_POLICIES, *others, "account", "user", "fair_share", _SLURM}
    if not isinstance(raw.get("budget"), float | int):  # A number was meant for budget_w.
        tables.add("budget")
    top = _by_one_name({key: value for key, value in raw.items() if key not in tables})
    checked = checked_values(source, top, _TOP, "", extra=tables)
    flags = _by_one_name(flags)
    checked |= checked_values(
        Source("command line", ""), flags, _TOP | {"nodes": Setting(kind=list)}, ""
    )
    policies = {
        name: checked_values(source, table_of(source, raw, name), _settings(known), f"{name}.")
        for name, known in _POLICIES.items()
    }
    jobs = checked_values(source, table_of(source, raw, "jobs"), _JOBS, "jobs.")
    placement = placement_from(source, table_of(source, raw, "placement"))
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
    policy_name = checked.get("policy", _DEFAULT_POLICY)
    nodes = checked_places(
        source, placement, nodes_from(source, raw.get("node", []), checked.get("nodes", []))
    )
    queues = queues_from(source, raw.get("queue", []))
    check_queue_nodes(source, queues, [node.node_id for node in nodes])
    power = power_from(
        source, checked_values(source, table_of(source, raw, "power"), _POWER, "power.")
    )
    boot_uw = power.sleep.boot_uw - power.sleep.asleep_uw
    policy = _policy(source, policy_name, policies)
    return Config(
        energy_price=energy.price_from(source, checked.get(energy.KEY, ""), queues),
        policy=policy,
        slurm=slurm_from(source, raw, policy),
        policy_settings=_stated(policy_name, policies),
        nodes=nodes,
        placement=placement,
        queues=queues,
        accounts=accounts_from(source, raw),
        limits=_limits(source, jobs),
        access=_access(source, checked),
        emergency=emergency_from(source, table_of(source, raw, "emergency")),
        metrics_listen=_metrics(source, table_of(source, raw, "metrics")),
        history_days=checked_values(
            source, table_of(source, raw, "history"), _HISTORY, "history."
        ).get("keep_days", KEEP_DAYS),
        power=power,
        mail=mail_from(source, table_of(source, raw, "mail")),
        ramp=ramp_from(source, table_of(source, raw, "budget"), boot_uw),
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


def _by_one_name(values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the primary name of the policy instead of an alias."""
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


def _policy(source: Source, name: str, tables: dict[str, dict[str, Any]]) -> Policy:
    entry = registry.find(name)
    assert entry is not None, "the name was checked"
    table = entry.family.name
    try:
        return entry.service(tables.get(table, {}))
    except SettingError as error:
        raise ConfigError(f"{source.at(table)}: [{table}] {error}") from None


def _stated(name: str, tables: dict[str, dict[str, Any]]) -> tuple[tuple[str, str], ...]:
    entry = registry.find(name)
    assert entry is not None, "the name was checked"
    family = entry.family.name
    return tuple((f"{family}.{key}", str(value)) for key, value in tables.get(family, {}).items())


def _limits(source: Source, jobs: dict[str, Any]) -> TimeLimits:
    default_s, max_s = jobs.get("time_limit_s", 0.0), jobs.get("time_limit_max_s", 0.0)
    if max_s and default_s > max_s:
        raise ConfigError(
            f"{source.at('time_limit_s')}: jobs.time_limit_s = {default_s:g} s is above "
            f"jobs.time_limit_max_s = {max_s:g} s"
        )
    return TimeLimits(default_ns=ns_from_s(default_s), max_ns=ns_from_s(max_s))


def _access(source: Source, checked: dict[str, Any]) -> AccessSettings:
    found = AccessSettings(**{name: checked[name] for name in _ACCESS if name in checked})
    if found.socket_group and found.socket_mode != "0660":
        raise ConfigError(
            f"{source.at('socket_group')}: socket_group = {found.socket_group!r} needs "
            'socket_mode = "0660"'
        )
    return found


def _metrics(source: Source, table: dict[str, Any]) -> str:
    address: str = checked_values(source, table, _METRICS, "metrics.").get("listen", "")
    if address and (fault := address_fault(address)):
        raise ConfigError(f"{source.at('listen', 'metrics')}: metrics.listen: {fault}")
    return address
