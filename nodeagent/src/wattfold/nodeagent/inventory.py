"""Inventory: the constant facts of a node, as the agent reports them."""

from __future__ import annotations

import socket
import uuid

from wattfold.nodeagent.adapters import host, wire
from wattfold.nodeagent.adapters.config import Config
from wattfold.nodeagent.adapters.jobs.cpuset import MaskControl
from wattfold.nodeagent.adapters.jobs.throttle import ThrottleMechanism
from wattfold.nodeagent.node_emulation import Emulation
from wattfold.v1 import node_agent_pb2 as pb


def inventory_message(
    config: Config, boot_id: str, masks: MaskControl, emulation: Emulation | None
) -> pb.Inventory:
    """Return the facts of this node. The caller adds its GPUs, memory limits and steps."""
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


def _throttle_number(emulation: Emulation | None) -> pb.ThrottleMechanism:
    if emulation is None:
        return pb.THROTTLE_MECHANISM_HARDWARE
    if emulation.throttle.mechanism is ThrottleMechanism.CPU_BANDWIDTH:
        return pb.THROTTLE_MECHANISM_CPU_BANDWIDTH
    return pb.THROTTLE_MECHANISM_SIGNALS
