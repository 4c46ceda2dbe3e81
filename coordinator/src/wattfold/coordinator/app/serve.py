"""Life of a coordinator: open the journal, replay it, take command, serve, and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable

from wattfold.contract.log_text import line
from wattfold.coordinator.adapters.agents.lease_holder import LeaseHolder
from wattfold.coordinator.adapters.clock import Clock, this_boot
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.copies.checkpoints import BesideTheLoop, MoveBeside
from wattfold.coordinator.adapters.door.access_settings import looked_up
from wattfold.coordinator.adapters.door.serving import (
    StartError,
    check_settings,
    check_unused,
    make_private,
)
from wattfold.coordinator.adapters.journal import home
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.journal.replaying import replay_in_steps
from wattfold.coordinator.adapters.learning.observations import Observations
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.app.configured_budget import configured_budget
from wattfold.coordinator.app.connections import agent_token, listen_address
from wattfold.coordinator.app.take_command import IDENTITY, Orders, take_command
from wattfold.coordinator.app.wiring import stop, wire
from wattfold.coordinator.cli.site.maintenance import JOURNAL
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.state.state import CoreSettings

log = logging.getLogger("wattfold.coordinator")

LAST_CHECKPOINT_S = 40.0
"""Within the timeout of service managers. Without this checkpoint, the next start replays."""


async def serve(read: Callable[[], Config], orders: Orders) -> int:
    """Run until a signal or a newer coordinator ends it. Returns the exit status."""
    config = read()
    access = looked_up(config.access)
    # A coordinator that cannot serve must not begin an epoch.
    check_settings(config, listen_address(config))
    check_unused(listen_address(config))
    if config.metrics_listen:
        check_unused(config.metrics_listen)
    make_private(config.state_dir)
    journal = Journal(
        config.state_dir / JOURNAL,
        kept_requests=config.audit_entries,
        accept_loss=orders.accept_loss,
    )
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(journal.close)
        _go_home(config, journal, orders)
        first_s = _first_origin_s(journal)
        holder = LeaseHolder(agent_token(config), journal.get_meta(IDENTITY) or "")
        stack.push_async_callback(holder.close)
        clock = _clock(journal, first_s)
        # Leases ended during a reboot, whose duration is not known reliably.
        may_run = journal.loss is None and clock.gap_ns < 0
        if may_run:
            await holder.begin(journal.running_leases(clock.now_ns()))
        core = await _replayed(config, journal, first_s)
        clock = _clock(journal, core.state.origin_s)
        journal.put_meta("clock", clock.anchor)
        if may_run:
            await holder.after_replay(core.state, clock.now_ns())
        service = Service(core, journal, clock)
        seen = Observations(peak_uw=int(journal.get_meta("measured_peak_uw") or 0))
        mover = MoveBeside(journal)
        service.begin_move = mover.begin
        stack.push_async_callback(mover.close)
        stack.callback(lambda: journal.put_meta("measured_peak_uw", str(seen.peak_uw)))
        budget = configured_budget(config, journal, core)
        held, unasked = await take_command(config, journal, service, holder, budget, orders)
        reloader, checkpoints = await wire(
            config,
            access,
            journal,
            service,
            seen,
            orders.record,
            stopped,
            stack,
            held,
            unasked,
            read,
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.request)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop, stopped, 0)
        code = await stopped
        if code == 0:
            await _last_checkpoint(checkpoints)
        return code


async def _last_checkpoint(checkpoints: BesideTheLoop) -> None:
    """Store the state, so that the next start need not replay. A second signal cancels it.

    Everything else continues meanwhile: leases are renewed until the end, so that a restart lowers
    no cap.
    """
    making = asyncio.create_task(checkpoints.last())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, making.cancel)
    await asyncio.wait([making], timeout=LAST_CHECKPOINT_S)
    making.cancel()


def _go_home(config: Config, journal: Journal, orders: Orders) -> None:
    """Store the home of the state folder. Raises StartError if it belongs elsewhere."""
    here = home.here(config.state_dir)
    if (strange := home.strange(journal, here)) and not orders.moved:
        raise StartError(
            f"{strange}. Two coordinators with one state give one budget twice. To use it here, "
            "and there no more, start with --moved"
        )
    home.settle(journal, here)


def _first_origin_s(journal: Journal) -> float:
    """Return the calendar time of coordinator time zero, as set when the journal began."""
    if journal.get_meta("origin_s") is None:
        clock = Clock(sources=this_boot())
        journal.put_meta("clock", clock.anchor)
        journal.put_meta("origin_s", repr(clock.origin_s))
    return float(journal.get_meta("origin_s") or 0)


def _clock(journal: Journal, origin_s: float) -> Clock:
    """Return the clock, continued from the journal."""
    anchor = journal.get_meta("clock") or ""
    return Clock(origin_s, journal.last_time_ns, anchor, this_boot())


async def _replayed(config: Config, journal: Journal, origin_s: float) -> CoordinatorCore:
    """Return a core replayed from the journal; other tasks run between the steps."""
    core = CoordinatorCore(
        budget_uw=0,
        settings=CoreSettings(
            dram_cap_uw=config.dram_cap_uw,
            predict=config.predict,
            origin_s=origin_s,
            sleep=config.power.sleep,
        ),
    )
    count = 0
    for events in replay_in_steps(journal, core):
        count += events
        await asyncio.sleep(0)
    if count:
        log.info(line("journal_replayed", events=count, jobs=len(core.state.jobs)))
    if not core.state.ledger.budget_uw and not config.budget_uw:
        raise StartError("no power budget; give --budget-w, or budget_w in the configuration")
    return core
