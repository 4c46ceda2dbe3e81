"""Small clusters and jobs for tests: shortcuts for the simulator."""

from __future__ import annotations

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import NodeId, ZoneName
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.model.node import Curve, NodeSpec, Zone, ZoneKind
from wattfold.coordinator.core.model.node_power import SleepSettings
from wattfold.coordinator.core.model.plan import Policy
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.simulator.messages import driver
from wattfold.simulator.messages.faults import Faults
from wattfold.simulator.messages.restarts import RestartTimes
from wattfold.simulator.messages.work import Work

__all__ = ["GPU_W", "PACKAGE", "Cluster", "Faults", "S", "W", "node_spec"]

S = 1_000_000_000
W = 1_000_000
PACKAGE = ZoneName("package-0")
WINDOW_NS = S // 4
CURVE = Curve(a=1.5, b=4.0, c=8.0, f_low_ghz=1.2, f_high_ghz=2.6)


GPU_W = 6
"""Charge of each GPU of a node, unless its job has a lower level."""


def node_spec(name: str, cores: int = 4, base_w: int = 10, gpus: int = 0) -> NodeSpec:
    ids = tuple(f"GPU-g{index}" for index in range(gpus))
    return NodeSpec(
        node_id=NodeId(name),
        cpus=CpuSet.of(range(cores)),
        zones=(
            Zone(
                name=PACKAGE,
                kind=ZoneKind.PACKAGE,
                cap_uw_min=9 * W,
                cap_uw_max=45 * W,
                floor_uw=9 * W,
                window_ns=WINDOW_NS,
            ),
            *(
                Zone(
                    name=ZoneName(gpu.replace("GPU", "gpu")),
                    kind=ZoneKind.GPU,
                    cap_uw_min=3 * W,
                    cap_uw_max=GPU_W * W,
                    floor_uw=3 * W,
                    window_ns=WINDOW_NS,
                )
                for gpu in ids
            ),
        ),
        gpus=ids,
        base_power_uw=base_w * W,
        curve=CURVE,
    )


class Cluster(driver.SimulatedCluster):
    """A cluster whose jobs name their run time on one core, in seconds, in their command."""

    def __init__(
        self,
        specs: list[NodeSpec],
        policy: Policy,
        budget_uw: int,
        seed: int = 0,
        faults: Faults | None = None,
        restarts: RestartTimes = RestartTimes(),  # noqa: B008 - immutable
        contact_ns: int = 0,
        sleep: SleepSettings = SleepSettings(),  # noqa: B008 - immutable
    ) -> None:
        options = driver.ClusterOptions(
            seed=seed,
            faults=faults or Faults(),
            restarts=restarts,
            settings=CoreSettings(check_every=1, sleep=sleep),
            contact_ns=contact_ns,
        )
        super().__init__(specs, policy, budget_uw, options)

    def go(self, job_id: str, spec: JobSpec, held: bool = False) -> None:
        """Submit a job whose second word is its run time on one core, s."""
        run_ns = max(int(spec.argv[1]) * S // spec.size_max, 1)
        self.submit(job_id, spec, Work(run_ns=run_ns, asked_cores=spec.size_max), held)
