"""The coordinator at work: one task owns the core; adapters post events and carry out actions.

An event is journalled, then handled, then its actions are started. Several that wait together are
written in one transaction, before anything is done that a restarted coordinator must know of: a
raised cap it had forgotten would break the budget. A caller that must know its event is safe
(`request`) waits for that transaction; if the disk does not take it, the event is withdrawn and
the caller told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wattfold.contract.ids import Epoch, JobId
from wattfold.contract.log_text import line
from wattfold.coordinator.adapters import asking, event_log
from wattfold.coordinator.adapters.audit_trail import AuditEntry, AuditFilter
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import Journal, JournalError
from wattfold.coordinator.adapters.launch_data import LaunchData, may_start
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core import reports
from wattfold.coordinator.core.changes import Changes
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.state import InvariantError

log = logging.getLogger("wattfold.coordinator")

BATCH_MAX = 64
"""Events of one transaction, and between two turns of everybody else: some 10 ms."""
QUEUE_MAX = 100_000
CHECKPOINT_EVERY = 20_000
CHECKPOINT_RETRY = 1_000
UNWRITTEN_MAX = 1_000
RECORDER_LENGTH = 500
NOTE_WITHIN_S = 0.05
SCRUB_WITHIN_S = 5.0
"""After that a dropped environment is gone from the files as well, unless a backup reads them."""
HARMLESS = (act.RenewLease, act.Solve, act.WakeAt)
"""Actions that a coordinator need not know of after a crash: a restart allows for them."""


class Performer(Protocol):
    """Carries out one kind of actions (commands to agents, planning)."""

    def perform(self, action: act.Action) -> None:
        """Starts an action and returns at once; its outcome comes back as an event."""


@dataclass(slots=True)
class _Item:
    event: ev.Event
    done: asyncio.Future[None] | None
    launch: LaunchData | None = None
    asked: AuditEntry | None = None


class Service:
    """Owns the core.

    After each batch of events ``followers`` are told what has changed, and then ``listeners`` that
    something may have. What they do takes the time of leases: a follower looks at what it was
    named and at nothing else, a listener at no job at all.
    """

    def __init__(self, core: CoordinatorCore, journal: Journal, clock: Clock) -> None:
        self.core = core
        self.clock = clock
        self.listeners: list[Callable[[], None]] = []
        self.followers: list[Callable[[Changes], None]] = []
        self.performers: dict[type, Performer] = {}
        self._journal = journal
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(QUEUE_MAX)
        self._recorder: deque[str] = deque(maxlen=RECORDER_LENGTH)
        self._wake: asyncio.TimerHandle | None = None
        self._tidying: asyncio.TimerHandle | None = None
        self._since_checkpoint = 0
        self._late = False
        self._changes = Changes()
        self.begin_checkpoint: Callable[[], None] = self._checkpoint_here
        """Called every `CHECKPOINT_EVERY` events; a large state is written beside the loop."""

    def post(self, event: ev.Event) -> None:
        """Hands an event in; from the event loop's thread only."""
        self._queue.put_nowait(_Item(event, None))

    async def request(self, event: ev.Event, launch: LaunchData | None = None) -> None:
        """Hands an event in and waits until it is on disk and handled. Raises JournalError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put(_Item(event, done, launch, asking.entry_for(event)))
        try:
            await done
        except JournalError:
            asking.not_stored()
            raise

    def note(self, entry: AuditEntry) -> None:
        """Has a request stored that led to no event, within a moment."""
        self._journal.note(entry)
        self._tidy_in(NOTE_WITHIN_S)

    def launch_data(self, job_id: JobId) -> LaunchData | None:
        """What the start of a job needs; None once it was dropped. Raises JournalError."""
        return self._journal.launch_data(job_id)

    def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        """Requests of the past. Raises JournalError."""
        return self._journal.audit(wanted)

    async def run(self) -> None:
        """Handles events until cancelled."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            self._take(batch)
            self._tell()
            # The queue may be full of events all the time; others have to get their turn as well.
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
    ) -> None:
        """Begins a new generation; call once, before `run` and before there are performers.

        Nothing is in reach yet, so the only actions are wake-ups and a first planning round, which
        the first contact asks for again.
        """
        epoch = Epoch(max(self.core.state.epoch + 1, first_epoch))
        event = ev.CoordinatorStarted(
            epoch=epoch,
            lease_ns=lease_ns,
            command_timeout_ns=command_timeout_ns,
        )
        self._take([_Item(item, None) for item in (event, *then)])
        self._journal.commit()

    def checkpoint(self) -> None:
        """Stores the state, so that the next start need not replay."""
        self._journal.checkpoint(self.core.state, self.clock.now_ns())
        self._since_checkpoint = 0

    def _take(self, batch: list[_Item]) -> None:
        """Journals, handles, then acts. A batch in which somebody waits is synced first."""
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
                item.event = self.core.judged(item.event, now_ns)
            numbered.append((self._append(item, now_ns), now_ns, item))
        numbered = self._sync(numbered)
        for number, now_ns, item in numbered:
            self._act(self._handle(number, now_ns, item))
        self._since_checkpoint += len(numbered)

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
            log.error(line("journal_write_failed", reason=error))
            return self._refuse(numbered, error)
        return numbered

    def _refuse(
        self,
        numbered: list[tuple[int, int, _Item]],
        error: JournalError,
    ) -> list[tuple[int, int, _Item]]:
        """Takes back what somebody waits for; facts of the nodes stay, to be written later."""
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
        except InvariantError:
            told = line("invariant_broken", number=number)
            log.critical("%s last_events:\n%s", told, self.recorded())
            raise
        self._changes.add(self.core.state, item.event, self.core.touched, actions)
        if item.done is not None and not item.done.done():
            item.done.set_result(None)
        self._watch_deadline(now_ns)
        event_log.tell(item.event, self.core.state, now_ns, f"e{number}", budget_uw)
        self._drop_launch_data()
        return actions

    def _drop_launch_data(self) -> None:
        """Environments go when their job will not be started again, from the log file soon."""
        jobs = self.core.state.jobs
        gone = [job_id for job_id in self.core.state.index.news if not may_start(jobs[job_id])]
        if gone:
            self._journal.drop_launch_data(gone)
            self._tidy_in(SCRUB_WITHIN_S)

    def _tidy_in(self, delay_s: float) -> None:
        """Has what is pending written and what was dropped scrubbed, at the latest by then."""
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
            self._journal.scrub()
        except JournalError as error:
            log.error(line("journal_write_failed", reason=error))
            self._tidy_in(SCRUB_WITHIN_S)

    def _watch_deadline(self, now_ns: int) -> None:
        """Says, once, when a lowered budget is not kept by its deadline: some node disobeys."""
        ledger = self.core.state.ledger
        late = 0 < ledger.over_deadline_ns <= now_ns
        if late and not self._late:
            log.error(
                line(
                    "budget_late",
                    budget_w=f"{ledger.budget_uw / 1e6:.1f}",
                    committed_w=f"{ledger.committed_uw / 1e6:.1f}",
                    reason="a node does not confirm its caps",
                )
            )
        self._late = late

    def _act(self, actions: list[act.Action]) -> None:
        """Carries actions out, once what led to them is on disk.

        While the disk does not take it, nothing is done that a restart must know of: no cap is
        raised and no job started (both are tried again), and no agent forgets a process.
        """
        if not (self._journal.pending and any(not isinstance(a, HARMLESS) for a in actions)):
            written = True
        else:
            written = self._commit()
        for action in actions:
            if written or self._harmless_unwritten(action):
                self._perform(action)
            elif isinstance(action, act.Launch | act.SetCaps | act.Leave):
                self.post(_put_off(action))

    def _commit(self) -> bool:
        try:
            self._journal.commit()
        except JournalError as error:
            log.error(line("journal_write_failed", reason=error))
            return False
        return True

    def _harmless_unwritten(self, action: act.Action) -> bool:
        if isinstance(action, act.SetCaps):
            zones = self.core.state.ledger.accounts[action.node_id].zones
            return all(cap_uw <= zones[name].confirmed_uw for name, cap_uw in action.caps)
        return not isinstance(action, act.Launch | act.ForgetProcess | act.Leave)

    def recorded(self) -> str:
        """The last events, for a defect report."""
        return "\n".join(self._recorder)

    def _perform(self, action: act.Action) -> None:
        if isinstance(action, act.WakeAt):
            self._wake_at(action.at_ns)
        else:
            self.performers[type(action)].perform(action)

    def _wake_at(self, at_ns: int) -> None:
        if self._wake is not None:
            self._wake.cancel()
        delay_s = max(at_ns - self.clock.now_ns(), 0) / 1e9
        loop = asyncio.get_running_loop()
        self._wake = loop.call_later(delay_s + 0.0005, self.post, ev.TimePassed())


