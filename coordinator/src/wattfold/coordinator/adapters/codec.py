"""Events and core state to JSON and back, for the journal. The types are the format."""

from __future__ import annotations

import typing
from typing import Any

from cattrs.preconf.json import JsonConverter, make_converter

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core import events
from wattfold.coordinator.core.state import State

EVENT_TYPES: dict[str, type] = {cls.__name__: cls for cls in typing.get_args(events.Event)}


def _converter() -> JsonConverter:
    converter = make_converter()
    converter.register_unstructure_hook(CpuSet, str)
    converter.register_structure_hook(CpuSet, lambda text, _: CpuSet.parse(text))
    return converter


_CONVERTER = _converter()


def dump_event(event: events.Event) -> tuple[str, str]:
    """Kind and JSON body of an event."""
    return type(event).__name__, _CONVERTER.dumps(event)


def load_event(kind: str, body: str) -> events.Event:
    """The event of a journal row. Raises KeyError for a kind this version does not know."""
    event: Any = _CONVERTER.loads(body, EVENT_TYPES[kind])
    return typing.cast(events.Event, event)


def dump_state(state: State) -> str:
    """JSON of the whole core state."""
    return _CONVERTER.dumps(state)


def load_state(body: str) -> State:
    """The state of a checkpoint."""
    return _CONVERTER.loads(body, State)
