"""`wattfold-agent`: creates all objects of the agent and runs it until a signal stops it."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path

import grpc

from wattfold.contract.keep_alive import SERVER_OPTIONS
from wattfold.contract.repeats import Repeats
from wattfold.contract.topology import Topology
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import host, service_manager, wire
from wattfold.nodeagent.adapters.call_checks import BodyCheck, TokenCheck
from wattfold.nodeagent.adapters.config import Config, load
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.connection_limit import CONNECTIONS_MAX, ConnectionLimit
from wattfold.nodeagent.adapters.devices.gpu_search import Gpus, any_gpus, find_gpus
from wattfold.nodeagent.adapters.devices.hsmp import with_hsmp
from wattfold.nodeagent.adapters.devices.msr import MsrRanges
from wattfold.nodeagent.adapters.devices.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.devices.zone_search import discover
from wattfold.nodeagent.adapters.grpc_service import Changes, NodeAgentService
from wattfold.nodeagent.adapters.jobs import capabilities
from wattfold.nodeagent.adapters.jobs.adopt_listener import AdoptListener
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.cpuset import MaskMechanism, choose_masks
from wattfold.nodeagent.adapters.jobs.gpu_access import choose_access
from wattfold.nodeagent.adapters.jobs.job_groups import choose_groups
from wattfold.nodeagent.adapters.jobs.memory_limits import choose_memory_limits
from wattfold.nodeagent.adapters.jobs.step_folders import StepFolders, remote_shell
from wattfold.nodeagent.adapters.jobs.step_groups import StepGroups
from wattfold.nodeagent.adapters.jobs.step_listener import StepListener
from wattfold.nodeagent.adapters.jobs.throttle import ThrottleMechanism
from wattfold.nodeagent.adapters.locks import check_unused, lock_folder
from wattfold.nodeagent.adapters.state_store import StateDirError, StateStore, private_folder
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.gpus import NodeGpu, common_model
from wattfold.nodeagent.inventory import inventory_message
from wattfold.nodeagent.node_emulation import Emulation, emulate, emulated_machine
from wattfold.nodeagent.service.jobs.accounting import Accounting, AccountingRules
from wattfold.nodeagent.service.jobs.jobs import NodeJobs
from wattfold.nodeagent.service.jobs.launching import JobPorts
from wattfold.nodeagent.service.power.guarding import Guarding
from wattfold.nodeagent.service.power.power import NodePower
from wattfold.nodeagent.service.power.sampling import sample_for_ever
from wattfold.v1 import node_agent_pb2_grpc

EXIT_USAGE = 2
EXIT_FAILED = 1
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
_STOP_GRACE_S = 0.5
_KILL_GRACE_S = 10.0


def main() -> None:
    """Run the command."""
    if sys.argv[1:2] in (["check"], ["restore"]):
        # Not imported by an agent that serves.
        command = importlib.import_module(f"wattfold.nodeagent.{sys.argv[1]}")
        sys.exit(command.main(sys.argv[2:]))
    try:
        config = load(sys.argv[1:])
    except ConfigError as error:
        print(f"wattfold-agent: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    logs.start_logging()
    try:
        capabilities.drop(gpus=_has_gpus(config))
        asyncio.run(run(config))
    except (StateDirError, OSError, Refused, RuntimeError, ValueError) as error:
        logs.warning("agent_failed", reason=error)
        print(f"wattfold-agent: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


async def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT, then stop in order."""
    stop = asyncio.Event()
    manager = service_manager.here()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _refuse_reload)
    files_soft_max = host.raise_file_limit()
    _make_run_dir(config.run_dir)
    # Held until the process ends, because gRPC removes its socket in this folder later.
    lock_folder(config.run_dir, "set another run_dir")
    store = StateStore(config.state_dir)
    _lock_zones(config)
    masks = choose_masks(config.cgroup_root, config.group, config.cpus, config.masks)
    clock = CpuClock(
        config.cgroup_root,
        config.group,
        use_cgroups=masks.mechanism is not MaskMechanism.AFFINITY,
    )
    groups = choose_groups(config.cgroup_root, config.group, config.job_groups, config.pids_max)
    memory = choose_memory_limits(config.cgroup_root, config.group, config.memory_limits)
    emulation = emulate(config, clock)
    machine = emulated_machine(config)
    changes = Changes()
    boot_id = host.boot_id()
    files: ZoneFiles = RealFiles(config.powercap_root, stamped=emulation is not None)
    if not emulation and not machine:
        files = with_hsmp(files)
    gpus = find_gpus().in_threads() if config.gpus else None
    if gpus:
        files = gpus.joined_to(files)
    zones = discover(
        files,
        config.ranges,
        ranges=None if emulation or machine else MsrRanges(),
    )
    guarding = Guarding(store)
    # Limits of an emulated machine end with it, even if this host keeps running.
    limits_id = f"{boot_id}/{machine.instance}" if machine else boot_id
    power = NodePower(zones, store, limits_id, changes.notify, guarding)
    capped = sum(not state.zone.cannot_cap for state in power.zones.values())
    if not capped:
        logs.warning(
            "no_power_zones",
            root=config.powercap_root,
            means="this agent enforces no cap; `wattfold-agent check` gives the reasons",
        )
    power.start()
    node_gpus = _node_gpus(config, gpus)
    access = choose_access(config.cgroup_root, config.group, config.gpu.access, node_gpus)
    ports = JobPorts(
        store=store,
        masks=masks,
        groups=groups,
        clock=clock,
        firmware=emulation.firmware if emulation else None,
        boot_id=boot_id,
        shim_library=config.omp_shim,
        files_soft_max=files_soft_max,
        steps=StepFolders(config.run_dir),
        node_id=config.node_id,
        remote_shell=remote_shell(),
        topology=Topology.of(host.topology(config.cpus)),
        memory=memory,
        gpus=node_gpus,
        gpu_names=config.gpu.names,
        gpu_access=access,
        slurm=StepGroups(config.cgroup_root),
    )
    jobs = NodeJobs(config.cpus, ports, config.run_dir / "shims", changes.notify)
    jobs.start()
    if emulation:
        emulation.firmware.start()
    await _start_guard(guarding, power, emulation)
    rules = AccountingRules(
        idle_uw=config.package_idle_uw * power.packages(),
        cpus=len(config.cpus),
        alarm=config.residual_alarm,
    )
    accounting = Accounting(jobs, power, clock, rules, changes.notify, node_gpus)
    accounting.adopted()
    jobs.masks.before_change = accounting.mask_changes
    jobs.ends.before_end = lambda: accounting.sample(force=True)
    steps = StepListener(ports.steps.hand_over)
    inventory = inventory_message(config, boot_id, masks, emulation)
    inventory.gpus.extend(gpu.id for gpu in node_gpus)
    if node_gpus:
        inventory.gpu_access = wire.GPU_ACCESS[access.mechanism]
    inventory.gpu_model = config.gpu.model or common_model(node_gpus)
    inventory.memory_mechanism = wire.MEMORY[memory.mechanism]
    slurm = AdoptListener(config.run_dir / "adopt.sock", jobs.adopted.answer)
    inventory.adopts_slurm = config.adopt_slurm and _listens(slurm)
    if config.steps_listen:
        inventory.steps_address = _listen_for_steps(steps, config.steps_listen)
    service = NodeAgentService(inventory, power, jobs, accounting, changes)
    server, address = await _serve(config, service)
    background = [
        asyncio.create_task(sample_for_ever(power, accounting.is_idle)),
        asyncio.create_task(_account_for_ever(accounting)),
        asyncio.create_task(manager.reassure_for_ever()),
    ]
    if not address.startswith("unix:"):
        background.append(asyncio.create_task(ConnectionLimit(address).look_for_ever()))
    if config.metrics_file is not None:
        metrics = _metrics(config.metrics_file, config, power, jobs)
        background.append(asyncio.create_task(metrics))
    manager.ready()
    print(f"ready node={config.node_id} capped_zones={capped} listen={address}", flush=True)
    await stop.wait()
    manager.stopping()
    logs.info("stopping", kill_jobs=config.kill_jobs_on_exit)
    await server.stop(_STOP_GRACE_S)
    if config.kill_jobs_on_exit:
        await jobs.orders.end_all(_KILL_GRACE_S)
    else:
        await jobs.orders.settle()
    for task in background:
        task.cancel()
    slurm.close()
    steps.close()
    jobs.stop()
    accounting.close()
    await _leave_safe(config, power, guarding, emulation)
    if gpus:
        gpus.close()
    if machine:
        machine.stop()
    masks.close()
    clock.close()
    groups.close()
    memory.close()
    access.close()
    store.close()


