"""Event loop of the coordinator: one task owns the core, adapters post events and run actions.

An event is stored in the journal, then handled, then its actions are started. Waiting events are
written in one transaction. It is on disk before any action that a restarted coordinator must know
of: a raised cap that it had lost would break the budget. A caller of `request` waits for this
transaction. If the write fails, the event is withdrawn and the caller gets an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.ids import Epoch, JobId, NodeId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import asking, event_log
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import replaying, unwritten
from wattfold.coordinator.adapters.journal.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.journal.journal import Entry, Journal, JournalError
from wattfold.coordinator.adapters.journal.launch_data import LaunchData, no_longer_needed
from wattfold.coordinator.adapters.journal.replaying import Fault
from wattfold.coordinator.adapters.log_throttle import LogThrottle
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.state.changes import Changes

log = logging.getLogger("wattfold.coordinator")

BATCH_MAX = 64
"""Maximum number of events per transaction and per turn of this task: about 10 ms."""
QUEUE_MAX = 100_000
CHECKPOINT_EVERY = 20_000
CHECKPOINT_RETRY = 1_000
UNWRITTEN_MAX = 1_000
RECORDER_LENGTH = 500
NOTE_WITHIN_S = 0.05
MOVE_WITHIN_S = 5.0
"""Maximum time until committed data have moved from the log into the journal file."""
SCRUB_WITHIN_S = 5.0
"""Maximum time until a deleted environment is gone from the files, unless a backup reads them."""


class Performer(Protocol):
    """Carries out one kind of actions (commands to agents, planning)."""

    def perform(self, action: act.Action) -> None:
        """Start an action and return immediately. Its outcome arrives as an event."""


class WithdrawnError(Exception):
    """The event of a request could not be handled. It was set aside, and nothing has changed."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(
            f"withdrawn, and nothing has changed: a defect of the coordinator ({reason}) keeps it "
            f"from being carried out; an operator can look at event {number} with "
            "`wattfold-coordinator journal show`"
        )


@dataclass(slots=True)
class _Item:
    event: ev.Event
    done: asyncio.Future[None] | None
    launch: LaunchData | None = None
    asked: AuditEntry | None = None


