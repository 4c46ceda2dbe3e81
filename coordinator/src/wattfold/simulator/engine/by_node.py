"""Holdings by node: jobs on parts of numbered nodes, of one class or several.

A decision names nodes and cores (`Parts`). If all nodes are identical, a decision may also give
only a number of nodes, for jobs that request whole nodes. These jobs get the first empty nodes at
the end of the instant, so the run is the same as on a counted pool.

A change of cores on the nodes of a job costs nothing. A change of the number of nodes moves its
data, as in `models.resize_cost`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.models.resize_cost import Resize, charge_s
from wattfold.coordinator.policies.port import Change, Decision, Parts, Site
from wattfold.simulator.engine.budget import BudgetSchedule
from wattfold.simulator.engine.errors import SimulationError
from wattfold.simulator.engine.machines.holdings import Nodes
from wattfold.simulator.engine.machines.node_cores import FreeNodeCores, Held
from wattfold.simulator.engine.machines.node_machine import NodeMachine
from wattfold.simulator.engine.machines.stocks import WHOLE, Stocks, request_of, units_on
from wattfold.simulator.engine.running_jobs.jobs import JobTable
from wattfold.simulator.engine.running_jobs.node_jobs import NodeTableJobs
from wattfold.simulator.engine.running_jobs.part_running import PartRunning
from wattfold.simulator.engine.running_jobs.part_times import Mix, NodeTimes, PartTimes
from wattfold.simulator.engine.running_jobs.progress import PreemptionRule
from wattfold.simulator.engine.running_jobs.run_times import RunTimeModel
from wattfold.simulator.engine.trainings.training import TrainingTimes
from wattfold.simulator.engine.windows import NodeWindows
from wattfold.simulator.workloads.swf_writer import number_text

Caps = dict[int, tuple[int, int]]
"""By job: the cap of its packages, and of each of its GPUs; 0 = no GPU."""
_SEPARATOR = "|"
FRACTIONS = 1 << 20
"""Number of steps for scaling caps down if power is not linear in the caps."""


class NodeHoldings:
    """Cores of every job on every node."""

    def __init__(
        self,
        table: JobTable,
        machine: NodeMachine,
        *,
        model: RunTimeModel,
        resize_costs: bool,
        start_ns: int = 0,
        preemption: PreemptionRule | None = None,
        times: PartTimes | None = None,
    ) -> None:
        """Windows count from ``start_ns``. ``times`` replaces ``model``."""
        times = times or _times(table, machine, model)
        self.running = PartRunning(table, machine, times, preemption)
        self.requeued: list[int] = []
        self._windows = NodeWindows(machine, start_ns)
        self._table, self._machine = table, machine
        self._resize_costs = resize_costs
        self._node_cores = FreeNodeCores(machine)
        self._stocks = Stocks(table, machine)
        self._held: dict[int, Held] = {}
        self._asked: dict[int, Held] = {}
        """Requested cores by node, for jobs that do not request whole nodes."""
        self._moved: dict[int, int] = {}
        """Time of the current instant, for jobs whose cores changed in it."""
        self._unplaced: dict[int, None] = {}
        """Jobs that still lack nodes of a decision by count."""
        self.scaled: dict[int, int] = {}
        """Decided caps of the jobs whose caps are lower for lack of power."""
        self._gpus_scaled: dict[int, int] = {}
        """The same for the caps of their GPUs."""
        self._jobs = NodeTableJobs(
            table,
            machine,
            self.running,
            self._node_cores,
            self._stocks,
            self._held,
        )

    @property
    def unused_uw(self) -> int:
        """Power of all nodes without a job."""
        classes, empty = self._machine.classes, self._node_cores.empty_of_kind
        return sum(one.unused_uw * count for one, count in zip(classes, empty, strict=True))

    @property
    def jobs(self) -> NodeTableJobs:
        """The jobs as schedulers see them."""
        return self._jobs

    def site(self, spendable_uw: int) -> Site:
        """Return the site for schedulers; its node kind is empty if the classes differ."""
        return self._machine.site(spendable_uw)

    def nodes_of(self, job: int) -> Nodes:
        """Return the nodes of a running job."""
        return list(self._held[job])

    def take(self, decision: Decision, now_ns: int) -> None:
        """Apply starts and changes in their order, then preemptions.

        Raises SimulationError for an invalid decision.
        """
        moved: list[tuple[int, int, int]] = []
        running = self.running
        for change in decision.changes:
            job = change.job
            before = running.size[job] if job in running.jobs else 0
            if isinstance(change, Parts):
                self._by_parts(change, now_ns)
            else:
                self._by_count(change, now_ns)
            if not isinstance(change, Parts) or change.nodes:
                self._moved[job] = now_ns
            after = running.size[job]
            if before not in (0, after) and not running.times.trains(job):
                moved.append((job, before, after))
        if moved:
            self._move_data(moved, now_ns)
        for job, _ in decision.preemptions:
            self._requeue(job, now_ns)

    def end(self, job: int) -> None:
        """Free the job's part of every node."""
        held = self._held.pop(job)
        self._node_cores.vacate(job, held)
        if self._stocks.kept:
            self._stocks.take(job, [(node, -self._units(job, node)) for node in held])
        self._asked.pop(job, None)
        self._unplaced.pop(job, None)
        self._moved.pop(job, None)
        self.scaled.pop(job, None)
        self._gpus_scaled.pop(job, None)

    def pass_windows(self, now_ns: int) -> None:
        """Take nodes out of use or return them; requeue the jobs on nodes that go out of use.

        A job that ends in this very instant is not requeued.
        """
        opened, closed = self._windows.passed(now_ns)
        ground, running = self._node_cores, self.running
        if closed:
            ground.bring_back(closed)
        # Nodes that another window already has out of use hold no jobs.
        in_the_way = {job for node in opened if node not in ground.out for job in ground.on[node]}
        for job in sorted(in_the_way):
            if running.end_as_it_is_ns(job) > now_ns:
                self._requeue(job, now_ns)
        ground.take_out(opened)

    def _requeue(self, job: int, now_ns: int) -> None:
        self.running.preempt(job, now_ns)
        self.end(job)
        self.running.places[job] += f"{_SEPARATOR}{number_text(now_ns / NS_PER_S)}="
        self.requeued.append(job)

    def settle(self) -> None:
        """Assign nodes to jobs decided by count, and check all. Raises SimulationError."""
        ground, running = self._node_cores, self.running
        for job in self._unplaced:
            held = self._held[job]
            lacks = running.size[job] - len(held)
            nodes = ground.draw(lacks, 0)
            if len(nodes) < lacks:
                raise SimulationError(f"{lacks} empty nodes are assigned, of {len(nodes)}")
            self._add(job, dict.fromkeys(nodes, self._machine.classes[0].cores))
        self._unplaced.clear()
        for job, now_ns in self._moved.items():
            entry = f"{number_text(now_ns / NS_PER_S)}={places_text(self._held[job])}"
            earlier = running.places[job]
            if entry.partition("=")[2] != earlier.rpartition("=")[2]:
                running.places[job] = f"{earlier}{_SEPARATOR}{entry}" if earlier else entry
        self._moved.clear()
        ground.check()
        self._stocks.check()
        running.nodes = ground.busy
        for one, cores in zip(self._machine.classes, running.held_cores, strict=True):
            if cores > one.count * one.cores:
                raise SimulationError(
                    f"{cores} cores of class {one.name} are held, of {one.count * one.cores}"
                )

    def fit(self, power_uw: int, now_ns: int) -> None:
        """Set the decided caps if they fit into this power above idle, else scale them down."""
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
            # Identical nodes have the same floor and maximum cap, so power is linear in the caps
            # apart from rounding per part.
            caps = _scaled(wanted, least, room_uw, above_uw)
            if len(self._machine.classes) > 1 or self._power_uw(caps) > power_uw:
                caps = self._bisected(wanted, least, power_uw)
        for job, (cap_uw, gpu_uw) in caps.items():
            if (cap_uw, gpu_uw) != (running.cap_uw[job], self._gpu_uw(job)):
                level_uw = 0 if gpu_uw == running.gpu_range_uw(job)[1] else gpu_uw
                running.change(job, running.mix[job], cap_uw, now_ns, level_uw)

    def _ranges(self) -> tuple[Caps, Caps]:
        """Return the decided caps of running jobs and their minimum caps."""
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
        """Return the cap of each GPU of a running job; 0 = it has no GPU."""
        return self.running.gpu_uw.get(job) or self.running.gpu_range_uw(job)[1]

    def _power_uw(self, caps: Caps) -> int:
        return sum(self.running.power_uw(job, *own) for job, own in caps.items())

    def _bisected(self, wanted: Caps, minimum: Caps, power_uw: int) -> Caps:
        """Return the caps at the largest equal fraction of all ranges that fits, at least 0."""
        low, high = 0, FRACTIONS
        while high - low > 1:
            middle = (low + high) // 2
            if self._power_uw(_scaled(wanted, minimum, middle, FRACTIONS)) <= power_uw:
                low = middle
            else:
                high = middle
        return _scaled(wanted, minimum, low, FRACTIONS)

    def _by_parts(self, parts: Parts, now_ns: int) -> None:
        job, nodes, cores, cap_uw, gpu_uw = parts
        if isinstance(cores, int):
            given = dict.fromkeys(nodes, cores)
        else:
            given = dict(zip(nodes, cores, strict=True))
        if len(given) != len(nodes) or not self._node_cores.known(nodes):
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
        """Apply new cores to a running job; return its new mix."""
        held, ground, kind_of = self._held[job], self._node_cores, self._node_cores.kind_of
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

    def _by_count(self, change: Change, now_ns: int) -> None:
        """Give a job a number of whole nodes; the end of the instant chooses them."""
        job, size, cap_uw = change[:3]
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
        """Free the last nodes of a job, or mark it as lacking nodes."""
        held = self._held[job]
        if job in self._unplaced or size > len(held):
            self._unplaced[job] = None
        if size < len(held):
            self._drop(job, {node: held[node] for node in sorted(held)[size:]})

    def _add(self, job: int, given: Held) -> None:
        """Add nodes to a job."""
        self._node_cores.occupy(job, given)
        self._held[job].update(given)
        request = self._stocks.request(job)
        if request.cores:
            asked = self._asked.setdefault(job, {})
            for node, cores in given.items():
                asked[node] = -(-cores // request.cores) * request.cores
        if request != WHOLE:
            kinds = {self._node_cores.kind_of[node] for node in given}
            if not all(self._stocks.suits(job, kind) for kind in kinds):
                raise SimulationError(f"{self._name(job)} is placed on nodes that do not suit it")
            if self._stocks.kept:
                self._stocks.take(job, [(node, self._units(job, node)) for node in given])

    def _drop(self, job: int, gone: Held) -> None:
        """Remove nodes from a running job."""
        self._node_cores.vacate(job, gone)
        if self._stocks.kept:
            self._stocks.take(job, [(node, -self._units(job, node)) for node in gone])
        for node in gone:
            del self._held[job][node]
        if job in self._asked:
            for node in gone:
                del self._asked[job][node]

    def _mix_of(self, job: int, held: Held) -> Mix:
        kind_of, asked = self._node_cores.kind_of, self._asked.get(job)
        if asked is not None:
            return dict(Counter((kind_of[n], cores, asked[n]) for n, cores in held.items()))
        of_kind = self._node_cores.cores_of_kind
        counts = Counter(zip(map(kind_of.__getitem__, held), held.values(), strict=True))
        return {(kind, cores, of_kind[kind]): nodes for (kind, cores), nodes in counts.items()}

    def _asked_on(self, job: int, node: int) -> int:
        asked = self._asked.get(job)
        return (
            asked[node] if asked else self._node_cores.cores_of_kind[self._node_cores.kind_of[node]]
        )

    def _units(self, job: int, node: int) -> int:
        asked = self._asked.get(job)
        return asked[node] // self._stocks.request(job).cores if asked else 1

    def _move_data(self, moved: list[tuple[int, int, int]], now_ns: int) -> None:
        """Charge 2 max(t_se) of PARM: jobs that change nodes in one round wait for each other."""
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


def places_text(held: Held) -> str:
    """Format nodes and cores: `0-3x8 5x2` is 8 cores on each of nodes 0 to 3, and 2 on node 5."""
    parts: list[str] = []
    first = last = cores = -1
    for node in [*sorted(held), -1]:
        if node == last + 1 and node > 0 and held[node] == cores:
            last = node
            continue
        if first >= 0:
            parts.append(f"{first}x{cores}" if first == last else f"{first}-{last}x{cores}")
        first = last = node
        cores = held.get(node, -1)
    return " ".join(parts)


def _times(table: JobTable, machine: NodeMachine, model: RunTimeModel) -> PartTimes:
    if table.training is None and not any(one.gpu_uw_max for one in machine.classes):
        return NodeTimes(table, machine, model)
    return TrainingTimes(table, machine, model)


def _scaled(wanted: Caps, minimum: Caps, part: int, whole: int) -> Caps:
    def between(low_uw: int, high_uw: int) -> int:
        return low_uw + (high_uw - low_uw) * part // whole

    return {
        job: (between(minimum[job][0], cap_uw), between(minimum[job][1], gpu_uw))
        for job, (cap_uw, gpu_uw) in wanted.items()
    }


def check_by_node(table: JobTable, machine: NodeMachine, budget: BudgetSchedule) -> None:
    """Raise ValueError for jobs and budgets that a machine of classes cannot serve."""
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
