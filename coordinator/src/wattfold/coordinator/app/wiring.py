"""The objects of a running coordinator, and the connections between them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from wattfold.contract.ids import NodeId
from wattfold.contract.log_text import line
from wattfold.contract.units import ns_from_s
from wattfold.coordinator.adapters.agents import take_over
from wattfold.coordinator.adapters.agents.agents import Agents
from wattfold.coordinator.adapters.agents.calls import FencedError, Hooks
from wattfold.coordinator.adapters.agents.first_answers import first_answers
from wattfold.coordinator.adapters.agents.own_lag import OwnLag
from wattfold.coordinator.adapters.agents.step_keys import step_keys
from wattfold.coordinator.adapters.budget_alarm import BudgetAlarm
from wattfold.coordinator.adapters.clock import CalendarWatch
from wattfold.coordinator.adapters.config.settings import Config
from wattfold.coordinator.adapters.copies.checkpoints import BesideTheLoop
from wattfold.coordinator.adapters.copies.outlook_views import ViewInputs
from wattfold.coordinator.adapters.copies.picture_feed import PictureFeed
from wattfold.coordinator.adapters.copies.pictures import loaded
from wattfold.coordinator.adapters.copies.replica_feed import ReplicaFeed, for_planning, whole
from wattfold.coordinator.adapters.door.access_settings import Access
from wattfold.coordinator.adapters.door.api import CoordinatorApi
from wattfold.coordinator.adapters.door.serving import StartError, open_server
from wattfold.coordinator.adapters.emergencies import Emergencies, EmergencyFile
from wattfold.coordinator.adapters.history.desk import HistoryDesk
from wattfold.coordinator.adapters.history.file import NAME as HISTORY
from wattfold.coordinator.adapters.history.recorder import HistoryRecorder
from wattfold.coordinator.adapters.journal.journal import Journal
from wattfold.coordinator.adapters.learning.epochs import EpochReporter
from wattfold.coordinator.adapters.learning.observations import NodeSample, Observations
from wattfold.coordinator.adapters.learning.profiles import Lesson, ProgressLearner, fit_lesson
from wattfold.coordinator.adapters.learning.residual import AlarmLog
from wattfold.coordinator.adapters.learning.wishes import WishReporter
from wattfold.coordinator.adapters.mail.mailer import Mailer
from wattfold.coordinator.adapters.metrics.opening import open_metrics
from wattfold.coordinator.adapters.node_power.programs import PowerPrograms
from wattfold.coordinator.adapters.placing import placing
from wattfold.coordinator.adapters.planning import Planner
from wattfold.coordinator.adapters.recorder import Recorder
from wattfold.coordinator.adapters.reloading import Reloader
from wattfold.coordinator.adapters.requests.budgets import AnnouncedLog
from wattfold.coordinator.adapters.resource_manager.admission import Admission
from wattfold.coordinator.adapters.resource_manager.comments import Commenter
from wattfold.coordinator.adapters.resource_manager.slurm import Slurm
from wattfold.coordinator.adapters.resource_manager.watch import ManagerWatch
from wattfold.coordinator.adapters.service import Service
from wattfold.coordinator.app.connections import listen_address, members
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.model.resource_manager import SLURM
from wattfold.coordinator.policies.driver.warm_up import warm_up
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

EXIT_FENCED = 5
WORKER_START_S = 60.0
FIT_DEADLINE_S = 10.0
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


async def wire(
    config: Config,
    access: Access,
    journal: Journal,
    service: Service,
    seen: Observations,
    record: Path | None,
    stopped: asyncio.Future[int],
    stack: contextlib.AsyncExitStack,
    held: Collection[NodeId],
    unasked: take_over.Unasked,
    read: Callable[[], Config],
) -> tuple[Reloader, BesideTheLoop]:
    """Create all objects, serve callers and contact the agents. ``stack`` closes the objects.

    ``read`` reads the configuration again.
    """
    worker, planner = await _start_planner(config, service, seen, stack)
    viewer, pictures, checkpoints = await _start_views(
        config, planner, journal, service, seen, stack
    )
    history = await _start_history(config, planner, journal, service, stack)
    agents = Agents()
    stack.push_async_callback(agents.close)
    programs = PowerPrograms(config.power, service.post)
    stack.push_async_callback(programs.close)
    service.performers = dict.fromkeys(COMMANDS, agents) | {
        act.Solve: planner,
        act.SwitchPower: programs,
    }
    service.contact_anew = agents.contact_anew
    emergencies = Emergencies(
        service,
        config.emergency.order,
        lambda: _settle_ns(config, service),
        ns_from_s(config.command_timeout_s),
        ns_from_s(config.term_grace_s),
    )
    _follow_emergencies(config.emergency.file, emergencies, stopped, stack)
    api = CoordinatorApi(
        service,
        seen,
        pictures,
        history,
        lambda: _settle_ns(config, service),
        emergencies,
        config.limits,
        lambda: planner.policy.name,
        access.rules,
        agents.signal,
        agents.open_shell,
    )
    api.switches_power = config.power.configured
    api.sends_mail = bool(config.mail.program)
    if config.mail.program:
        mailer = Mailer(config.mail, service.clock, lambda: service.core.state)
        stack.push_async_callback(mailer.close)
        service.followers.append(mailer.note)
    _record_changes(service, seen, record, stack)
    open_metrics(config.metrics_listen, journal, planner, pictures, seen, stack)
    await open_server(config, listen_address(config), access, api, service, stack)
    # A separate worker, so that a plan never waits for a fit. It starts with the first fit.
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
        coordinator_id=service.core.state.instance,
        fenced=lambda error: _fenced(stopped, error),
        step_key=step_keys(config.state_dir),
        launch_data=service.launch_data,
        journal_number=lambda: journal.synced_number,
        ask_first=unasked.ask,
    )
    lag = OwnLag(service.clock.now_ns)
    lag.start()
    stack.callback(lag.stop)
    budget_alarm = BudgetAlarm(service.clock.now_ns)
    calendar = CalendarWatch(service.clock, service.post)
    calendar.start()
    stack.callback(calendar.stop)
    announced_log = AnnouncedLog(service.clock)
    service.listeners.append(lambda: budget_alarm.look(service.core.state))
    service.listeners.append(lambda: announced_log.look(service.core.state))
    nodes = members(config, service, agents, hooks, lag)
    nodes.follow_queues(config.queues)
    nodes.follow_accounts(config.accounts)
    nodes.follow_ramp(config.ramp)
    nodes.follow_manager(SLURM if config.slurm else "")
    # Nodes with running leases come first: each of the others costs a timeout if it is off.
    nodes.follow(config.nodes, first=held)
    planner.placing = lambda: placing(config.placement, nodes.places())
    api.use_price(config.energy_price)
    reloader = Reloader(config, read, nodes, planner, api.use_price)
    stack.push_async_callback(reloader.close)
    api.reload = reloader.reload
    runner = asyncio.create_task(service.run())
    runner.add_done_callback(lambda task: _died(stopped, task))
    stack.callback(runner.cancel)
    # The agents are in contact by now. "ready" also means that the first plan and the first view
    # need not wait. On a busy machine this took longer than the timeout of commands.
    await worker.call(len, "", deadline_s=WORKER_START_S)
    await viewer.call(loaded, deadline_s=WORKER_START_S)
    _watch_slurm(config, service, stopped, stack)
    if await first_answers(agents, service, stopped):
        print(
            f"ready listen={listen_address(config)} budget_w={_budget_w(service):.1f}", flush=True
        )
    return reloader, checkpoints


async def _start_planner(
    config: Config, service: Service, seen: Observations, stack: contextlib.AsyncExitStack
) -> tuple[SolverWorker, Planner]:
    warmed = functools.partial(warm_up, config.policy)
    worker = await stack.enter_async_context(SolverWorker(warm_up=warmed))
    worker.start()
    feed = ReplicaFeed(worker, lambda: service.core.state, for_planning)
    service.followers.append(feed.note)

    async def load(policy: Policy) -> None:
        worker.warm_up = functools.partial(warm_up, policy)
        await feed.between(warm_up, policy, deadline_s=WORKER_START_S)

    planner = Planner(
        config.policy,
        feed,
        service.clock.now_ns,
        lambda: dict(seen.residual),
        service.post,
        config.solver_deadline_s,
        load,
        config.policy_settings,
    )
    stack.push_async_callback(planner.close)
    return worker, planner


async def _start_views(
    config: Config,
    planner: Planner,
    journal: Journal,
    service: Service,
    seen: Observations,
    stack: contextlib.AsyncExitStack,
) -> tuple[SolverWorker, PictureFeed, BesideTheLoop]:
    """Start the worker that makes the views and the checkpoints of the state.

    It runs at a lower priority than the process that renews leases.
    """
    worker = await stack.enter_async_context(SolverWorker(warm_up=step_back))
    worker.start()
    feed = ReplicaFeed(worker, lambda: service.core.state, whole)
    service.followers.append(feed.note)
    configured_uw = config.budget_uw or 0

    site_settings = config.planning_settings

    def setting() -> ViewInputs:
        return ViewInputs(
            clock=service.clock,
            policy=planner.policy,
            configured_uw=configured_uw,
            planning=(*planner.settings, *site_settings),
        )

    pictures = PictureFeed(feed, seen, setting)
    stack.push_async_callback(pictures.close)
    checkpoints = BesideTheLoop(feed, journal, service.clock, service.core.state)
    service.begin_checkpoint = checkpoints.begin
    stack.push_async_callback(checkpoints.close)
    return worker, pictures, checkpoints


async def _start_history(
    config: Config,
    planner: Planner,
    journal: Journal,
    service: Service,
    stack: contextlib.AsyncExitStack,
) -> HistoryDesk:
    """Record ended jobs. The worker for answers starts with the first request."""
    path = config.state_dir / HISTORY
    recorder = HistoryRecorder(
        path,
        journal.get_meta("origin_s") or "",
        service.clock,
        lambda: service.core.state,
        lambda: planner.policy.name,
        config.history_days,
    )
    stack.push_async_callback(recorder.close)
    service.followers.append(recorder.note)
    recorder.start()
    worker = await stack.enter_async_context(SolverWorker(warm_up=step_back))
    return HistoryDesk(worker, path, recorder)


async def _fit(worker: SolverWorker, lesson: Lesson) -> FitResult | str:
    """Fit a profile in the worker. Returns the reason if the fit is slow or fails."""
    try:
        result = await worker.call(fit_lesson, lesson, deadline_s=FIT_DEADLINE_S)
    except WorkerBusyError as error:
        return str(error)
    if isinstance(result, Success):
        found: FitResult = result.value
        return found
    return result.reason if isinstance(result, Crashed) else "no answer in time"


def _record_changes(
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


def _follow_emergencies(
    path: Path | None,
    emergencies: Emergencies,
    stopped: asyncio.Future[int],
    stack: contextlib.AsyncExitStack,
) -> None:
    if path is not None:
        follower = asyncio.create_task(EmergencyFile(path, emergencies).follow_for_ever())
        follower.add_done_callback(lambda task: _died(stopped, task))
        stack.callback(follower.cancel)


def _watch_slurm(
    config: Config,
    service: Service,
    stopped: asyncio.Future[int],
    stack: contextlib.AsyncExitStack,
) -> None:
    if config.slurm is not None:
        settings, slurm = config.slurm, Slurm(config.slurm)
        admission = None
        if settings.licence_total:
            admission = Admission(
                slurm, lambda: service.core.state, lambda: service.clock.now_ns() / 1e9
            )
        watch = ManagerWatch(
            slurm, lambda: service.core.state, service.post, settings.poll_s, admission
        )
        tasks = [watch.run()]
        if settings.comments_s:
            tasks.append(Commenter(slurm, lambda: service.core.state, settings.comments_s).run())
        for running in [asyncio.create_task(task) for task in tasks]:
            running.add_done_callback(lambda task: _died(stopped, task))
            stack.callback(running.cancel)


def _budget_w(service: Service) -> float:
    return service.core.state.ledger.budget_uw / 1e6


def _settle_ns(config: Config, service: Service) -> int:
    """Return the maximum time to lower every cap: a command, its averaging window, and a retry."""
    windows = [
        zone.window_ns
        for node in service.core.state.nodes.values()
        if node.spec
        for zone in node.spec.zones
    ]
    return ns_from_s(config.command_timeout_s) + max(windows, default=0)


def stop(stopped: asyncio.Future[int], code: int) -> None:
    """End the coordinator with this exit status, unless it already ends."""
    if not stopped.done():
        stopped.set_result(code)


def _fenced(stopped: asyncio.Future[int], error: FencedError) -> None:
    log.critical(line("fenced", reason=error))
    stop(stopped, EXIT_FENCED)


def _died(stopped: asyncio.Future[int], task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None and not stopped.done():
        stopped.set_exception(task.exception() or RuntimeError("the core stopped"))
