"""wattfold-agent: wires the agent of a node together and runs it until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import socket
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import grpc

from wattfold.contract.topology import Topology
from wattfold.nodeagent import logs
from wattfold.nodeagent.adapters import host, service_manager, wire
from wattfold.nodeagent.adapters.config import Config, load
from wattfold.nodeagent.adapters.config_error import ConfigError
from wattfold.nodeagent.adapters.cpu_time import CpuClock
from wattfold.nodeagent.adapters.cpuset import MaskControl, MaskMechanism, choose_masks
from wattfold.nodeagent.adapters.emulated_gpus import EmulatedGpus
from wattfold.nodeagent.adapters.emulated_zones import EmulatedFirmware, EmulatedTree
from wattfold.nodeagent.adapters.gpu_access import choose_access
from wattfold.nodeagent.adapters.gpu_search import Gpus, find_gpus
from wattfold.nodeagent.adapters.grpc_service import Changes, NodeAgentService, TokenCheck
from wattfold.nodeagent.adapters.hsmp import with_hsmp
from wattfold.nodeagent.adapters.job_groups import choose_groups
from wattfold.nodeagent.adapters.memory_limits import choose_memory_limits
from wattfold.nodeagent.adapters.msr import MsrRanges
from wattfold.nodeagent.adapters.powercap import discover
from wattfold.nodeagent.adapters.powercap_files import RealFiles, ZoneFiles
from wattfold.nodeagent.adapters.state_store import StateDirError, StateStore, private_folder
from wattfold.nodeagent.adapters.step_folders import StepFolders, remote_shell
from wattfold.nodeagent.adapters.step_listener import StepListener
from wattfold.nodeagent.adapters.throttle import Throttle, ThrottleMechanism, choose_throttle
from wattfold.nodeagent.adapters.tree_process import TreeProcess
from wattfold.nodeagent.core.caps import ZoneKind
from wattfold.nodeagent.core.emulation_model import EmulationModel
from wattfold.nodeagent.core.errors import Refused
from wattfold.nodeagent.core.gpus import NodeGpu, common_model
from wattfold.nodeagent.service.accounting import Accounting, AccountingRules
from wattfold.nodeagent.service.guarding import Guarding
from wattfold.nodeagent.service.jobs import NodeJobs
from wattfold.nodeagent.service.launching import JobPorts
from wattfold.nodeagent.service.power import NodePower, sample_for_ever
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

EXIT_USAGE = 2
EXIT_FAILED = 1
MESSAGE_BYTES_MAX = 4 * 1024 * 1024
_STOP_GRACE_S = 0.5
_KILL_GRACE_S = 10.0


def main() -> None:
    """Entry point of the command."""
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
        asyncio.run(run(config))
    except (StateDirError, OSError, Refused, RuntimeError, ValueError) as error:
        logs.warning("agent_failed", error=error)
        print(f"wattfold-agent: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Emulation:
    firmware: EmulatedFirmware
    model: EmulationModel
    throttle: Throttle


async def run(config: Config) -> None:
    """Serves until SIGTERM or SIGINT, then stops in order."""
    stop = asyncio.Event()
    manager = service_manager.here()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    files_soft_max = host.raise_file_limit()
    _make_run_dir(config.run_dir)
    store = StateStore(config.state_dir)
    masks = choose_masks(config.cgroup_root, config.group, config.cpus, config.masks)
    clock = CpuClock(
        config.cgroup_root,
        config.group,
        use_cgroups=masks.mechanism is not MaskMechanism.AFFINITY,
    )
    groups = choose_groups(config.cgroup_root, config.group, config.job_groups, config.pids_max)
    memory = choose_memory_limits(config.cgroup_root, config.group, config.memory_limits)
    emulation = _emulate(config, clock)
    machine = _emulated_machine(config)
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
    # Limits do not outlive an emulated machine, however long this host has been up.
    limits_id = f"{boot_id}/{machine.instance}" if machine else boot_id
    power = NodePower(zones, store, limits_id, changes.notify, guarding)
    if not power.zones:
        logs.warning("no_power_zones", root=config.powercap_root)
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
    inventory = _inventory(config, boot_id, masks, emulation)
    inventory.gpus.extend(gpu.id for gpu in node_gpus)
    if node_gpus:
        inventory.gpu_access = wire.GPU_ACCESS[access.mechanism]
    inventory.gpu_model = config.gpu.model or common_model(node_gpus)
    inventory.memory_mechanism = wire.MEMORY[memory.mechanism]
    if config.steps_listen:
        inventory.steps_address = _listen_for_steps(steps, config.steps_listen)
    service = NodeAgentService(inventory, power, jobs, accounting, changes)
    server, address = await _serve(config, service)
    background = [
        asyncio.create_task(sample_for_ever(power)),
        asyncio.create_task(_account_for_ever(accounting)),
        asyncio.create_task(manager.reassure_for_ever()),
    ]
    manager.ready()
    print(f"ready node={config.node_id} listen={address}", flush=True)
    await stop.wait()
    manager.stopping()
    logs.info("stopping", kill_jobs=config.kill_jobs_on_exit)
    await server.stop(_STOP_GRACE_S)
    if config.kill_jobs_on_exit:
        await jobs.orders.end_all(_KILL_GRACE_S)
    for task in background:
        task.cancel()
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
    _remove_socket(config.listen)
    store.close()


async def _leave_safe(
    config: Config, power: NodePower, guarding: Guarding, emulation: _Emulation | None
) -> None:
    """Leaves the node at its floor, or with its original limits where somebody asked for that."""
    reached = power.stop()
    if not reached:
        logs.warning("floor_not_reached", why="the guard keeps trying")
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
        # Not before: a guard whose agent is killed meanwhile goes to the floor again, and the next
        # agent must not take that for what was there first.
        power.originals.forget()


async def _start_guard(guarding: Guarding, power: NodePower, emulation: _Emulation | None) -> None:
    if emulation is None:
        await guarding.start(power.floor_writes)
        return
    if emulation.throttle.mechanism is ThrottleMechanism.SIGNALS:
        logs.warning(
            "guard_cannot_slow_jobs",
            why="the agent slows jobs with signals: without the agent they run at full speed",
        )
    firmware = emulation.firmware

    def writes() -> list[tuple[Path, str]]:
        caps_uw = (power.floor_uw(ZoneKind.PACKAGE), power.floor_uw(ZoneKind.DRAM))
        # All emulated GPUs are alike.
        gpu_uw = power.floor_uw(ZoneKind.GPU) // max(1, power.count(ZoneKind.GPU))
        return [*power.floor_writes(), *firmware.floor_writes(*caps_uw, gpu_uw)]

    firmware.jobs_changed = guarding.refresh
    await guarding.start(writes)


async def _account_for_ever(accounting: Accounting) -> None:
    while True:
        await asyncio.sleep(accounting.wait_s())
        try:
            accounting.sample()
        except OSError as error:
            logs.warning("accounting_failed", why=error)


def _make_run_dir(path: Path) -> None:
    private_folder(path)
    # Jobs of other accounts reach their shim sockets in it; they cannot list the folder.
    path.chmod(0o711 if os.geteuid() == 0 else 0o700)


def _emulate(config: Config, clock: CpuClock) -> _Emulation | None:
    given = config.emulation
    if given is None:
        return None
    model = EmulationModel(
        a=given.a,
        b=given.b,
        c=given.c,
        f_low_ghz=given.f_low_ghz,
        f_high_ghz=given.f_high_ghz,
        dram_idle_w=given.dram_idle_w,
        dram_dynamic_w=given.dram_dynamic_w,
        cpu_share=given.cpu_share,
        cores=len(config.cpus),
    )
    throttle = choose_throttle(
        config.cgroup_root, config.group, given.throttle, config.state_dir / "jobs"
    )
    tree = EmulatedTree(config.powercap_root, given.zones)
    spec = config.gpu.emulated
    gpus = EmulatedGpus(config.powercap_root, spec) if spec else None
    firmware = EmulatedFirmware(tree, model, throttle, clock, gpus)
    return _Emulation(firmware=firmware, model=model, throttle=throttle)


def _node_gpus(config: Config, found: Gpus | None) -> tuple[NodeGpu, ...]:
    """The GPUs jobs may have: emulated ones, those listed, else those that were found."""
    if config.gpu.emulated is not None:
        return config.gpu.emulated.gpus()
    return config.gpu.listed or (found.gpus() if found else ())


def _emulated_machine(config: Config) -> TreeProcess | None:
    if config.fixture is None:
        return None
    record = config.run_dir / "powercap-tree.json"
    machine = TreeProcess(config.fixture.path, config.powercap_root, record)
    machine.start()
    return machine


def _inventory(
    config: Config, boot_id: str, masks: MaskControl, emulation: _Emulation | None
) -> pb.Inventory:
    from importlib import metadata

    answer = pb.Inventory(
        node_id=config.node_id,
        hostname=socket.gethostname(),
        boot_id=boot_id,
        agent_version=metadata.version("wattfold"),
        agent_instance=uuid.uuid4().hex,
        cpus=str(config.cpus),
        topology=[
            wire.cpu_message(place, host.core_id(place.cpu)) for place in host.topology(config.cpus)
        ],
        isolated_cpus=str(host.isolated_cpus()),
        offline_cpus=str(host.offline_cpus()),
        memory_bytes=config.memory_bytes,
        features=config.features,
        base_power_uw=config.base_power_uw,
        emulated=emulation is not None or config.fixture is not None,
        mask_mechanism=wire.MASKS[masks.mechanism],
        throttle_mechanism=_throttle_number(emulation),
    )
    if emulation:
        model = emulation.model
        answer.model.CopyFrom(
            pb.FrequencyPowerModel(
                a=model.a,
                b=model.b,
                c=model.c,
                f_low_ghz=model.f_low_ghz,
                f_high_ghz=model.f_high_ghz,
            )
        )
    return answer


def _listen_for_steps(steps: StepListener, listen: str) -> str:
    """The address where steps are asked for; empty where that one cannot be had.

    Caps do not wait for it: only jobs that start steps are refused then.
    """
    try:
        return steps.start(listen, open_to_all=os.geteuid() == 0)
    except OSError as error:
        logs.warning("step_listener_not_started", listen=listen, why=error)
        return ""


def _throttle_number(emulation: _Emulation | None) -> pb.ThrottleMechanism:
    if emulation is None:
        return pb.THROTTLE_MECHANISM_HARDWARE
    if emulation.throttle.mechanism is ThrottleMechanism.CPU_BANDWIDTH:
        return pb.THROTTLE_MECHANISM_CPU_BANDWIDTH
    return pb.THROTTLE_MECHANISM_SIGNALS


async def _serve(config: Config, service: NodeAgentService) -> tuple[grpc.aio.Server, str]:
    options = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.so_reuseport", 0),
    ]
    checks = [TokenCheck(config.token)] if config.token else []
    server = grpc.aio.server(interceptors=checks, options=options, maximum_concurrent_rpcs=256)
    node_agent_pb2_grpc.add_NodeAgentServicer_to_server(service, server)
    if config.listen.startswith("unix:"):
        path = Path(config.listen.removeprefix("unix:"))
        if path.parent != config.run_dir:
            private_folder(path.parent)
        _remove_socket(config.listen)
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


def _remove_socket(listen: str) -> None:
    # The lock on the state folder says that no other agent of this node is alive.
    if listen.startswith("unix:"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(listen.removeprefix("unix:"))


if __name__ == "__main__":
    main()
