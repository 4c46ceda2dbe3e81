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

from wattfold.contract.ids import Epoch
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.journal import Journal, JournalError
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.state import InvariantError

log = logging.getLogger("wattfold.coordinator")

BATCH_MAX = 256
QUEUE_MAX = 100_000
CHECKPOINT_EVERY = 20_000
CHECKPOINT_RETRY = 1_000
UNWRITTEN_MAX = 1_000
RECORDER_LENGTH = 500
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


class Service:
    """Owns the core. ``listeners`` are called after each batch of events."""

    def __init__(self, core: CoordinatorCore, journal: Journal, clock: Clock) -> None:
        self.core = core
        self.clock = clock
        self.listeners: list[Callable[[], None]] = []
        self.performers: dict[type, Performer] = {}
        self._journal = journal
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(QUEUE_MAX)
        self._recorder: deque[str] = deque(maxlen=RECORDER_LENGTH)
        self._wake: asyncio.TimerHandle | None = None
        self._since_checkpoint = 0
        self._late = False

    def post(self, event: ev.Event) -> None:
        """Hands an event in; from the event loop's thread only."""
        self._queue.put_nowait(_Item(event, None))

    async def request(self, event: ev.Event) -> None:
        """Hands an event in and waits until it is on disk and handled. Raises JournalError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._queue.put(_Item(event, done))
        await done

    async def run(self) -> None:
        """Handles events until cancelled."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            self._take(batch)
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
        numbered: list[tuple[int, int, _Item]] = []
        for item in batch:
            now_ns = self.clock.now_ns()
            numbered.append((self._journal.append(item.event, now_ns), now_ns, item))
        numbered = self._sync(numbered)
        for number, now_ns, item in numbered:
            self._act(self._handle(number, now_ns, item))
        self._since_checkpoint += len(numbered)
        if self._since_checkpoint >= CHECKPOINT_EVERY:
            self._try_checkpoint()

    def _try_checkpoint(self) -> None:
        try:
            self.checkpoint()
        except JournalError as error:
            log.error("checkpoint_failed reason=%s", error)
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
            log.error("journal_write_failed reason=%s", error)
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
        return [(self._journal.append(i.event, now_ns), now_ns, i) for _, now_ns, i in kept]

    def _handle(self, number: int, now_ns: int, item: _Item) -> list[act.Action]:
        self._recorder.append(f"{number} {now_ns} {item.event!r}")
        try:
            actions = self.core.handle(item.event, now_ns, f"e{number}")
        except InvariantError:
            log.critical("invariant_broken event=%d last_events:\n%s", number, self.recorded())
            raise
        if item.done is not None and not item.done.done():
            item.done.set_result(None)
        self._watch_deadline(now_ns)
        return actions

    def _watch_deadline(self, now_ns: int) -> None:
        """Says, once, when a lowered budget is not kept by its deadline: some node disobeys."""
        ledger = self.core.state.ledger
        late = 0 < ledger.over_deadline_ns <= now_ns
        if late and not self._late:
            log.error(
                "budget_late budget_w=%.1f committed_w=%.1f: some node does not confirm its caps",
                ledger.budget_uw / 1e6,
                ledger.committed_uw / 1e6,
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
            elif isinstance(action, act.Launch | act.SetCaps):
                self.post(_put_off(action))

    def _commit(self) -> bool:
        try:
            self._journal.commit()
        except JournalError as error:
            log.error("journal_write_failed reason=%s", error)
            return False
        return True

    def _harmless_unwritten(self, action: act.Action) -> bool:
        if isinstance(action, act.SetCaps):
            zones = self.core.state.ledger.accounts[action.node_id].zones
            return all(cap_uw <= zones[name].confirmed_uw for name, cap_uw in action.caps)
        return not isinstance(action, act.Launch | act.ForgetProcess)

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


def _put_off(action: act.Launch | act.SetCaps) -> ev.Event:
    reason = "the journal cannot be written"
    if isinstance(action, act.SetCaps):
        return ev.CapsUnconfirmed(
            node_id=action.node_id,
            request_id=action.request_id,
            reason=reason,
        )
    return ev.LaunchFailed(
        node_id=action.node_id,
        job_id=action.job_id,
        reason=reason,
        permanent=False,
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
    return count
