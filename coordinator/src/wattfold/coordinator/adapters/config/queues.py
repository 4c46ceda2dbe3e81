"""The [[queue]] tables of the configuration."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from wattfold.contract.ids import NodeId, valid_name
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.adapters.config.values import (
    ConfigError,
    Setting,
    Source,
    Where,
    checked_values,
)
from wattfold.coordinator.adapters.requests.field_checks import PRIORITY_MAX
from wattfold.coordinator.core.model.jobs.core_sharing import CoreSharing
from wattfold.coordinator.core.model.queue import Queue

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
    "price_hold_max_s": _TIME,
    "preempts": Setting(kind=list),
    "nodes": Setting(kind=list),
    "share": Setting(kind=str, choices=SHARES),
    "sharing_factor": Setting(kind=float, low=0.0, high=1.0),
    "max_slowdown": Setting(kind=float, low=0.0, high=1e6),
}


def queues_from(source: Source, tables: Any) -> tuple[Queue, ...]:
    """Return the queues, checked against each other. Raises ConfigError."""
    if not isinstance(tables, list):
        raise ConfigError(f"{source.at('queue')}: queues must be [[queue]] tables with a name")
    out: dict[str, Queue] = {}
    for index, table in enumerate(tables):
        given = checked_values(source, table, _QUEUE, "queue.", index=index)
        where, name = source.at("name", "queue", index), given.get("name", "")
        if not valid_name(name) or name in out:
            raise ConfigError(f"{where}: queue {name!r} needs a valid, unique name")
        out[name] = _queue(where, given)
    for index, queue in enumerate(out.values()):
        _check_preempts(source.at("preempts", "queue", index), queue, out)
    return tuple(out.values())


def check_queue_nodes(source: Source, queues: Sequence[Queue], nodes: Collection[NodeId]) -> None:
    """Raise ConfigError if a queue has a node that the configuration does not list."""
    for index, queue in enumerate(queues):
        unknown = next((name for name in queue.nodes if name not in nodes), None)
        if unknown is not None and nodes:
            raise ConfigError(
                f"{source.at('nodes', 'queue', index)}: queue {queue.name} has node {unknown!r}, "
                "which is not among the [[node]] tables"
            )


def _check_preempts(where: Where, queue: Queue, queues: dict[str, Queue]) -> None:
    """Refuse queues that preempt each other, also indirectly, because they would end their jobs."""
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


def _queue(where: Where, given: dict[str, Any]) -> Queue:
    for low, high in (("time_limit_s", "time_limit_max_s"), ("wait_expected_s", "wait_max_s")):
        least, most = given.get(low, 0.0), given.get(high, 0.0)
        if most and least > most:
            raise ConfigError(
                f"{where}: queue {given['name']}: {low} = {least:g} s is above {high} = {most:g} s"
            )
    hold_s, most_s = given.get("price_hold_max_s", 0.0), given.get("wait_max_s", 0.0)
    if most_s and hold_s > most_s:
        raise ConfigError(
            f"{where}: queue {given['name']}: price_hold_max_s = {hold_s:g} s is above wait_max_s "
            f"= {most_s:g} s; jobs would wait longer than the queue states"
        )
    preempts = given.get("preempts", [])
    if not all(isinstance(name, str) for name in preempts):
        raise ConfigError(
            f"{where}: queue {given['name']}: preempts = {preempts!r} must be a list of names"
        )
    nodes = given.get("nodes", [])
    if not all(isinstance(name, str) and valid_name(name) for name in nodes):
        raise ConfigError(
            f"{where}: queue {given['name']}: nodes = {nodes!r} must be a list of node names"
        )
    return Queue(
        name=given["name"],
        preempts=tuple(dict.fromkeys(preempts)),
        nodes=tuple(dict.fromkeys(map(NodeId, nodes))),
        priority=given.get("priority", 1.0),
        weight=given.get("weight", 1.0),
        time_limit_ns=ns_from_s(given.get("time_limit_s", 0.0)),
        time_limit_max_ns=ns_from_s(given.get("time_limit_max_s", 0.0)),
        cores_max=given.get("cores_max", 0),
        nodes_max=given.get("nodes_max", 0),
        wait_expected_ns=ns_from_s(given.get("wait_expected_s", 0.0)),
        wait_max_ns=ns_from_s(given.get("wait_max_s", 0.0)),
        price_hold_ns=ns_from_s(given.get("price_hold_max_s", 0.0)),
        sharing=CoreSharing(given.get("share", CoreSharing.AS_KIND)),
        sharing_factor=given.get("sharing_factor"),
        max_slowdown=given.get("max_slowdown"),
    )
