"""`wattfold-coordinator`: the only place where core, policy and adapters are wired together."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.adapters import channels
from wattfold.coordinator.adapters.access_settings import (
    Access,
    AccessError,
    looked_up,
)
from wattfold.coordinator.adapters.agent_calls import AgentSettings, FencedError, Hooks
from wattfold.coordinator.adapters.agent_link import AgentLink
from wattfold.coordinator.adapters.agents import Agents
from wattfold.coordinator.adapters.api import CoordinatorApi
from wattfold.coordinator.adapters.budgets import AnnouncedLog
from wattfold.coordinator.adapters.checkpoints import BesideTheLoop
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.config import Config, ConfigError, load
from wattfold.coordinator.adapters.epochs import EpochReporter
from wattfold.coordinator.adapters.journal import Journal, JournalError
from wattfold.coordinator.adapters.learning import Lesson, ProgressLearner, fit_lesson
from wattfold.coordinator.adapters.logs import start_logging
from wattfold.coordinator.adapters.membership import Membership, Reloader
from wattfold.coordinator.adapters.node_views import OutsideLog
from wattfold.coordinator.adapters.observations import NodeSample, Observations
from wattfold.coordinator.adapters.own_lag import OwnLag
from wattfold.coordinator.adapters.picture_feed import PictureFeed
from wattfold.coordinator.adapters.pictures import Setting, loaded
from wattfold.coordinator.adapters.placing import placing
from wattfold.coordinator.adapters.planning import Planner
from wattfold.coordinator.adapters.recorder import Recorder
from wattfold.coordinator.adapters.replica_feed import ReplicaFeed, for_planning, whole
from wattfold.coordinator.adapters.residual import AlarmLog
from wattfold.coordinator.adapters.service import Service, replay
from wattfold.coordinator.adapters.serving import (
    StartError,
    check_settings,
    make_private,
    open_server,
)
from wattfold.coordinator.adapters.step_keys import StepSecretError, step_keys
from wattfold.coordinator.adapters.wishes import WishReporter
from wattfold.coordinator.cli.shared.address import default_address
from wattfold.coordinator.cli.site.maintenance import JOURNAL, backup, restore_command
from wattfold.coordinator.core import actions as act
from wattfold.coordinator.core import events as ev
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.state import CoreSettings
from wattfold.coordinator.models.forecast import METHODS
from wattfold.coordinator.policies import registry
from wattfold.coordinator.solvers.worker import (
    Crashed,
    SolverWorker,
    Success,
    WorkerBusyError,
    step_back,
)

if TYPE_CHECKING:
    from wattfold.coordinator.models.fitting import FitResult

log = logging.getLogger("wattfold.coordinator")

EXIT_CONFIG = 2
EXIT_FENCED = 5
WORKER_START_S = 60.0
FIT_DEADLINE_S = 10.0
LAST_CHECKPOINT_S = 40.0
"""Before a service manager loses patience; without it the next start replays."""
COMMANDS = (
    act.SetCaps,
    act.Leave,
    act.SetMask,
    act.Launch,
    act.Terminate,
    act.Suspend,
    act.ForgetProcess,
    act.RenewLease,
)


@click.group(invoke_without_command=True)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with the settings.")
@click.option("--listen", help="Address to listen on: unix:/path (default) or host:port.")
@click.option("--state-dir", help="Directory of the journal.")
@click.option(
    "--budget-w",
    type=float,
    help="Power budget in watts. Later changes with `wattfold budget` persist.",
)
@click.option(
    "--policy",
    help=f"Scheduling policy: {', '.join(registry.service_names())}. See `wattfold policies`.",
)
@click.option(
    "--predict", help=f"Source of run times for planning: {', '.join(METHODS)}. Default: user."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="ID=ADDRESS", help="Agent of a node; may be repeated."
)
@click.option(
    "--lease-s",
    type=float,
    help="Duration of a lease in seconds. Without renewal, caps fall to the floor after it.",
)
@click.option(
    "--token-file", help="File with the token that clients must send over TCP (mode 0600)."
)
@click.option("--token-account", metavar="NAME", help="Account of clients that send this token.")
@click.option("--agent-token-file", help="File with the token that the agents require (mode 0600).")
@click.option(
    "--first-epoch",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Minimum epoch of this start, for a new journal with nodes of an earlier coordinator.",
)
@click.option(
    "--record", type=click.Path(path_type=Path), help="Record power and cores in this file."
)
@click.option("--verbose", is_flag=True, help="Log planning rounds as well.")
@click.version_option(package_name="wattfold")
@click.pass_context
def main(
    context: click.Context,
    /,
    config: Path | None,
    record: Path | None,
    first_epoch: int,
    verbose: bool,
    nodes: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run the coordinator: assign nodes, cores and watts to jobs within one power budget."""
    if context.invoked_subcommand is not None:
        context.obj = {"config": config, "state_dir": flags["state_dir"]}
        return
    start_logging(verbose)
    given = {key: value for key, value in flags.items() if value is not None}
    if nodes:
        given["nodes"] = list(nodes)
    try:
        # A reload before it serves is nothing to die of.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        read = functools.partial(load, config, given)
        sys.exit(asyncio.run(_serve(read, record, first_epoch)))
    except (
        ConfigError,
        StartError,
        JournalError,
        StepSecretError,
        AccessError,
        channels.TokenError,
    ) as error:
        click.echo(f"wattfold-coordinator: {error}", err=True)
        sys.exit(EXIT_CONFIG)


