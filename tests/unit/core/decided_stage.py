"""A stage whose plans decide which nodes sleep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unit.core.sleep_settings import S, W
from unit.core.stage import BASE_W, FLOOR_W, MAX_W, NODES, Stage, job_spec, planning_round

from wattfold.contract.ids import NodeId
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model import actions as act
from wattfold.coordinator.core.model import events as ev
from wattfold.coordinator.core.model import reports
from wattfold.coordinator.core.model.jobs.spec import JobKind
from wattfold.coordinator.core.model.node_power import PowerState, SleepSettings
from wattfold.coordinator.core.model.plan import Plan
from wattfold.coordinator.core.state.state import CoreSettings
from wattfold.coordinator.policies import registry
from wattfold.coordinator.policies.driver.node_sleep import with_sleep

IDLE_W, FULL_W, ASLEEP_W, BOOT_W, BOOT_S = BASE_W + FLOOR_W, BASE_W + MAX_W, 4, 40, 180
SLEEP = SleepSettings(
    asleep_uw=ASLEEP_W * W,
    boot_uw=BOOT_W * W,
    boot_ns=BOOT_S * S,
    suspend_ns=60 * S,
    boots_max=2,
    decides=True,
    awake_min_ns=300 * S,
)
AWAKE, FALLING, ASLEEP = PowerState.AWAKE, PowerState.FALLING, PowerState.ASLEEP
CALLED, BOOTING = PowerState.CALLED, PowerState.BOOTING


class Decided(Stage):
    """A stage with a policy, whose nodes obey each order at once unless a test says otherwise."""

    def __init__(
        self, budget_w: float, nodes: int, policy: str = "fifo-easy", **settings: Any
    ) -> None:
        super().__init__(budget_w, start=False)
        sleep = replace(SLEEP, **settings)
        self.core = CoordinatorCore(round(budget_w * W), CoreSettings(check_every=1, sleep=sleep))
        found = registry.find(policy)
        assert found is not None
        self.policy: Any = found.service({})
        self.start()
        self.up(*(f"n{index}" for index in range(nodes)))
        self.now_ns = 1000 * S

    @property
    def powers(self) -> list[PowerState]:
        return [node.power for node in self.core.state.nodes.values()]

    def awake(self, *names: str) -> None:
        """Check which nodes are awake."""
        found = {str(n.node_id) for n in self.core.state.nodes.values() if n.power is AWAKE}
        assert found == set(names)

    def decide(self) -> Plan:
        """Plan until nothing changes any more. Nodes that fall asleep do so at once."""
        last = Plan(assignments=())
        for _ in range(10):
            self.need_plan()
            world = self.core.snapshot(self.now_ns)
            plan = self.policy.propose(world, self.now_ns, 5.0)
            last = with_sleep(plan, world, self.core.state, self.now_ns)
            self.send(ev.PlanProposed(plan=last, round=planning_round(self.core.state.solving)))
            fell = self.fall_asleep()
            if not (fell or last.power.wakes):
                return last
        raise AssertionError("the plans do not come to rest")

    def fall_asleep(self) -> bool:
        falling = [n for n in self.core.state.nodes.values() if n.power is FALLING]
        for node in falling:
            if node.reachable:
                self.silent(node.node_id)
            self.switched(node.node_id)
        return bool(falling)

    def switched(self, name: str, error: str = "") -> list[act.Action]:
        request = self.core.state.nodes[NodeId(name)].power_request
        assert request
        return self.send(
            reports.PowerAnswered(node_id=NodeId(name), request_id=request, error=error)
        )

    def power(self, name: str) -> PowerState:
        return self.core.state.nodes[NodeId(name)].power

    def boot(self, name: str) -> None:
        assert self.power(name) is BOOTING
        self.switched(name)
        self.connect(name)
        self.leased(name)

    def whole(self, job: str, nodes: int = 1, estimate_s: float = 600, **fields: Any) -> None:
        spec = job_spec(
            nodes,
            nodes,
            unit=NODES,
            kind=JobKind.RIGID,
            exclusive=True,
            limit_ns=round(estimate_s * S),
            **fields,
        )
        self.submit(job, spec)

    def runs(self, job: str) -> None:
        """Confirm the launch and the caps of a job."""
        for node_id in list(self.job(job).ranks):
            self.launched(node_id, job)
        for node_id in self.job(job).ranks:
            account = self.core.state.ledger.accounts[node_id].zones
            if any(zone.pending_uw is not None for zone in account.values()):
                self.confirm(node_id)