def _refuse_reload() -> None:
    logs.warning(
        "reload_refused",
        reason="the agent reads its configuration only at its start",
        means="all settings stay as they were; restart the agent, jobs continue",
    )


async def _leave_safe(
    config: Config, power: NodePower, guarding: Guarding, emulation: Emulation | None
) -> None:
    """Leave the node at its floor, or with its original limits if configured."""
    reached = power.stop()
    if not reached:
        logs.warning("floor_not_reached", reason="the guard keeps trying")
    restoring = config.restore_on_stop and not power.left
    if restoring:
        zones = power.zones.values()
        from wattfold.nodeagent import restore

        may_draw = restore.may_draw_text(zones, power.originals, config.base_power_uw)
        logs.warning("limits_restored_on_stop", effect=f"{may_draw}, even above the budget")
        power.restore()
    if emulation:
        emulation.firmware.stop(slowed=not restoring)
        emulation.throttle.close()
    await guarding.stop(at_floor=reached or restoring)
    if restoring:
        # Not earlier: a guard whose agent is killed meanwhile sets the floor again, and the next
        # agent must not mistake the floor for the original limits.
        power.originals.forget()


async def _start_guard(guarding: Guarding, power: NodePower, emulation: Emulation | None) -> None:
    if emulation is None:
        await guarding.start(power.floor_writes)
        return
    if emulation.throttle.mechanism is ThrottleMechanism.SIGNALS:
        logs.warning(
            "guard_cannot_slow_jobs",
            reason="the agent slows jobs with signals: without the agent they run at full speed",
        )
    firmware = emulation.firmware

    def writes() -> list[tuple[Path, str]]:
        caps_uw = (power.floor_uw(ZoneKind.PACKAGE), power.floor_uw(ZoneKind.DRAM))
        # All emulated GPUs are identical.
        gpu_uw = power.floor_uw(ZoneKind.GPU) // max(1, power.count(ZoneKind.GPU))
        return [*power.floor_writes(), *firmware.floor_writes(*caps_uw, gpu_uw)]

    firmware.jobs_changed, firmware.job_gone = guarding.refresh, guarding.refresh_soon
    await guarding.start(writes)