main.add_command(backup)
main.add_command(restore_command)


async def _serve(read: Callable[[], Config], record: Path | None, first_epoch: int) -> int:
    """Runs until a signal or a newer coordinator ends it; returns the exit status."""
    config = read()
    access = looked_up(config.access)
    check_settings(config, _address(config))
    make_private(config.state_dir)
    journal = Journal(config.state_dir / JOURNAL, kept_requests=config.audit_entries)
    origin = journal.get_meta("origin_s")
    clock = Clock(float(origin) if origin else None, journal.last_time_ns)
    journal.put_meta("origin_s", repr(clock.origin_s))
    core = _core(config, journal, clock.origin_s)
    service = Service(core, journal, clock)
    seen = Observations(peak_uw=int(journal.get_meta("measured_peak_uw") or 0))
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(journal.close)
        stack.callback(lambda: journal.put_meta("measured_peak_uw", str(seen.peak_uw)))
        budget = _configured_budget(config, journal, core)
        service.start_epoch(
            ns_from_s(config.lease_s),
            ns_from_s(config.command_timeout_s),
            budget,
            first_epoch,
        )
        members, checkpoints, planner = await _wire(
            config, access, journal, service, seen, record, stopped, stack
        )
        reloader = Reloader(config, read, members, planner)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.reload)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, _stop, stopped, 0)
        code = await stopped
        if code == 0:
            await _last_checkpoint(checkpoints)
        return code


async def _last_checkpoint(checkpoints: BesideTheLoop) -> None:
    """Stores the state, so that the next start need not replay; a second signal gives that up.

    All else goes on meanwhile: leases are renewed until the end, so that a restart costs no cap.
    """
    making = asyncio.create_task(checkpoints.last())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, making.cancel)
    await asyncio.wait([making], timeout=LAST_CHECKPOINT_S)
    making.cancel()


def _identity(journal: Journal) -> str:
    """The identity of a journal: agents tell coordinators of the same epoch apart by it."""
    found = journal.get_meta("coordinator_id")
    if found is None:
        found = uuid.uuid4().hex
        journal.put_meta("coordinator_id", found)
    return found


def _core(config: Config, journal: Journal, origin_s: float) -> CoordinatorCore:
    """A core brought back from the journal."""
    core = CoordinatorCore(
        budget_uw=0,
        settings=CoreSettings(
            dram_cap_uw=config.dram_cap_uw, predict=config.predict, origin_s=origin_s
        ),
    )
    count = replay(journal, core)
    if count:
        log.info(line("journal_replayed", events=count, jobs=len(core.state.jobs)))
    if not core.state.ledger.budget_uw and not config.budget_uw:
        raise StartError("no power budget; give --budget-w, or budget_w in the configuration")
    return core