class Service:
    """Owner of the core.

    After each batch of events, ``followers`` receive the changes, then ``listeners`` are called.
    Their time is taken from the renewal of leases. So a follower examines only the named jobs and
    nodes, and a listener examines no jobs.
    """

    def __init__(self, core: CoordinatorCore, journal: Journal, clock: Clock) -> None:
        self.core = core
        self.clock = clock
        self.listeners: list[Callable[[], None]] = []
        self.followers: list[Callable[[Changes], None]] = []
        self.performers: dict[type, Performer] = {}
        self._early: list[act.Action] = []
        """Actions of the start of the epoch, which `run` performs."""
        self._journal = journal
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(QUEUE_MAX)
        self._recorder: deque[str] = deque(maxlen=RECORDER_LENGTH)
        self._wake: asyncio.TimerHandle | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self._since_checkpoint = 0
        self._changes = Changes()
        self._failures = LogThrottle(log.error)
        """Throttled, because every event fails on a full disk."""
        self.begin_checkpoint: Callable[[], None] = self._checkpoint_here
        """Called every `CHECKPOINT_EVERY` events. A large state is written outside the loop."""
        self.contact_anew: Callable[[NodeId], None] = lambda _: None
        """Called for a node after a report of it was set aside."""
        self._owed: list[ev.Event] = []
        self.begin_move: Callable[[], None] = journal.move
        """Moves the log of the journal into its file. It takes as long as a sync of the disk."""

    def post(self, event: ev.Event) -> None:
        """Queue an event. Call it only from the event loop's thread."""
        self._queue.put_nowait(_Item(event, None))

    async def request(self, event: ev.Event, launch: LaunchData | None = None) -> None:
        """Queue an event and wait until it is on disk and handled.

        Raises JournalError, and WithdrawnError if it cannot be handled. Nothing has changed in
        these cases.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put(_Item(event, done, launch, asking.entry_for(event)))
        try:
            await done
        except (JournalError, WithdrawnError):
            asking.not_stored()
            raise

    def note(self, entry: AuditEntry) -> None:
        """Store a request that caused no event, within `NOTE_WITHIN_S`."""
        self._journal.note(entry)
        self._tidy_in(NOTE_WITHIN_S)

    def launch_data(self, job_id: JobId) -> LaunchData | None:
        """Return the launch data of a job; None = deleted. Raises JournalError."""
        return self._journal.launch_data(job_id)

    def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        """Return stored requests. Raises JournalError."""
        return self._journal.audit(wanted)

    async def run(self) -> None:
        """Handle events until cancelled."""
        early, self._early = self._early, []
        for action in early:
            self._perform(action)
        while True:
            batch = [await self._queue.get()]
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            self._take(batch)
            if self._journal.unmoved:
                self._tidy_in(MOVE_WITHIN_S)
            self._tell()
            # Other tasks must get their turn even if the queue is always full.
            await asyncio.sleep(0)

    def _tell(self) -> None:
        changes, self._changes = self._changes, Changes()
        for follower in self.followers:
            follower(changes)
        for listener in self.listeners:
            listener()

    def start_epoch(
        self,
        lease_ns: int,
        command_timeout_ns: int,
        then: Sequence[ev.Event] = (),
        first_epoch: int = 1,
        before: Sequence[ev.Event] = (),
        held: Sequence[NodeId] = (),
        held_ns: int = 0,
        calendar_step_ns: int = 0,
        instance: str = "",
    ) -> None:
        """Begin a new epoch. Call it once, before `run` and before there are performers.

        The events in ``before`` are handled before the event of the epoch, those in ``then`` after
        it. No node is reachable yet. So the actions are wake-ups, repeated orders of nodes that
        sleep or boot, and a first planning round; `run` performs them. ``held``: nodes whose leases
        are renewed until first contact.
        """
        for earlier in before:
            # Its actions are void, because the nodes in the state are not reachable now. It gets
            # the time before a gap, so that no time limit counts time that only a calendar shows.
            item, now_ns = _Item(earlier, None), self.clock.now_ns() - max(self.clock.gap_ns, 0)
            self._handle(self._append(item, now_ns), now_ns, item)
        epoch = Epoch(max(self.core.state.epoch + 1, first_epoch))
        event = ev.CoordinatorStarted(
            epoch=epoch,
            lease_ns=lease_ns,
            command_timeout_ns=command_timeout_ns,
            held=tuple(held),
            held_ns=held_ns,
            calendar_step_ns=calendar_step_ns,
            gap_ns=self.clock.gap_ns,
            doubted=self._doubted(),
            instance=instance,
        )
        self._take([_Item(item, None) for item in (event, *then)])
        self._journal.commit()

    def _doubted(self) -> tuple[NodeId, ...]:
        """Return the nodes with reports that are missing in the state, so they may hold more."""
        told = [replaying.reporter(entry.event) for entry in self._journal.aside()]
        return tuple(dict.fromkeys(node_id for node_id in told if node_id is not None))

    def checkpoint(self) -> None:
        """Store the state, so that the next start need not replay."""
        self._journal.checkpoint(self.core.state, self.clock.now_ns())
        self._since_checkpoint = 0

    def _take(self, batch: list[_Item]) -> None:
        """Store a batch, handle it, then act. A batch with a waiting caller is synced first."""
        for part in _parts(batch):
            self._take_part(part)
        if self._since_checkpoint >= CHECKPOINT_EVERY:
            self._since_checkpoint -= CHECKPOINT_EVERY
            self.begin_checkpoint()

    def _take_part(self, part: list[_Item]) -> None:
        numbered = []
        for item in part:
            now_ns = self.clock.now_ns()
            if isinstance(item.event, ev.PlanProposed):
                item.event = self._judged(item.event, now_ns)
            numbered.append((self._append(item, now_ns), now_ns, item))
        numbered = self._sync(numbered)
        for number, now_ns, item in numbered:
            self._act(self._handle(number, now_ns, item))
        self._since_checkpoint += len(numbered)
        if self._owed:
            # Replacements of events that were set aside, stored after the whole part.
            owed, self._owed = self._owed, []
            self._take_part([_Item(event, None) for event in owed])

    def _judged(self, event: ev.PlanProposed, now_ns: int) -> ev.PlanAccepted | ev.PlanFailed:
        try:
            return self.core.judged(event, now_ns)
        except Exception as error:
            log.exception(line("plan_not_judged", round=event.round.number))
            return ev.PlanFailed(round=event.round, reason=f"not judged: {error!r}")

    def _append(self, item: _Item, now_ns: int) -> int:
        return self._journal.append(item.event, now_ns, item.launch, item.asked)

    def _checkpoint_here(self) -> None:
        try:
            self.checkpoint()
        except JournalError as error:
            log.error(line("checkpoint_failed", reason=error))
            self._since_checkpoint = CHECKPOINT_EVERY - CHECKPOINT_RETRY

    def _sync(self, numbered: list[tuple[int, int, _Item]]) -> list[tuple[int, int, _Item]]:
        transient = all(
            isinstance(item.event, ev.TRANSIENT) and item.done is None for _, _, item in numbered
        )
        if transient and self._journal.pending < UNWRITTEN_MAX:
            return numbered
        try:
            self._journal.commit()
        except JournalError as error:
            self._failures.tell("journal_write_failed", reason=error)
            return self._refuse(numbered, error)
        return numbered

    def _refuse(
        self,
        numbered: list[tuple[int, int, _Item]],
        error: JournalError,
    ) -> list[tuple[int, int, _Item]]:
        """Withdraw events with a waiting caller. Reports of nodes stay and are written later."""
        kept = [entry for entry in numbered if entry[2].done is None]
        for number, _, _ in reversed(numbered):
            self._journal.withdraw(number)
        for _, _, item in numbered:
            if item.done is not None and not item.done.done():
                item.done.set_exception(error)
        return [(self._append(item, now_ns), now_ns, item) for _, now_ns, item in kept]

    def _handle(self, number: int, now_ns: int, item: _Item) -> list[act.Action]:
        self._recorder.append(f"{number} {now_ns} {item.event!r}")
        budget_uw = self.core.state.ledger.budget_uw
        try:
            actions = self.core.handle(item.event, now_ns, f"e{number}")
        except Exception as error:
            told = line("event_not_handled", number=number, kind=type(item.event).__name__)
            log.critical("%s last_events:\n%s", told, self.recorded(), exc_info=error)
            entry = Entry(number=number, time_ns=now_ns, event=item.event, asked=item.asked)
            self._withdraw(Fault(entry=entry, error=error), item)
            return []
        self._changes.add(self.core.state, item.event, self.core.touched, actions)
        if item.done is not None and not item.done.done():
            item.done.set_result(None)
        event_log.tell(item.event, self.core.state, now_ns, f"e{number}", budget_uw)
        self._drop_launch_data()
        return actions

    def _withdraw(self, fault: Fault, item: _Item) -> None:
        """Set aside an event that cannot be handled, and continue with the state before it.

        A request is refused. A report of a node cannot be refused: contact with the node starts
        again, and until then the node is charged with its maximum. Raises the error if the fault is
        not in this event.
        """
        number, event = fault.entry.number, fault.entry.event
        try:
            self._journal.commit()
            core = replaying.sound_before(self._journal, self.core.state.settings, fault)
            replaying.set_aside(self._journal, fault)
        except JournalError as error:
            log.critical(line("event_not_set_aside", number=number, reason=error))
            raise fault.error from error
        self.core.continue_with(core.state)
        self._changes = Changes(everything=True)
        self._since_checkpoint = max(self._since_checkpoint, CHECKPOINT_EVERY)
        if item.done is not None and not item.done.done():
            item.done.set_exception(WithdrawnError(number, fault.reason))
        reason = f"event {number} of it could not be handled: {fault.reason}"
        node_id = replaying.reporter(event)
        if node_id is not None:
            self._owed.append(reports.ReportSetAside(node_id=node_id, reason=reason))
            self.contact_anew(node_id)
        elif isinstance(event, ev.PlanAccepted):
            self._owed.append(ev.PlanFailed(round=event.round, reason=reason))

    def _drop_launch_data(self) -> None:
        """Delete environments of jobs that will not start again, soon also from the log file."""
        gone = no_longer_needed(self.core.state)
        if gone:
            self._journal.drop_launch_data(gone)
            self._tidy_in(SCRUB_WITHIN_S)

    def _tidy_in(self, delay_s: float) -> None:
        """Write pending entries and move the log within this time."""
        loop = asyncio.get_running_loop()
        if self._tidying is not None and self._tidying.when() <= loop.time() + delay_s:
            return
        if self._tidying is not None:
            self._tidying.cancel()
        self._tidying = loop.call_later(delay_s, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        try:
            self._journal.commit()
            self.begin_move()
        except JournalError as error:
            self._failures.tell("journal_write_failed", reason=error)
            self._tidy_in(SCRUB_WITHIN_S)

    def _act(self, actions: list[act.Action]) -> None:
        """Carry out actions after their causes are on disk.

        If the write fails, no action runs that a restart must know of: no cap is raised, no job is
        started (both are retried), and no agent forgets a process.
        """
        needed = any(not isinstance(action, unwritten.HARMLESS) for action in actions)
        written = self._commit() if needed and self._journal.pending else True
        for action in actions:
            if written or unwritten.harmless(self.core.state, action):
                self._perform(action)
            elif isinstance(action, act.Launch | act.SetCaps | act.Leave | act.SwitchPower):
                self.post(unwritten.put_off(action))

    def _commit(self) -> bool:
        try:
            self._journal.commit()
        except JournalError as error:
            self._failures.tell("journal_write_failed", reason=error)
            return False
        return True

    def recorded(self) -> str:
        """Return the last events, for a defect report."""
        return "\n".join(self._recorder)

    def _perform(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self._wake_at(action.at_ns)
        elif not self.performers:
            self._early.append(action)
        else:
            self.performers[type(action)].perform(action)

    def _wake_at(self, at_ns: int) -> None:
        if self._wake is not None:
            self._wake.cancel()
        delay_s = max(at_ns - self.clock.now_ns(), 0) / 1e9
        loop = asyncio.get_running_loop()
        self._wake = loop.call_later(delay_s + 0.0005, self.post, ev.TimePassed())


def _parts(batch: list[_Item]) -> list[list[_Item]]:
    """Split a batch so that each plan begins a part: it is judged after all earlier events."""
    parts: list[list[_Item]] = []
    for item in batch:
        if not parts or isinstance(item.event, ev.PlanProposed):
            parts.append([])
        parts[-1].append(item)
    return parts
