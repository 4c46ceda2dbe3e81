"""Emulated power zones and GPUs of a node, as the configuration states them."""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.nodeagent.adapters.config import Config
from wattfold.nodeagent.adapters.devices.emulated_gpus import EmulatedGpus
from wattfold.nodeagent.adapters.devices.emulated_zones import EmulatedFirmware, EmulatedTree
from wattfold.nodeagent.adapters.devices.tree_process import TreeProcess
from wattfold.nodeagent.adapters.jobs.cpu_time import CpuClock
from wattfold.nodeagent.adapters.jobs.throttle import Throttle, choose_throttle
from wattfold.nodeagent.core.emulation_model import EmulationModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """Parts of an emulated node that run until the agent stops."""

    firmware: EmulatedFirmware
    model: EmulationModel
    throttle: Throttle


def emulate(config: Config, clock: CpuClock) -> Emulation | None:
    """Create the emulated zones and GPUs; None without the option."""
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
    return Emulation(firmware=firmware, model=model, throttle=throttle)


def emulated_machine(config: Config) -> TreeProcess | None:
    """Start the power zones of another machine as files; None without the option."""
    if config.fixture is None:
        return None
    record = config.run_dir / "powercap-tree.json"
    machine = TreeProcess(config.fixture.path, config.powercap_root, record)
    machine.start()
    return machine
