"""`power`: the budget, the committed power and the measured power."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from wattfold.contract.local_time import moment
from wattfold.contract.units import eur_text, w_from_uw
from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.texts import formatting as f
from wattfold.coordinator.cli.shared.texts.json_documents import numbered
from wattfold.coordinator.cli.shared.texts.message_json import as_dict
from wattfold.coordinator.cli.shared.texts.tables import Cell, FieldTable, Styled, field_table
from wattfold.v1 import coordinator_pb2 as pb

if TYPE_CHECKING:
    from rich.text import Text

_BAR_CELLS = 28
_NEXT = 8
"""Maximum number of announced budgets next to other values."""
REPLACED = "replaced by `wattfold budget` until the configuration has another value"


@click.command()
@session_command
def power(session: Session) -> None:
    """Show committed and measured power against the budget."""
    with session.connect() as client:
        answer = client.power()
    if session.json:
        session.print_json(numbered("power", as_dict(answer)))
    else:
        session.print(_power_sheet(answer))


def outside(answer: pb.Power) -> str:
    """Describe the power outside the ledger and its nodes."""
    nodes = list(answer.outside_node_ids)
    more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
    text = f"outside the ledger {f.power(answer.outside_uw)} ({', '.join(nodes[:5])}{more})"
    if answer.outside_accepted_uw:
        text += f", {f.power(answer.outside_accepted_uw)} of it accepted"
    return text


def is_late(answer: pb.Power) -> bool:
    """Whether the sum is above the budget and no lowered budget still has time."""
    lowered = answer.pending_budget_uw == answer.budget_uw and not answer.outside_uw
    in_time = lowered and answer.pending_deadline_s > time.time()
    return bool(answer.over_uw) and not in_time


def excess(answer: pb.Power) -> str:
    """Describe by how much the sum is above the budget, and why."""
    return f"over the budget by {f.power(answer.over_uw)}: {answer.over_reason}"


def outside_fields(answer: pb.Power) -> list[tuple[str, Cell]]:
    """Return the excess over the budget and the power of nodes outside the ledger, as fields."""
    fields: list[tuple[str, Cell]] = []
    if answer.over_uw:
        style = "bold red" if is_late(answer) else "yellow"
        text = excess(answer).removeprefix("over the budget ")
        fields.append(("over budget", Styled(text, style)))
    if answer.outside_uw:
        style = "bold red" if answer.over_uw else "yellow"
        fields.append(
            ("outside", Styled(outside(answer).removeprefix("outside the ledger "), style))
        )
    if answer.unheard_node_ids:
        names = ", ".join(answer.unheard_node_ids[:5])
        fields.append(("never contacted", f"{names} (power unknown)"))
    return fields


def pending(answer: pb.Power) -> str:
    """Describe the pending lower budget, its deadline and the committed power."""
    by = f.clock(answer.pending_deadline_s)
    return (
        f"{f.power(answer.pending_budget_uw)} by {by}; "
        f"{f.power(answer.committed_uw)} is committed now"
    )


def _power_sheet(answer: pb.Power) -> FieldTable:
    from rich.text import Text

    from wattfold.coordinator.cli.shared.texts.power_bar import power_bar

    bars = {
        name: Text.assemble(
            f"{f.power(value_uw):>10}  ",
            power_bar(value_uw, answer.budget_uw, _BAR_CELLS, style),
            f" {share(value_uw, answer.budget_uw)}",
        )
        for name, value_uw, style in (
            ("committed", answer.committed_uw, "cyan"),
            ("measured", answer.measured_uw, "green"),
        )
    }
    fields: list[tuple[str, Cell]] = [
        ("budget", f"{f.power(answer.budget_uw):>10}"),
        *bars.items(),
        ("highest committed", f"{f.power(answer.committed_uw_peak):>10}"),
        ("highest measured", f"{f.power(answer.measured_uw_peak):>10}"),
        ("floor", f"{f.power(answer.floor_uw):>10}"),
        ("energy", f"{f.energy(answer.energy_uj):>10}"),
        ("policy", f"{answer.policy or f.NONE:>10}"),
    ]
    configured_uw = answer.configured_budget_uw
    if configured_uw and configured_uw != answer.budget_uw:
        fields.insert(1, ("configured", f"{f.power(configured_uw):>10}  {REPLACED}"))
    if answer.planner:
        fields.append(("planner", Styled(answer.planner, "bold yellow")))
    if answer.emulated_nodes:
        emulated = f"{answer.emulated_nodes} of {answer.known_nodes} nodes; their power is not real"
        fields.append(("emulated", emulated))
    if answer.pending_budget_uw:
        fields.insert(1, ("pending budget", pending(answer)))
    if answer.HasField("emergency"):
        # The module of the command imports this one.
        from wattfold.coordinator.cli.site.emergency import emergency_text

        fields.insert(1, ("emergency", emergency_text(answer.emergency)))
    fields += announced_fields(answer)
    if answer.HasField("ramp"):
        fields.append(("ramp limit", _ramp(answer.ramp)))
    if answer.decides_sleep or answer.asleep_nodes or answer.booting_nodes:
        fields.append(("sleep", _sleep(answer)))
    if manager := manager_text(answer):
        style = "" if answer.manager.reachable else "bold yellow"
        fields.append((answer.manager.name, Styled(manager, style)))
    if answer.due_jobs:
        fields.append(("due dates", _due(answer)))
    if answer.gpus:
        owned = f"{answer.gpus_owned} of {answer.gpus} in use"
        fields.append(("GPUs", f"{owned}, {f.power(answer.gpus_uw)} above their floors"))
    if answer.levelled_jobs:
        fields.append(("DRAM and GPU caps", _levels(answer)))
    return field_table(fields + outside_fields(answer))


def manager_text(answer: pb.Power) -> str:
    """Describe the resource manager that owns the jobs; empty if there is none."""
    manager = answer.manager
    if not manager.name:
        return ""
    jobs = (
        f"{manager.running_jobs} running jobs ({manager.adopted_jobs} adopted), "
        f"{manager.waiting_jobs} waiting"
    )
    if manager.reachable:
        return jobs
    return f"no answer since {f.clock(manager.since_s)}: {manager.reason}; {jobs}"


def asleep_count(answer: pb.Power) -> str:
    """Return how many nodes sleep and boot; empty if none does."""
    if not (answer.asleep_nodes or answer.booting_nodes):
        return ""
    text = f"{answer.asleep_nodes} of {answer.known_nodes} nodes asleep"
    return text + (f", {answer.booting_nodes} boot" if answer.booting_nodes else "")


def _sleep(answer: pb.Power) -> str:
    """Return how many nodes sleep and boot, and who decides that."""
    text = asleep_count(answer) or f"0 of {answer.known_nodes} nodes asleep"
    kept = f"; {answer.kept_awake_nodes} without jobs stay awake" if answer.kept_awake_nodes else ""
    return f"{text}; {'plans' if answer.decides_sleep else 'operators'} decide{kept}"


def announced_fields(answer: pb.Power) -> list[tuple[str, Cell]]:
    """Return the next announced budgets, one per field, and the number of the others."""
    fields: list[tuple[str, Cell]] = [
        (f"announced {one.number}", announced_text(one)) for one in answer.announced[:_NEXT]
    ]
    if more := len(answer.announced[_NEXT:]) + answer.announced_later:
        fields.append(("announced", f"{more} more; see `wattfold budget list`"))
    return fields


def announced_text(one: pb.AnnouncedBudget) -> Text:
    """Describe a budget, its start, the time when caps are lowered, and its obstacle."""
    from rich.text import Text

    text = Text(f"{f.power(one.budget_uw)} from {moment(one.at_s)}")
    if one.from_s < one.at_s:
        text.append(f"; caps are lowered from {f.clock(one.from_s)}")
    if one.obstacle:
        text.append(f"; NOT POSSIBLE: {one.obstacle}", "bold red")
    return text


def _ramp(ramp: pb.Ramp) -> str:
    rates = ((ramp.rise_uw_per_s, "up"), (ramp.fall_uw_per_s, "down"))
    text = ", ".join(f"{f.power(rate)}/s {way}" for rate, way in rates if rate)
    text += f", {f.power(ramp.step_uw)} at once"
    if ramp.waiting_uw:
        text += f"; {f.power(ramp.free_uw)} now, {f.power(ramp.waiting_uw)} more"
        text += f" by {f.clock(ramp.until_s)}"
    return text


def _due(answer: pb.Power) -> str:
    """Describe the jobs with due dates, and the sums of their costs."""
    jobs = f"{answer.due_jobs} job{'s' * (answer.due_jobs != 1)}, {answer.late_jobs} late"
    if not (answer.due_so_far_eur or answer.due_to_come_eur):
        return jobs
    so_far, to_come = eur_text(answer.due_so_far_eur), eur_text(answer.due_to_come_eur)
    return f"{jobs}; {so_far} so far, {to_come} more expected"


def _levels(answer: pb.Power) -> str:
    """Describe how far jobs move DRAM caps from the default and GPU caps below the maximum."""
    parts = [
        f"{name} {w_from_uw(beyond_uw):+.1f} W"
        for name, beyond_uw in (("DRAM", answer.dram_beyond_uw), ("GPUs", answer.gpu_beyond_uw))
        if beyond_uw
    ]
    jobs = f"{answer.levelled_jobs} job{'s' if answer.levelled_jobs > 1 else ''}"
    return f"{', '.join(parts) or 'unchanged'} ({jobs})"


def share(value_uw: int, budget_uw: int) -> str:
    """Return a power in percent of the budget."""
    return f"{value_uw / budget_uw * 100:3.0f}%" if budget_uw else f.NONE