def _parts(batch: list[_Item]) -> list[list[_Item]]:
    """A plan is judged when all before it was handled, so it begins a part of its own."""
    parts: list[list[_Item]] = []
    for item in batch:
        if not parts or isinstance(item.event, ev.PlanProposed):
            parts.append([])
        parts[-1].append(item)
    return parts


def _put_off(action: act.Launch | act.SetCaps | act.Leave) -> ev.Event:
    reason = "the journal cannot be written"
    if isinstance(action, act.Leave):
        return reports.LeaveFailed(
            node_id=action.node_id, request_id=action.request_id, reason=reason, refused=True
        )
    if isinstance(action, act.SetCaps):
        return reports.CapsUnconfirmed(
            node_id=action.node_id,
            request_id=action.request_id,
            reason=reason,
        )
    return reports.LaunchFailed(
        node_id=action.node_id,
        job_id=action.job_id,
        reason=reason,
        permanent=False,
        attempt=action.attempt,
    )


def replay(journal: Journal, core: CoordinatorCore) -> int:
    """Brings a core back from its journal. Returns the number of events replayed."""
    state = journal.load_state()
    if state is not None:
        settings = core.state.settings
        core.state = state
        core.state.settings = settings
    count = 0
    for entry in journal.events():
        core.handle(entry.event, entry.time_ns, f"e{entry.number}")
        count += 1
    journal.keep_launch_data([job_id for job_id, job in core.state.jobs.items() if may_start(job)])
    return count
