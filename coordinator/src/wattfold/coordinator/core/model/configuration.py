"""Events about the configuration of the site, at the start and after a reload."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.model.account import Account, UserLimits
from wattfold.coordinator.core.model.queue import Queue
from wattfold.coordinator.core.model.ramp_limits import RampLimits
from wattfold.coordinator.core.model.resource_manager import ManagerConfigured


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChanged:
    """The coordinator plans with another policy, or with other settings of it, from now on."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered:
    """The configuration names a node, with features in addition to those that its agent reports."""

    node_id: NodeId
    address: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRetired:
    """The configuration no longer names a node."""

    node_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesConfigured:
    """The configuration defines these queues and no others."""

    queues: tuple[Queue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarStepped:
    """The calendar of the coordinator was set forward (above 0) or back by ``by_ns``.

    Announced budgets, reservations, due dates and begin times keep their times of the calendar.
    """

    by_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsConfigured:
    """The configuration defines these accounts and limits of users, and no others."""

    accounts: tuple[Account, ...]
    users: tuple[UserLimits, ...]
    half_life_ns: int = 0
    """Half-life of recent use for fair share; 0 = no fair share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RampConfigured:
    """The configuration limits how fast committed power may rise and fall."""

    limits: RampLimits


SettingsChanged = (
    QueuesConfigured | AccountsConfigured | PolicyChanged | RampConfigured | ManagerConfigured
)
