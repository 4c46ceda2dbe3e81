"""`wattfold what-if`: the queue of this moment, simulated as it is and with a change."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from wattfold.coordinator.cli.shared.connection.session import Session, session_command
from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError, NotFoundError
from wattfold.coordinator.cli.shared.parsed import Parsed
from wattfold.coordinator.cli.shared.parsing import MAX_SIZE, POWER_UW
from wattfold.coordinator.cli.simulation.policy_settings import (
    SETTING,
    GivenSetting,
    of_policy,
    refuse_unmeant,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wattfold.coordinator.cli.simulation.site_queue.site_reading import SiteReading
    from wattfold.coordinator.core.model.plan import Policy
    from wattfold.simulator.runs.queue_run import QueueRun
    from wattfold.simulator.runs.site_queue import SiteQueue

SHOWN = 20


def parse_service_policy(text: str) -> str:
    """Return a policy of the service by any of its names. Raises ValueError."""
    from wattfold.coordinator.policies import registry

    entry = registry.find(text)
    if entry is None or entry.variant.service is None:
        known = ", ".join(registry.service_names())
        raise ValueError(f"no policy of the coordinator: {text!r}; choose one of {known}")
    return entry.variant.name


def parse_node_change(text: str) -> int:
    """Parse `+8` or `-2`. Raises ValueError."""
    match = re.fullmatch(r"([+-])(\d{1,7})", text.strip())
    count = int(match[2]) if match else 0
    if match is None or not 1 <= count <= MAX_SIZE:
        raise ValueError(f"not a change of nodes: {text!r}; expected for example +8 or -2")
    return count if match[1] == "+" else -count


SERVICE_POLICY = Parsed("policy", parse_service_policy)
NODE_CHANGE = Parsed("nodes", parse_node_change)


@click.command("what-if")
@click.option(
    "--budget",
    "budget_uw",
    type=POWER_UW,
    metavar="WATTS",
    help="Power budget from now on, such as 90kW. Announced budgets stay.",
)
@click.option(
    "--policy",
    type=SERVICE_POLICY,
    metavar="NAME",
    help="Policy from now on (see `wattfold policies`), with the settings of --set.",
)
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    metavar="POLICY.KEY=VALUE",
    help="Setting of the policy of the change, such as parm.alpha=0.5. May be repeated.",
)
@click.option(
    "--nodes",
    "node_change",
    type=NODE_CHANGE,
    metavar="+N|-N",
    help="Nodes that are added, as most nodes are, or that take no new jobs.",
)
@click.option("--job", "job_id", metavar="JOB", help="Show only this job.")
@click.option(
    "--price",
    type=click.FloatRange(0, 1000),
    metavar="EUR",
    help="Price of a kWh, for the cost of the energy. Default: no cost is shown.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=SHOWN,
    show_default=True,
    help="Maximum number of listed jobs, those with the largest differences first.",
)
@session_command
def what_if(
    session: Session,
    budget_uw: int | None,
    policy: str | None,
    settings: tuple[GivenSetting, ...],
    node_change: int | None,
    job_id: str | None,
    price: float | None,
    limit: int,
) -> None:
    """Simulate the queue with another budget, policy or nodes.

    The command reads the state of the coordinator and changes nothing. It simulates all jobs to
    their ends twice: as it is, and with the change. Both runs use the scheduling code of the
    coordinator. WITH THE CHANGE shows when each waiting job would start.

    \b
    wattfold what-if --budget 90kW
    wattfold what-if --policy parm-wse --set parm.alpha=0.5 --nodes -2
    """
    if budget_uw is None and policy is None and node_change is None and not settings:
        raise BadRequestError("no change is given; add --budget, --policy, --set or --nodes")
    # The simulator and its packages load slowly.
    from wattfold.coordinator.cli.simulation.site_queue.site_reading import ask, read_site
    from wattfold.coordinator.cli.simulation.site_queue.what_if_report import Report

    with session.connect() as client:
        reading = read_site(ask(client))
    if job_id is not None and job_id not in {job.job_id for job in reading.jobs}:
        raise NotFoundError(f"no job {job_id!r} runs or waits; see `wattfold queue`")
    before = site_policy(reading)
    after = before
    if policy is not None or settings:
        after = changed_policy(reading, policy, settings)
    queue = changed_queue(reading, budget_uw, node_change)
    runs = _run(session, reading.queue, before, queue, after)
    report = Report(reading=reading, changed=queue, runs=runs, price=price)
    if session.json:
        session.print_json(report.document(job_id))
    elif job_id is not None:
        session.print(report.job_sheet(job_id))
        _print_notes(reading, runs)
    else:
        session.print(report.summary())
        if report.waiting:
            click.echo()
            session.print(report.job_table(limit))
            if len(report.waiting) > limit:
                click.echo(f"{len(report.waiting) - limit} more waiting jobs; --limit lists more.")
        _print_notes(reading, runs)


def _print_notes(reading: SiteReading, runs: tuple[QueueRun, QueueRun]) -> None:
    from wattfold.coordinator.cli.simulation.site_queue.what_if_report import run_notes

    click.echo()
    for note in (*reading.notes, *run_notes(runs)):
        click.echo(note)


def site_policy(reading: SiteReading) -> Policy:
    """Return the active policy of the site. Raises CliError if it cannot be made here."""
    from wattfold.coordinator.policies import registry
    from wattfold.coordinator.policies.description import SettingError, Value

    entry = registry.find(reading.policy)
    if entry is None:
        raise CliError(
            f"this version does not know the policy {reading.policy!r} of the coordinator"
        )
    values: dict[str, Value] = {}
    try:
        for path, text in reading.settings:
            key = path.removeprefix(f"{entry.family.name}.")
            setting = entry.family.setting(key)
            if setting is None:
                raise CliError(f"this version does not know the setting {path} of the coordinator")
            values[key] = setting.parse(text)
        return entry.service(values)
    except SettingError as error:
        raise CliError(f"the policy of the coordinator cannot be simulated here: {error}") from None


def changed_policy(
    reading: SiteReading, policy: str | None, settings: tuple[GivenSetting, ...]
) -> Policy:
    """Return the policy of the change. Raises BadRequestError for a wrong setting.

    Policies of the same family keep the settings of the site.
    """
    from wattfold.coordinator.policies import registry
    from wattfold.coordinator.policies.description import SettingError

    name = policy or reading.policy
    refuse_unmeant(settings, (name,))
    entry = registry.find(name)
    if entry is None:
        raise CliError(f"this version does not know the policy {name!r} of the coordinator")
    start = f"{entry.family.name}."
    stated = {k.removeprefix(start): v for k, v in reading.settings if k.startswith(start)}
    try:
        known = {
            setting.key: setting.parse(stated[setting.key])
            for setting in entry.family.settings
            if setting.key in stated
        }
        return entry.service({**known, **dict(of_policy(name, settings))})
    except SettingError as error:
        raise BadRequestError(f"{name}: {error}") from None


def changed_queue(
    reading: SiteReading, budget_uw: int | None, node_change: int | None
) -> SiteQueue:
    """Return the queue with another budget and other nodes. Raises BadRequestError."""
    from wattfold.simulator.runs.site_queue import with_nodes

    queue = reading.queue
    if budget_uw is not None:
        queue = replace(queue, budget_uw=queue.budget_uw + budget_uw - reading.site_budget_uw)
    try:
        if node_change is not None:
            queue = with_nodes(queue, node_change)
        queue.check()
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    return queue


def _run(
    session: Session, queue: SiteQueue, before: Policy, changed: SiteQueue, after: Policy
) -> tuple[QueueRun, QueueRun]:
    """Run both queues. Raises CliError for a queue that cannot be simulated."""
    from wattfold.coordinator.cli.simulation.runs.simulate_outcome import progress_bar
    from wattfold.simulator.runs.queue_run import run_queue

    runs = []
    with progress_bar(session) as bar:
        cases = (("as it is", queue, before), ("with the change", changed, after))
        for title, jobs, policy in cases:
            task = bar.add_task(title, total=len(jobs.jobs))
            try:
                runs.append(run_queue(jobs, policy, partial(_show, bar, task)))
            except ValueError as error:
                raise CliError(f"{title}: {error}") from error
            _show(bar, task, len(jobs.jobs))
    return runs[0], runs[1]


def _show(bar: Progress, task: TaskID, ended: int) -> None:
    bar.update(task, completed=ended)