def _configured_budget(config: Config, journal: Journal, core: CoordinatorCore) -> list[ev.Event]:
    """The budget of the configuration counts when it is new; else the journal's stays.

    So a budget set by an operator survives restarts until somebody edits the configuration.
    """
    accepted_uw = config.accept_outside_uw
    configured = f"{config.budget_uw or ''}{f' accepts {accepted_uw}' if accepted_uw else ''}"
    if not config.budget_uw or journal.get_meta("configured_budget_uw") == configured:
        return []
    floor_uw, budget_uw = core.state.floor_uw(), config.budget_uw or 0
    if budget_uw < floor_uw:
        raise StartError(
            f"budget {budget_uw / 1e6:.1f} W is below {floor_uw / 1e6:.1f} W, the base power and "
            f"floors of the nodes in the journal; give at least {floor_uw / 1e6:.1f} W, or remove "
            "nodes first",
        )
    journal.put_meta("configured_budget_uw", configured)
    return [ev.BudgetChanged(budget_uw=budget_uw, accepted_outside_uw=accepted_uw)]


async def _wire(
    config: Config,
    access: Access,
    journal: Journal,
    service: Service,
    seen: Observations,
    record: Path | None,
    stopped: asyncio.Future[int],
    stack: contextlib.AsyncExitStack,
) -> tuple[Membership, BesideTheLoop, Planner]:
    worker, planner = await _planner(config, service, seen, stack)
    viewer, pictures, checkpoints = await _pictures(planner, journal, service, seen, stack)
    agents = Agents()
    stack.push_async_callback(agents.close)
    service.performers = dict.fromkeys(COMMANDS, agents) | {act.Solve: planner}
    api = CoordinatorApi(
        service, seen, pictures, lambda: _settle_ns(config, service), config.limits, access.rules
    )
    _listen_to_changes(service, seen, record, stack)
    await open_server(config, _address(config), access, api, service, stack)
    # Not the one that plans: a plan never waits for a fit. It starts with the first one.
    fitting = await stack.enter_async_context(SolverWorker(warm_up=step_back))
    learner = ProgressLearner(service, lambda lesson: _fit(fitting, lesson))
    stack.push_async_callback(learner.close)

    wishes, epochs = WishReporter(service), EpochReporter(service)
    alarms = AlarmLog()

    def sampled(sample: NodeSample) -> None:
        seen.take(sample)
        alarms.take(sample)
        learner.take(sample)
        wishes.take(sample)
        epochs.take(sample)
        for listener in service.listeners:
            listener()

    def gone(node_id: NodeId) -> None:
        seen.drop(node_id)
        pictures.drop(node_id)

    hooks = Hooks(
        post=service.post,
        sampled=sampled,
        heard=pictures.hear,
        gone=gone,
        epoch=lambda: service.core.state.epoch,
        coordinator_id=_identity(journal),
        fenced=lambda error: _fenced(stopped, error),
        step_key=step_keys(config.state_dir),
        launch_data=service.launch_data,
    )
    lag = OwnLag(service.clock.now_ns)
    lag.start()
    stack.callback(lag.stop)
    outside_log = OutsideLog()
    announced_log = AnnouncedLog(service.clock)
    service.listeners.append(lambda: outside_log.look(service.core.state))
    service.listeners.append(lambda: announced_log.look(service.core.state))
    members = _members(config, service, agents, hooks, lag)
    members.follow_queues(config.queues)
    members.follow(config.nodes)
    planner.placing = lambda: placing(config.placement, members.places())
    runner = asyncio.create_task(service.run())
    runner.add_done_callback(lambda task: _died(stopped, task))
    stack.callback(runner.cancel)
    # Agents are in contact by now; "ready" also says that the first plan need not wait, nor
    # the first who looks: on a busy machine that took longer than their commands wait.
    await worker.call(len, "", deadline_s=WORKER_START_S)
    await viewer.call(loaded, deadline_s=WORKER_START_S)
    print(f"ready listen={_address(config)} budget_w={_budget_w(service):.1f}", flush=True)
    return members, checkpoints, planner