async def _account_for_ever(accounting: Accounting) -> None:
    repeats = Repeats()
    while True:
        await accounting.until_due()
        try:
            accounting.sample()
        except OSError as error:
            if count := repeats.one_more("accounting", time.monotonic()):
                logs.warning("accounting_failed", reason=error, times=count)


def _metrics(
    path: Path, config: Config, power: NodePower, jobs: NodeJobs
) -> Coroutine[None, None, None]:
    # The library is optional, and its import takes as long as that of the agent.
    from wattfold.nodeagent.adapters.metrics.textfile import MetricsFile, NodeFacts

    facts = NodeFacts(
        node_id=config.node_id,
        base_uw=config.base_power_uw,
        emulated=config.emulation is not None or config.fixture is not None,
    )
    return MetricsFile(path, facts, power, jobs).write_for_ever(config.metrics_interval_s)


def _make_run_dir(path: Path) -> None:
    private_folder(path)
    # Jobs of other accounts pass through to their shim sockets, but cannot list the folder.
    path.chmod(0o711 if os.geteuid() == 0 else 0o700)


def _lock_zones(config: Config) -> None:
    """Lock the zones against a second agent. A fixture is mounted by its own agent."""
    if config.emulation is not None:
        config.powercap_root.mkdir(parents=True, exist_ok=True)
    elif config.fixture is not None or not config.powercap_root.is_dir():
        return
    lock_folder(config.powercap_root, "set another powercap_root")


def _node_gpus(config: Config, found: Gpus | None) -> tuple[NodeGpu, ...]:
    """Return the GPUs for jobs: emulated GPUs, or listed GPUs, or else the GPUs found."""
    if config.gpu.emulated is not None:
        return config.gpu.emulated.gpus()
    return config.gpu.listed or (found.gpus() if found else ())


def _has_gpus(config: Config) -> bool:
    """Whether the agent may have to limit GPUs or deny them to jobs."""
    given = config.gpu.listed or config.gpu.emulated is not None
    return bool(given or (config.gpus and any_gpus()))


def _listens(slurm: AdoptListener) -> bool:
    """Whether Slurm's plugin can reach this agent. Caps and other jobs must not wait for it."""
    try:
        slurm.start()
    except OSError as error:
        logs.warning("adoption_not_started", reason=error)
        return False
    return True


def _listen_for_steps(steps: StepListener, listen: str) -> str:
    """Return the address for steps; empty if it is not available.

    Caps must not wait for it. Without it, only jobs that start steps are refused.
    """
    try:
        return steps.start(listen, open_to_all=os.geteuid() == 0)
    except OSError as error:
        logs.warning("step_listener_not_started", listen=listen, reason=error)
        return ""


async def _serve(config: Config, service: NodeAgentService) -> tuple[grpc.aio.Server, str]:
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.so_reuseport", 0),
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
        *SERVER_OPTIONS,
    ]
    checks = [TokenCheck(config.token)] if config.token else []
    server = grpc.aio.server(
        interceptors=[*checks, BodyCheck()], options=options, maximum_concurrent_rpcs=256
    )
    node_agent_pb2_grpc.add_NodeAgentServicer_to_server(service, server)
    if config.listen.startswith("unix:"):
        path = Path(config.listen.removeprefix("unix:"))
        if path.parent != config.run_dir:
            private_folder(path.parent)
        check_unused(path)
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            server.add_insecure_port(config.listen)
        finally:
            os.umask(before)
        address = config.listen
    else:
        port = server.add_insecure_port(config.listen)
        address = f"{config.listen.rpartition(':')[0]}:{port}"
    await server.start()
    return server, address


if __name__ == "__main__":
    main()
