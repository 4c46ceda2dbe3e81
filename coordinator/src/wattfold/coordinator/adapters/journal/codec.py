"""Conversion of events and core state to and from JSON, for the journal. Types are the format."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from cattrs.errors import BaseValidationError
from cattrs.preconf.json import JsonConverter, make_converter

from wattfold.contract.cpuset import CpuSet
from wattfold.coordinator.core.model import events
from wattfold.coordinator.core.model.job import Ender, Job
from wattfold.coordinator.core.rules.jobs import run_time_predictions
from wattfold.coordinator.core.state.state import State


class CodecError(Exception):
    """A text was not written by `dump_event` or `dump_state` of this version."""


EVENT_TYPES: dict[str, type] = {cls.__name__: cls for cls in typing.get_args(events.Event)}


def _converter() -> JsonConverter:
    converter = make_converter()
    converter.register_unstructure_hook(CpuSet, str)
    converter.register_structure_hook(CpuSet, lambda text, _: CpuSet.parse(text))
    _read_older_jobs(converter)
    _read_older_states(converter)
    return converter


def _read_older_jobs(converter: JsonConverter) -> None:
    """Read states from before time limits, with `cancelled` instead of the cause of the end."""

    def hook(kind: type[Job]) -> Callable[[Any, Any], Job]:
        structure = converter.gen_structure_attrs_fromdict(kind)

        def job(value: Any, kind: Any) -> Job:
            if value.get("cancelled"):
                value = {"ended_by": Ender.USER.value, **value}
            return structure(value, kind)

        return job

    # Created when the first job is read, because creating hooks is slow.
    converter.register_structure_hook_factory(lambda kind: kind is Job, hook)


def _read_older_states(converter: JsonConverter) -> None:
    """Read states from before learnt run times. Their ended jobs provide the run history."""

    def hook(kind: type[State]) -> Callable[[Any, Any], State]:
        structure = converter.gen_structure_attrs_fromdict(kind)

        def state(value: Any, kind: Any) -> State:
            made = structure(value, kind)
            if "history" not in value:
                run_time_predictions.learn_all(made)
            return made

        return state

    converter.register_structure_hook_factory(lambda kind: kind is State, hook)


_CONVERTER = _converter()


def dump_event(event: events.Event) -> tuple[str, str]:
    """Return the kind and the JSON body of an event."""
    return type(event).__name__, _CONVERTER.dumps(event)


def load_event(kind: str, body: str) -> events.Event:
    """Return the event of a journal row. Raises CodecError."""
    if kind not in EVENT_TYPES:
        raise CodecError(f"unknown kind {kind!r}: was it written by a newer version?")
    event: Any = _loads(body, EVENT_TYPES[kind])
    return typing.cast(events.Event, event)


def dump_state(state: State) -> str:
    """Return the whole core state as JSON."""
    return _CONVERTER.dumps(state)


def load_state(body: str) -> State:
    """Return the state of a checkpoint. Raises CodecError."""
    state: State = _loads(body, State)
    return state


def _loads(body: str, kind: type) -> Any:
    try:
        return _CONVERTER.loads(body, kind)
    except RecursionError:
        raise CodecError(f"not a valid {kind.__name__}: nested too deeply") from None
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise CodecError(f"not a valid {kind.__name__}: {error}") from error
