"""Start of a new epoch, unless another coordinator commands the nodes."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from wattfold.contract.ids import Epoch, NodeId
from wattfold.contract.log_text import line
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.adapters.agents import take_over
from wattfold.coordinator.adapters.agents.lease_holder import LeaseHolder
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.journal.backup import LEAP
from wattfold.coordinator.adapters.journal.file import loss_text
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.app.connections import agent_token
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model.node import FORGOTTEN
from wattfold.coordinator.core.rules.nodes import held_leases
from wattfold.v1 import common_pb2

log = logging.getLogger("wattfold.coordinator")

IDENTITY = "coordinator_id"
"""Key of the last start's identity. Leases are renewed under it until the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The operator's options for this start."""

    first_epoch: int
    accept_loss: bool
    moved: bool
    record: Path | None


async def take_command(
    config: Config,
    journal: Journal,
    service: Service,
    holder: LeaseHolder,
    budget: list[ev.Event],
    orders: Orders,
) -> tuple[list[NodeId], take_over.Unasked]:
    """Begin an epoch above all epochs that the nodes know.

    Returns the nodes whose leases are renewed until first contact, and the nodes to ask then.
    Raises FencedError if another coordinator commands the nodes.
    """
    state = service.core.state
    of_journal = [node.node_id for node in state.nodes.values() if node.spec is not None]
    addresses = {n.node_id: n.address for n in state.nodes.values() if n.duty not in FORGOTTEN}
    addresses |= {entry.node_id: entry.address for entry in config.nodes}
    nodes = take_over.AgentContacts(addresses, agent_token(config), config.command_timeout_s)
    told = await nodes.ask()
    known = take_over.LastWriter(
        epoch=state.epoch,
        instance=state.instance or journal.get_meta(IDENTITY) or "",
        last_number=journal.last_number,
    )
    lacks = take_over.lacking(known, told)
    epoch = take_over.next_epoch(told, orders.first_epoch)
    accepted = orders.moved or orders.accept_loss or 1 < orders.first_epoch == epoch
    if lacks and not accepted:
        raise take_over.refusal(lacks)
    if orders.moved and (unanswered := take_over.unanswered(of_journal, told)):
        # Unanswering nodes may obey the replaced coordinator, and it may have begun epochs since.
        lacks = lacks or unanswered
        epoch = Epoch(max(epoch, state.epoch + LEAP))
    lost = _lost(journal, service.core, lacks)
    held = _start_epoch(config, service, holder, budget, epoch, lost)
    journal.put_meta(IDENTITY, state.instance)
    header = common_pb2.CommandHeader(
        epoch=state.epoch,
        coordinator_id=state.instance,
        cause="start",
        journal_number=journal.synced_number,
    )
    await nodes.take_first(told, header)
    return held, take_over.Unasked(known, () if accepted else of_journal, told)


def _start_epoch(
    config: Config,
    service: Service,
    holder: LeaseHolder,
    budget: list[ev.Event],
    first_epoch: int,
    lost: list[ev.Event],
) -> list[NodeId]:
    """Begin the new epoch. Returns the nodes whose leases are renewed until first contact."""
    state, clock = service.core.state, service.clock
    # A new budget in the configuration may need lower caps. So may an announced budget whose time
    # was moved by a step of the calendar.
    step_ns = clock.take_step_ns()
    held = [] if budget or lost or step_ns else holder.holdable(state, clock.now_ns())
    until_ns = clock.now_ns() + held_leases.hold_ns(state)
    service.start_epoch(
        ns_from_s(config.lease_s),
        ns_from_s(config.command_timeout_s),
        budget,
        first_epoch,
        before=lost,
        instance=uuid.uuid4().hex,
        held=held,
        held_ns=held_leases.hold_ns(state) if held else 0,
        calendar_step_ns=step_ns,
    )
    may = frozenset(held)

    def may_renew(node_id: NodeId) -> bool:
        here = node_id in may and clock.now_ns() < until_ns
        return here and held_leases.still_held(state, node_id)

    holder.restrict(may_renew)
    return held


def _lost(journal: Journal, core: CoordinatorCore, lacks: str) -> list[ev.Event]:
    """Return the event for missing events: unknown jobs, epochs and caps may exist."""
    lost, state = journal.loss, core.state
    if lost is None and not lacks:
        return []
    missing = lost.events if lost else 0
    event = ev.JournalRestored(
        epoch=Epoch(state.epoch + missing + LEAP),
        submissions=state.submissions + missing,
        because="the journal has lost events",
        caps_unknown=True,
    )
    if lost is not None:
        log.error(line("journal_loss_accepted", missing=lost.events, text=loss_text(lost)))
        return [event]
    log.error(line("took_over", reason=lacks))
    return [
        replace(
            event,
            epoch=state.epoch,
            submissions=state.submissions + LEAP,
            because="another coordinator commanded the nodes",
        )
    ]
