"""Replay of a journal into a core, and treatment of events that the core cannot handle.

Events are stored before they are handled. An event that breaks an invariant or raises an exception
would break every later start as well. So it is set aside: it stays in the journal with the reason,
and is not handled again. The state that it has touched is discarded and rebuilt from the events
before it.

An event is at fault only if the state before it is sound and time can pass in that state. Otherwise
the fault is older, and the first event is searched after which the state is unsound.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.journal.journal import Entry, Journal, JournalError
from wattfold.coordinator.adapters.journal.launch_data import SUBMITTED, needed
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.rules.invariants import check_invariants
from wattfold.coordinator.core.state.state import CoreSettings, State

REPLAY_STEP = 16
SET_ASIDE_MAX = 20
"""Limit for one start. With more faults, this version does not fit the journal."""
_NEEDED = (ev.CoordinatorStarted, ev.JournalRestored, ev.PlanFailed, ev.TimePassed)
"""Events that cannot be left out."""

log = logging.getLogger("wattfold.coordinator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An event that the core could not handle, and the reason."""

    entry: Entry
    error: Exception

    @property
    def reason(self) -> str:
        """Reason for people."""
        return f"{type(self.error).__name__}: {self.error}"


def replay(journal: Journal, core: CoordinatorCore) -> int:
    """Replay a journal into a core. Returns the number of replayed events.

    Events that cannot be handled are set aside. Raises JournalError.
    """
    return sum(replay_in_steps(journal, core))


def replay_in_steps(journal: Journal, core: CoordinatorCore) -> Iterator[int]:
    """Replay in steps of some milliseconds, so that other tasks can run in between.

    Yields the number of events of each step.
    """
    settings = core.state.settings
    fault = yield from _replay(journal, core, settings)
    for _ in range(SET_ASIDE_MAX):
        if fault is None:
            break
        set_aside(journal, at_fault(journal, settings, fault))
        fault = yield from _replay(journal, core, settings)
    if fault is not None:
        raise JournalError(
            f"journal {journal.path}: {SET_ASIDE_MAX} events could not be handled and were set "
            f"aside; the next is event {fault.entry.number} ({fault.reason}); use the version "
            "that wrote the journal, or restore a backup"
        )
    journal.keep_launch_data(needed(core.state))


def _replay(
    journal: Journal, core: CoordinatorCore, settings: CoreSettings
) -> Generator[int, None, Fault | None]:
    core.begin_anew(_first_state(journal, settings))
    count = 0
    for entry in journal.events():
        fault = _handled(core, entry)
        if fault is not None:
            return fault
        count += 1
        if count == REPLAY_STEP:
            yield count
            count = 0
    yield count
    return None


def _first_state(journal: Journal, settings: CoreSettings) -> State:
    state = journal.load_state() or CoordinatorCore(0, settings).state
    state.settings = settings
    return state


def _handled(core: CoordinatorCore, entry: Entry) -> Fault | None:
    error = _failure(lambda: core.handle(entry.event, entry.time_ns, f"e{entry.number}"))
    return Fault(entry=entry, error=error) if error else None


def _failure(attempt: Callable[[], object]) -> Exception | None:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - whatever a defect may raise
        return error
    return None


def before(journal: Journal, settings: CoreSettings, number: int) -> CoordinatorCore:
    """Return the core as it was after all events before a number."""
    core = CoordinatorCore(0)
    core.begin_anew(_first_state(journal, settings))
    for entry in journal.events():
        if entry.number >= number:
            break
        core.handle(entry.event, entry.time_ns, f"e{entry.number}")
    return core


def without(journal: Journal, settings: CoreSettings, number: int) -> Fault | None:
    """Return the first event that could not be handled if the event ``number`` were set aside."""
    core = CoordinatorCore(0)
    core.begin_anew(_first_state(journal, settings))
    for entry in journal.events(but=(number,)):
        fault = _handled(core, entry)
        if fault is not None:
            return fault
    return None


def at_fault(journal: Journal, settings: CoreSettings, found: Fault) -> Fault:
    """Return the event to set aside: the event that failed, or the event that broke the state.

    Raises JournalError if there is none, or if the event cannot be left out.
    """
    core = before(journal, settings, found.entry.number)
    unsound = why_unsound(core, found.entry.time_ns)
    fault = _first_to_break(journal, settings, found.entry.number) if unsound else found
    if fault is None or isinstance(fault.entry.event, _NEEDED):
        raise JournalError(
            f"journal {journal.path}: event {found.entry.number} cannot be handled "
            f"({found.reason}), and the fault is not of this event alone"
            f"{f' ({unsound})' if unsound else ''}. Keep a copy of the state folder for a report, "
            "then restore a backup, or set events aside with `wattfold-coordinator journal skip`"
        )
    return fault


def sound_before(journal: Journal, settings: CoreSettings, fault: Fault) -> CoordinatorCore:
    """Return the core before the event at fault. Raises JournalError for another fault."""
    core = before(journal, settings, fault.entry.number)
    unsound = why_unsound(core, fault.entry.time_ns)
    if unsound or isinstance(fault.entry.event, _NEEDED):
        raise JournalError(f"the fault is not of this event alone: {unsound or fault.reason}")
    return core


def reporter(event: ev.Event) -> NodeId | None:
    """Return the node that reported an event; None for events from other sources."""
    if isinstance(event, reports.NodeConnected):
        return event.spec.node_id
    reported = vars(reports).get(type(event).__name__) is type(event)
    return getattr(event, "node_id", None) if reported else None


def why_unsound(core: CoordinatorCore, time_ns: int) -> str:
    """Why a state cannot go on even without a further event; empty = it can. Changes nothing."""
    trial = CoordinatorCore(0)
    # Half the time of copy.deepcopy, in which no lease is renewed.
    trial.begin_anew(pickle.loads(pickle.dumps(core.state)))  # noqa: S301
    error = _failure(lambda: check_invariants(trial.state)) or _failure(
        lambda: trial.handle(ev.TimePassed(), time_ns)
    )
    return f"{type(error).__name__}: {error}" if error else ""


def _first_to_break(journal: Journal, settings: CoreSettings, number: int) -> Fault | None:
    """Return the first event before a number after which the state is unsound."""
    core = CoordinatorCore(0)
    core.begin_anew(_first_state(journal, settings))
    for entry in journal.events():
        if entry.number >= number:
            return None
        fault = _handled(core, entry)
        if fault is not None:
            return fault
        error = _failure(lambda: check_invariants(core.state))
        if error is not None:
            return Fault(entry=entry, error=error)
    return None


def set_aside(journal: Journal, fault: Fault) -> None:
    """Exclude an event from every later replay. Raises JournalError."""
    entry = fault.entry
    journal.set_aside(entry.number, fault.reason, entry.asked)
    if isinstance(entry.event, SUBMITTED):
        journal.drop_launch_data([entry.event.job_id])
    log.error(
        line(
            "event_set_aside",
            number=entry.number,
            kind=type(entry.event).__name__,
            reason=fault.reason,
            look=f"wattfold-coordinator journal show {entry.number}",
        )
    )
