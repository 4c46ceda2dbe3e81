"""The real service decides as the simulator does: started jobs, times, caps and nodes.

A script of submissions and ends runs on a real site of whole nodes. The events of its journal are
then played to the pool. The pool is set to follow the service where the two differ by design. It
decides once for all events of a round, ends no job at its estimate, and uses the times of the
rounds, because a process starts later than its decision.

PARM weighs jobs by their priorities alone (alpha 0) and solves to the optimum. Otherwise the effect
of waiting and progress on weights would depend on the load of the machine.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import pytest
from system.site.decisions import InRounds, history_of, pool_starts, settled
from system.site.gate import Gate
from system.site.live_site import BASE_W, CPUS, DRAM_W, FLOOR_W, PACKAGE_W, LiveSite, wait_until

from wattfold.coordinator.cli.site.maintenance import JOURNAL
from wattfold.coordinator.models.pass_model import APPLICATIONS, SizeUnit
from wattfold.coordinator.policies.backfill.easy import EasyScheduler
from wattfold.coordinator.policies.fifo.conservative import ConservativeScheduler
from wattfold.coordinator.policies.parm.settings import ParmRules, ParmSettings
from wattfold.simulator.engine.machines.machine import Machine
from wattfold.simulator.engine.schedulers.uniform_scheduler import UniformScheduler
from wattfold.v1 import coordinator_pb2 as pb

S = 1_000_000_000
NODES = 4
MACHINE = Machine.of_watts(NODES, base_w=BASE_W, dram_w=DRAM_W, cap_w_min=FLOOR_W, cap_w_max=45.0)
# Three nodes at their maximum cap, or all four at a lower cap.
BUDGET_W = NODES * (BASE_W + DRAM_W + FLOOR_W) + 3 * (PACKAGE_W - FLOOR_W) + 4.0
RULES = ParmRules(settings=ParmSettings(patience=0.0, alpha=0.0, gap=0.0))
PROFILE = replace(APPLICATIONS["LeanMD"], app="step", t1_s=400.0, unit=SizeUnit.NODES)
PARM = "alpha = 0.0\ngap = 0.0\n"
POOLS: dict[str, Callable[[], EasyScheduler | InRounds]] = {
    "conservative": ConservativeScheduler,
    "fifo-easy": lambda: EasyScheduler(kills_at_limit=False),
    "easy-uniform": lambda: UniformScheduler(MACHINE, kills_at_limit=False),
    "parm-wse": lambda: InRounds(RULES, PROFILE),
}


@dataclass(frozen=True, slots=True)
class Wish:
    """A job of the script: number of whole nodes, estimate, priority."""

    nodes: int
    time_s: int
    priority: float = 1.0


# A name with a request submits a job; a name alone ends the first running job of this name.
SCRIPT: tuple[tuple[str, Wish | None], ...] = (
    ("wide", Wish(2, 300)),
    *(("array", Wish(1, 100)),) * 5,
    # Waits for three nodes: a later job may start before it only if it is short enough.
    ("head", Wish(3, 400)),
    ("long", Wish(1, 100_000)),
    ("short", Wish(1, 20)),
    ("array", None),
    ("urgent", Wish(2, 250, 8.0)),
    ("short", Wish(1, 30)),
    ("wide", None),
    ("short", Wish(1, 1)),
    *(("array", None),) * 2,
    ("urgent", None),
    ("long", Wish(2, 700, 0.5)),
    *(("array", None),) * 2,
    ("short", None),
    ("whole", Wish(3, 50, 2.0)),
)


class Play:
    """Plays the script on a site; jobs wait at gates until it is their turn to end.

    The earlier of two equal jobs has a slightly higher priority, so no two jobs weigh the same.
    """

    def __init__(self, site: LiveSite, stretch: int = 1, **spec: object) -> None:
        self._site, self._gate, self._spec = site, Gate(site.work), spec
        self._stretch = stretch
        self._jobs: dict[str, str] = {}
        self._submitted = 0

    def run(self) -> None:
        """Run the script, then end all remaining jobs, one at a time."""
        for name, wish in SCRIPT:
            if wish is None:
                self._end(name)
            else:
                self._submit(name, wish)
        while self._jobs:
            self._end("")

    def _submit(self, name: str, wish: Wish) -> None:
        gate = f"{name}-{len(list(self._site.work.iterdir()))}"
        self._submitted += 1
        job_id = self._site.submit(
            self._gate.line(gate),
            name=gate,
            app=PROFILE.app,
            unit=pb.SIZE_UNIT_NODES,
            size_min=wish.nodes,
            size_max=wish.nodes,
            time_ns=wish.time_s * self._stretch * S,
            priority=wish.priority * 0.97**self._submitted,
            **self._spec,
        )
        self._jobs[job_id] = gate
        wait_until(f"{gate} to be planned", lambda: self._planned(job_id))
        self._settle()

    def _planned(self, job_id: str) -> bool:
        job = self._site.job(job_id)
        return bool(job.reason) or job.state == pb.JOB_STATE_RUNNING

    def _end(self, name: str) -> None:
        """End the first running job of a name; without a running job, first let a waiting job
        start.
        """

        def running() -> str:
            listed = self._site.client.list_jobs().jobs
            return next(
                (
                    job.job_id
                    for job in listed
                    if job.state == pb.JOB_STATE_RUNNING and self._jobs[job.job_id].startswith(name)
                ),
                "",
            )

        job_id = wait_until(f"a job {name} that runs", running)
        for _ in self._site.job(job_id).shares:
            self._gate.open(self._jobs[job_id])
        self._site.ended(job_id)
        del self._jobs[job_id]
        self._settle()

    def _settle(self) -> None:
        """Wait until the site is settled, so that no event comes between an event and its plan."""
        wait_until("nothing under way", lambda: settled(self._site.folder / "head" / JOURNAL))


def collect_and_simulate(site: LiveSite) -> None:
    """Return the jobs of the site as a log, and their simulation under another policy."""
    cores = len(CPUS)
    said = site.wattfold("workload", "collect", "jobs.swf.gz").stdout
    assert f"--nodes {NODES} --procs-per-node {cores}." in said
    machine = ("--nodes", str(NODES), "--procs-per-node", str(cores))
    done = site.wattfold(
        "--json", "simulate", "--log", "jobs.swf.gz", *machine, "--policy", "conservative"
    )
    assert f'"jobs": {sum(wish is not None for _, wish in SCRIPT)}' in done.stdout


@pytest.mark.parametrize(
    ("policy", "strategy"),
    [
        ("fifo-easy", "compact"),
        ("easy-uniform", "first"),
        ("parm-wse", "compact"),
        ("conservative", "compact"),
    ],
)
def test_a_pool_starts_the_same_jobs_on_the_same_nodes(
    policy: str, strategy: str, start_site: Callable[..., LiveSite]
) -> None:
    placement = f'[placement]\nstrategy = "{strategy}"\n'
    site = start_site(
        nodes=NODES,
        policy=policy,
        budget_w=BUDGET_W,
        cpu_share=0.2,
        coordinator=placement,
        parm=PARM,
    )
    values = {**asdict(PROFILE), "unit": pb.SIZE_UNIT_NODES}
    del values["range_w"]  # Only learned and simulated profiles have one.
    site.client.put_profile(pb.Profile(**values))
    # Planned starts on a slow machine must not depend on the delay of a job.
    Play(site, 1000 if policy == "conservative" else 1).run()
    if policy == "fifo-easy":
        # The collected log has the jobs, and nothing of the policy.
        collect_and_simulate(site)
    site.coordinator.send_signal(signal.SIGTERM)
    assert site.coordinator.wait(240) == 0
    path = site.folder / "head" / JOURNAL
    history = history_of(path)
    assert len(history.starts) == len(history.jobs) == sum(wish is not None for _, wish in SCRIPT)
    simulated = pool_starts(history, MACHINE, POOLS[policy](), strategy)
    assert simulated == history.starts
    assert [start.job_id for start in simulated] != list(history.jobs), "all in order of submission"