async def _planner(
    config: Config, service: Service, seen: Observations, stack: contextlib.AsyncExitStack
) -> tuple[SolverWorker, Planner]:
    warm_up = getattr(config.policy, "warm_up", None)
    worker = await stack.enter_async_context(SolverWorker(warm_up=warm_up))
    feed = ReplicaFeed(worker, lambda: service.core.state, for_planning)
    service.followers.append(feed.note)
    planner = Planner(
        config.policy,
        feed,
        service.clock.now_ns,
        lambda: dict(seen.residual),
        service.post,
        config.solver_deadline_s,
    )
    stack.push_async_callback(planner.close)
    return worker, planner


async def _pictures(
    planner: Planner,
    journal: Journal,
    service: Service,
    seen: Observations,
    stack: contextlib.AsyncExitStack,
) -> tuple[SolverWorker, PictureFeed, BesideTheLoop]:
    """The process that shows people the state and writes it out for the journal.

    It gives way to the one that renews leases.
    """
    worker = await stack.enter_async_context(SolverWorker(warm_up=step_back))
    worker.start()
    feed = ReplicaFeed(worker, lambda: service.core.state, whole)
    service.followers.append(feed.note)
    pictures = PictureFeed(feed, seen, lambda: Setting(clock=service.clock, policy=planner.policy))
    stack.push_async_callback(pictures.close)
    checkpoints = BesideTheLoop(feed, journal, service.clock, service.core.state)
    service.begin_checkpoint = checkpoints.begin
    stack.push_async_callback(checkpoints.close)
    return worker, pictures, checkpoints


async def _fit(worker: SolverWorker, lesson: Lesson) -> FitResult | str:
    """Fits a profile in the worker; a slow or failed fit teaches nothing."""
    try:
        result = await worker.call(fit_lesson, lesson, deadline_s=FIT_DEADLINE_S)
    except WorkerBusyError as error:
        return str(error)
    if isinstance(result, Success):
        found: FitResult = result.value
        return found
    return result.reason if isinstance(result, Crashed) else "no answer in time"


def _listen_to_changes(
    service: Service,
    seen: Observations,
    record: Path | None,
    stack: contextlib.AsyncExitStack,
) -> None:
    if record is None:
        return
    try:
        recorder = Recorder(record, service.clock, seen)
    except OSError as error:
        raise StartError(f"cannot record to {record}: {error.strerror}") from error
    service.listeners.append(lambda: recorder.note(service.core.state))
    stack.callback(recorder.close)


def _members(
    config: Config, service: Service, agents: Agents, hooks: Hooks, lag: OwnLag
) -> Membership:
    token = channels.read_token(config.agent_token_file) if config.agent_token_file else ""
    settings = AgentSettings(
        command_timeout_s=config.command_timeout_s,
        mask_deadline_s=config.mask_deadline_s,
        map_deadline_s=config.map_deadline_s,
        term_grace_s=config.term_grace_s,
        telemetry_interval_s=config.telemetry_interval_s,
    )
    clock = service.clock
    return Membership(
        service,
        agents,
        lambda node_id, address: AgentLink(node_id, address, token, hooks, settings, clock, lag),
    )


def _address(config: Config) -> str:
    return config.listen or default_address()


def _budget_w(service: Service) -> float:
    return service.core.state.ledger.budget_uw / 1e6


def _settle_ns(config: Config, service: Service) -> int:
    """How long lowering every cap may take: a command, its averaging window, and a retry."""
    windows = [
        zone.window_ns
        for node in service.core.state.nodes.values()
        if node.spec
        for zone in node.spec.zones
    ]
    return ns_from_s(config.command_timeout_s) + max(windows, default=0)


def _stop(stopped: asyncio.Future[int], code: int) -> None:
    if not stopped.done():
        stopped.set_result(code)


def _fenced(stopped: asyncio.Future[int], error: FencedError) -> None:
    log.critical(line("fenced", reason=error))
    _stop(stopped, EXIT_FENCED)


def _died(stopped: asyncio.Future[int], task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None and not stopped.done():
        stopped.set_exception(task.exception() or RuntimeError("the core stopped"))
