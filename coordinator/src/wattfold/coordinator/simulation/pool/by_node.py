"""Holdings by node: jobs on parts of numbered nodes, of one class or several.

A decision names nodes and cores (`Parts`). Where all nodes are alike, one that only counts is taken
too, for jobs that ask for whole nodes: they get the first empty ones at the end of the instant, and
a run is then the same as on a counted pool.

A change of cores on the nodes a job has costs nothing; one of the number of its nodes moves its
data, as `models.resize_cost` has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.policies.node_parts import Parts
from wattfold.coordinator.policies.scheduler import Decision, Site
from wattfold.coordinator.simulation.pool.budget import Budget
from wattfold.coordinator.simulation.pool.errors import SimulationError
from wattfold.coordinator.simulation.pool.ground import Ground, Held
from wattfold.coordinator.simulation.pool.holdings import Nodes
from wattfold.coordinator.simulation.pool.jobs import JobTable
from wattfold.coordinator.simulation.pool.node_jobs import NodeTableJobs
from wattfold.coordinator.simulation.pool.node_machine import NodeMachine
from wattfold.coordinator.simulation.pool.part_running import PartRunning
from wattfold.coordinator.simulation.pool.part_times import Mix, NodeTimes, PartTimes
from wattfold.coordinator.simulation.pool.progress import Preemption
from wattfold.coordinator.simulation.pool.run_times import RunTimeModel
from wattfold.coordinator.simulation.pool.stocks import WHOLE, Stocks, request_of, units_on
from wattfold.coordinator.simulation.pool.training import TrainingTimes
from wattfold.coordinator.simulation.pool.windows import Windows

Caps = dict[int, tuple[int, int]]
"""By job: of its packages, and of each of its GPUs; 0 = it has none."""
FRACTIONS = 1 << 20
"""Steps in which caps are scaled down where power does not go with them in a straight line."""


class NodeHoldings:
    """What every job has of every node."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        *,
        model: RunTimeModel,
        resize_costs: bool,
        start_ns: int = 0,
        preemption: Preemption | None = None,
        times: PartTimes | None = None,
    ) -> None:
        """Times of windows count from ``start_ns``. ``times`` may take the place of ``model``."""
        times = times or _times(table, machine, model)
        self.running = PartRunning(table, machine, times, preemption)
        self.requeued: list[int] = []
        self._windows = Windows(machine, start_ns)
        self._table, self._machine = table, machine
        self._resize_costs = resize_costs
        self._ground = Ground(machine)
        self._stocks = Stocks(table, machine)
        self._held: dict[int, Held] = {}
        self._asked: dict[int, Held] = {}
        """Cores asked for by node, of jobs that do not ask for whole nodes."""
        self._unplaced: dict[int, None] = {}
        """Jobs that are to have more nodes than they are on, by count."""
        self.scaled: dict[int, int] = {}
        """Caps as decided of the jobs that have lower ones, for want of power."""
        self._gpus_scaled: dict[int, int] = {}
        """The same of their GPUs, where they have some."""
        self._jobs = NodeTableJobs(
            table,
            machine,
            self.running,
            self._ground,
            self._stocks,
            self._held,
        )

    @property
    def unused_uw(self) -> int:
        """What nodes without a job draw together."""
        classes, empty = self._machine.classes, self._ground.empty_of_kind
        return sum(one.unused_uw * count for one, count in zip(classes, empty, strict=True))

    @property
    def jobs(self) -> NodeTableJobs:
        """What schedulers may ask."""
        return self._jobs

    def site(self, spendable_uw: int) -> Site:
        """Nodes of one kind, or without one."""
        return self._machine.site(spendable_uw)

    def nodes_of(self, job: int) -> Nodes:
        """The nodes of a running job."""
        return list(self._held[job])

    def take(self, decisions: Sequence[Any], now_ns: int) -> None:
        """Starts and changes, in their order. Raises SimulationError for what cannot be."""
        moved: list[tuple[int, int, int]] = []
        running = self.running
        for decision in decisions:
            job = decision[0]
            before = running.size[job] if job in running.jobs else 0
            if isinstance(decision, Parts):
                self._by_parts(decision, now_ns)
            elif before and not decision[1]:
                self._requeue(job, now_ns)
                continue
            else:
                self._by_count(decision, now_ns)
            after = running.size[job]
            if before not in (0, after) and not running.times.trains(job):
                moved.append((job, before, after))
        if moved:
            self._move_data(moved, now_ns)

    def end(self, job: int) -> None:
        """Its part of every node is free."""
        held = self._held.pop(job)
        self._ground.vacate(job, held)
        if self._stocks.kept:
            self._stocks.take(job, [(node, -self._units(job, node)) for node in held])
        self._asked.pop(job, None)
        self._unplaced.pop(job, None)
        self.scaled.pop(job, None)
        self._gpus_scaled.pop(job, None)

    def pass_windows(self, now_ns: int) -> None:
        """Nodes go out of use, or come back; jobs that are in the way are requeued.

        A job that ends in this very instant is let end.
        """
        opened, closed = self._windows.passed(now_ns)
        ground, running = self._ground, self.running
        if closed:
            ground.bring_back(closed)
        # Of nodes that another window has out of use already nobody is in the way.
        in_the_way = {job for node in opened if node not in ground.out for job in ground.on[node]}
        for job in sorted(in_the_way):
            if running.end_as_it_is_ns(job) > now_ns:
                self._requeue(job, now_ns)
        ground.take_out(opened)

    def _requeue(self, job: int, now_ns: int) -> None:
        self.running.preempt(job, now_ns)
        self.end(job)
        self.requeued.append(job)

    def settle(self) -> None:
        """Nodes for what was decided by count, and the checks. Raises SimulationError."""
        ground, running = self._ground, self.running
        for job in self._unplaced:
            held = self._held[job]
            lacks = running.size[job] - len(held)
            nodes = ground.draw(lacks, 0)
            if len(nodes) < lacks:
                raise SimulationError(f"{lacks} empty nodes are assigned, of {len(nodes)}")
            self._add(job, dict.fromkeys(nodes, self._machine.classes[0].cores))
        self._unplaced.clear()
        ground.check()
        self._stocks.check()
        running.nodes = ground.busy
        for one, cores in zip(self._machine.classes, running.held_cores, strict=True):
            if cores > one.count * one.cores:
                raise SimulationError(
                    f"{cores} cores of class {one.name} are held, of {one.count * one.cores}"
                )

    def fit(self, power_uw: int, now_ns: int) -> None:
        """Caps as decided if jobs fit into so much above idle nodes, else scaled down alike."""
        running = self.running
        wanted, least = self._ranges()
        fixed_uw = self._power_uw(least)
        above_uw = self._power_uw(wanted) - fixed_uw
        room_uw = max(power_uw - fixed_uw, 0)
        self.scaled.clear()
        self._gpus_scaled.clear()
        caps = wanted
        if above_uw > room_uw:
            self.scaled = {job: cap_uw for job, (cap_uw, _) in wanted.items()}
            self._gpus_scaled = {job: gpu_uw for job, (_, gpu_uw) in wanted.items() if gpu_uw}
            # Like nodes have one floor and one greatest cap, so power goes with caps, but for what
            # is rounded off part by part.
            caps = _scaled(wanted, least, room_uw, above_uw)
            if len(self._machine.classes) > 1 or self._power_uw(caps) > power_uw:
                caps = self._bisected(wanted, least, power_uw)
        for job, (cap_uw, gpu_uw) in caps.items():
            if (cap_uw, gpu_uw) != (running.cap_uw[job], self._gpu_uw(job)):
                level_uw = 0 if gpu_uw == running.gpu_range_uw(job)[1] else gpu_uw
                running.change(job, running.mix[job], cap_uw, now_ns, level_uw)

    def _ranges(self) -> tuple[Caps, Caps]:
        """What running jobs have been decided to have, and the least of it."""
        running = self.running
        wanted, least = {}, {}
        for job in running.jobs:
            low_uw, high_uw = running.cap_range_uw(job)
            cap_uw = min(self.scaled.get(job, running.cap_uw[job]), high_uw)
            gpu_uw, gpu_low_uw = self._gpus_scaled.get(job) or self._gpu_uw(job), 0
            if gpu_uw:
                gpu_low_uw = min(gpu_uw, running.gpu_range_uw(job)[0])
            wanted[job], least[job] = (cap_uw, gpu_uw), (min(cap_uw, low_uw), gpu_low_uw)
        return wanted, least

    def _gpu_uw(self, job: int) -> int:
        """What the GPUs of a running job have; 0 = it has none."""
        return self.running.gpu_uw.get(job) or self.running.gpu_range_uw(job)[1]

    def _power_uw(self, caps: Caps) -> int:
        return sum(self.running.power_uw(job, *own) for job, own in caps.items())

    def _bisected(self, wanted: Caps, least: Caps, power_uw: int) -> Caps:
        """The greatest part of every job's range at which all fit, or none of it."""
        low, high = 0, FRACTIONS
        while high - low > 1:
            middle = (low + high) // 2
            if self._power_uw(_scaled(wanted, least, middle, FRACTIONS)) <= power_uw:
                low = middle
            else:
                high = middle
        return _scaled(wanted, least, low, FRACTIONS)

    def _by_parts(self, parts: Parts, now_ns: int) -> None:
        job, nodes, cores, cap_uw, gpu_uw = parts
        if isinstance(cores, int):
            given = dict.fromkeys(nodes, cores)
        else:
            given = dict(zip(nodes, cores, strict=True))
        if len(given) != len(nodes) or not self._ground.known(nodes):
            raise SimulationError(f"{self._name(job)}: some nodes do not exist or are listed twice")
        if job not in self.running.jobs:
            if not given or min(given.values()) < 1:
                raise SimulationError(f"{self._name(job)} starts without a core on a node")
            self._held[job] = {}
            self._add(job, given)
            self.running.start(job, self._mix_of(job, given), cap_uw, now_ns, gpu_uw)
            return
        self.scaled.pop(job, None)
        self._gpus_scaled.pop(job, None)
        if self._unplaced and job in self._unplaced:
            raise SimulationError(
                f"{self._name(job)} gets parts of nodes in the instant of a count"
            )
        mix = self._changed(job, given)
        self.running.resizes[job] += bool(given)
        self.running.change(job, mix, cap_uw, now_ns, gpu_uw, moved=bool(given))

    def _changed(self, job: int, given: Held) -> Mix:
        """Moves a running job's parts; what it has then."""
        held, ground, kind_of = self._held[job], self._ground, self._ground.kind_of
        mix = Counter(self.running.mix[job])
        gone, new = {}, {}
        for node, cores in given.items():
            had = held.get(node, 0)
            if had:
                asked = self._asked_on(job, node)
                mix[kind_of[node], had, asked] -= 1
                if not cores:
                    gone[node] = had
                elif cores > 0:
                    mix[kind_of[node], cores, asked] += 1
                    held[node] = cores
                    ground.alter(job, node, cores)
            elif cores:
                new[node] = cores
            if cores < 0:
                raise SimulationError(f"{self._name(job)} gets {cores} cores of node {node}")
        if gone:
            self._drop(job, gone)
        if new:
            self._add(job, new)
            mix.update(self._mix_of(job, new))
        if not held:
            raise SimulationError(f"{self._name(job)} runs without a core")
        return {key: nodes for key, nodes in mix.items() if nodes}

    def _by_count(self, decision: Decision, now_ns: int) -> None:
        """So many whole nodes of the one class; which ones is settled at the end of the instant."""
        job, size, cap_uw = decision
        classes = self._machine.classes
        if len(classes) > 1 or self._stocks.request(job).cores:
            raise SimulationError(
                f"{self._name(job)} gets a number of nodes although nodes differ or are shared"
            )
        cores, running = classes[0].cores, self.running
        if job not in running.jobs:
            self._held[job] = {}
            self._unplaced[job] = None
            running.start(job, {(0, cores, cores): size}, cap_uw, now_ns)
            return
        self.scaled.pop(job, None)
        self._gpus_scaled.pop(job, None)
        mix, before = running.mix[job], running.size[job]
        if size != before:
            if mix.keys() != {(0, cores, cores)}:
                raise SimulationError(f"{self._name(job)} has parts of nodes and gets a number")
            mix = {(0, cores, cores): size}
            self._placed_before(job, size)
            running.resizes[job] += 1
        running.change(job, mix, cap_uw, now_ns)

    def _placed_before(self, job: int, size: int) -> None:
        """Gives up the last of its nodes, or notes that it is to get more."""
        held = self._held[job]
        if job in self._unplaced or size > len(held):
            self._unplaced[job] = None
        if size < len(held):
            self._drop(job, {node: held[node] for node in sorted(held)[size:]})

    def _add(self, job: int, given: Held) -> None:
        """More nodes for a job."""
        self._ground.occupy(job, given)
        self._held[job].update(given)
        request = self._stocks.request(job)
        if request.cores:
            asked = self._asked.setdefault(job, {})
            for node, cores in given.items():
                asked[node] = -(-cores // request.cores) * request.cores
        if request != WHOLE:
            kinds = {self._ground.kind_of[node] for node in given}
            if not all(self._stocks.suits(job, kind) for kind in kinds):
                raise SimulationError(f"{self._name(job)} is placed on nodes that do not suit it")
            if self._stocks.kept:
                self._stocks.take(job, [(node, self._units(job, node)) for node in given])

    def _drop(self, job: int, gone: Held) -> None:
        """Nodes that a running job gives up."""
        self._ground.vacate(job, gone)
        if self._stocks.kept:
            self._stocks.take(job, [(node, -self._units(job, node)) for node in gone])
        for node in gone:
            del self._held[job][node]
        if job in self._asked:
            for node in gone:
                del self._asked[job][node]

    def _mix_of(self, job: int, held: Held) -> Mix:
        kind_of, asked = self._ground.kind_of, self._asked.get(job)
        if asked is not None:
            return dict(Counter((kind_of[n], cores, asked[n]) for n, cores in held.items()))
        of_kind = self._ground.cores_of_kind
        counts = Counter(zip(map(kind_of.__getitem__, held), held.values(), strict=True))
        return {(kind, cores, of_kind[kind]): nodes for (kind, cores), nodes in counts.items()}

    def _asked_on(self, job: int, node: int) -> int:
        asked = self._asked.get(job)
        return asked[node] if asked else self._ground.cores_of_kind[self._ground.kind_of[node]]

    def _units(self, job: int, node: int) -> int:
        asked = self._asked.get(job)
        return asked[node] // self._stocks.request(job).cores if asked else 1

    def _move_data(self, moved: list[tuple[int, int, int]], now_ns: int) -> None:
        """2 max(t_se) of PARM: jobs that change their nodes in one round wait for each other."""
        machine, least = self._machine, self._table.size_min
        charge_ns = 0
        if self._resize_costs:
            seconds = charge_s(
                Resize(
                    data_mb=machine.data_mb(int(least[job])),
                    nodes_from=before,
                    nodes_to=after,
                    link_mb_per_s=machine.link_mb_per_s,
                    bisection_links=None,
                )
                for job, before, after in moved
            )
            charge_ns = round(seconds * NS_PER_S)
        for job, _, _ in moved:
            self.running.stall(job, charge_ns, now_ns)

    def _name(self, job: int) -> str:
        return f"job {self._table.job_ids[job]}"


def _times(table: JobTable, machine: NodeMachine, model: RunTimeModel) -> PartTimes:
    if table.training is None and not any(one.gpu_uw_max for one in machine.classes):
        return NodeTimes(table, machine, model)
    return TrainingTimes(table, machine, model)


def _scaled(wanted: Caps, least: Caps, part: int, whole: int) -> Caps:
    def between(low_uw: int, high_uw: int) -> int:
        return low_uw + (high_uw - low_uw) * part // whole

    return {
        job: (between(least[job][0], cap_uw), between(least[job][1], gpu_uw))
        for job, (cap_uw, gpu_uw) in wanted.items()
    }


def check_by_node(table: JobTable, machine: NodeMachine, budget: Budget) -> None:
    """Raises ValueError for jobs and budgets that a machine of classes cannot serve."""
    room: dict[Any, int] = {}
    for job in range(len(table)):
        request = request_of(table.units, job)
        if request not in room:
            room[request] = sum(o.count * units_on(o, request) for o in machine.classes)
        if table.size_min[job] > room[request]:
            raise ValueError(
                f"job {table.job_ids[job]} requests {table.size_min[job]} units, but the "
                f"empty machine holds {room[request]}"
            )
    least_uw = machine.idle_total_uw + min(o.part_uw(1, o.cap_uw_min) for o in machine.classes)
    if not budget.is_constant:
        least_uw = sum(
            o.count * (max(o.busy_uw(o.cap_uw_min), o.idle_uw) + o.gpus_uw) for o in machine.classes
        )
    if budget.least_uw < least_uw:
        raise ValueError(
            f"the budget of {budget.least_uw / 1e6:.0f} W is below the {least_uw / 1e6:.0f} W that "
            f"{machine.nodes} nodes need"
            + ("" if budget.is_constant else " when all of them run at their minimum cap")
        )
