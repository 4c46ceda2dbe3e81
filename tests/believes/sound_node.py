"""What a node tells that does as it should: messages of an agent for tests to change."""

from __future__ import annotations

from wattfold.v1 import common_pb2
from wattfold.v1 import node_agent_pb2 as agent_pb

W, S = 1_000_000, 1_000_000_000


def inventory(node_id: str = "n0") -> agent_pb.Inventory:
    """A node of four cores in two packages, with memory, a GPU and a zone of each kind."""
    kinds = {"package-0": 1, "package-1": 1, "dram-0": 2, "psys": 3, "gpu-GPU-a": 4}
    return agent_pb.Inventory(
        node_id=node_id,
        cpus="0-3",
        topology=[
            agent_pb.Cpu(cpu=cpu, core=cpu, package=cpu // 2, numa_node=cpu // 2)
            for cpu in range(4)
        ],
        memory_bytes=1 << 34,
        zones=[
            agent_pb.PowerZone(
                name=name,
                kind=kind,  # type: ignore[arg-type]
                cap_uw_min=10 * W,
                cap_uw_max=60 * W,
                floor_uw=10 * W,
                cap_uw=10 * W,
                window_ns=S // 100,
                can_cap=True,
                can_measure=True,
            )
            for name, kind in kinds.items()
        ],
        base_power_uw=5 * W,
        emulated=True,
        model=agent_pb.FrequencyPowerModel(a=2.6, b=8.4, c=13, f_low_ghz=1.2, f_high_ghz=2),
        mask_mechanism=agent_pb.MASK_MECHANISM_CPUSET_V2,
        throttle_mechanism=agent_pb.THROTTLE_MECHANISM_HARDWARE,
        gpus=["GPU-a"],
        features=["ib"],
        memory_mechanism=agent_pb.MEMORY_MECHANISM_CGROUP_V2,
        gpu_model="V100",
        gpu_access=agent_pb.GPU_ACCESS_CGROUP_V2,
    )


def process(job_id: str = "1") -> agent_pb.ProcessInfo:
    """A process that runs."""
    return agent_pb.ProcessInfo(
        job_id=job_id,
        pid=100,
        state=agent_pb.PROCESS_STATE_RUNNING,
        cpus="0-1",
        mode=common_pb2.RESIZE_MODE_MASK,
        attempt=1,
    )


def telemetry() -> agent_pb.Telemetry:
    """What a node with a job tells every second."""
    zone = agent_pb.ZonePower(
        name="package-0", power_uw=20 * W, energy_uj=W, cap_uw=30 * W, valid=True
    )
    usage = agent_pb.JobUsage(
        job_id="1",
        cpus="0-1",
        cpu_ns=S,
        energy_uj=W,
        progress=common_pb2.Progress(regions=10, done=1, total=10),
        residual_cores=[agent_pb.CoreResidual(cpu=3, cpu_ns=1, load=0.5)],
        processor_map=b"\1\1",
        processors=[agent_pb.ProcessorElement(pe=0, enabled=True)],
        gpu_uses=[agent_pb.GpuUse(gpu="GPU-a", power_uw=W)],
    )
    ended = agent_pb.ProcessInfo(job_id="2", state=agent_pb.PROCESS_STATE_ENDED, attempt=1)
    power = agent_pb.NodePower(source=agent_pb.NodePower.SOURCE_PSYS, power_uw=30 * W)
    return agent_pb.Telemetry(
        node_id="n0", uptime_ns=S, interval_ns=S, zones=[zone], jobs=[usage], ended=[ended],
        node_power=power,
    )  # fmt: skip
