"""kill -9 of coordinator, agents and both in the middle of work: nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from system.agent.agent_process import alive
from system.site.gate import Gate
from system.site.live_site import LiveSite, wait_until

from wattfold.coordinator.cli.shared.connection.client import CoordinatorClient
from wattfold.coordinator.cli.shared.errors import CliError
from wattfold.v1 import coordinator_pb2 as pb


@pytest.fixture(scope="module")
def shared(start_site: Callable[..., LiveSite]) -> LiveSite:
    return start_site(nodes=2, policy="fifo-easy")


@pytest.fixture
def site(shared: LiveSite) -> Iterator[LiveSite]:
    yield shared
    shared.cancel_all()


@pytest.fixture
def gate(site: LiveSite, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    return Gate(tmp_path_factory.mktemp("gate"))


class Submitter:
    """Submits one job after another until it is stopped. Retries each until it is answered."""

    def __init__(self, site: LiveSite, gate: Gate) -> None:
        self._site, self._gate = site, gate
        self._stop = threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.first = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Submitter:
        self._thread.start()
        assert self.first.wait(240)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        """Use a separate client, because the site's client is closed meanwhile."""
        number = 0
        while not self._stop.is_set():
            name = f"dying-{number}"
            spec = pb.JobSpec(
                name=name, argv=self._gate.line(name), cwd=str(self._site.work), size_min=1
            )
            request = pb.SubmitRequest(spec=spec, idempotency_key=name)
            with CoordinatorClient(self._site.address, timeout_s=2.0) as client:
                while name not in self.acknowledged:
                    try:
                        self.acknowledged[name] = client.submit(request)
                    except CliError:
                        if self._stop.wait(0.01):
                            return
            self.first.set()
            number += 1


def test_the_coordinator_dies_in_the_middle_of_a_mix(site: LiveSite, gate: Gate) -> None:
    before = {job.job_id for job in site.client.list_jobs(include_ended=True).jobs}
    names = [f"job-{number}" for number in range(7)]
    jobs = {name: site.submit(gate.line(name), name=name) for name in names}
    running = names[:4]
    for name in running:
        site.running(jobs[name])
        wait_until(f"{name} to start", lambda name=name: gate.starts(name))
    pids = {name: site.pid(jobs[name]) for name in running}
    with Submitter(site, gate) as submitter:
        site.coordinator.kill()
        site.coordinator.wait()
        acknowledged = dict(submitter.acknowledged)
        # The end of a job during the absence must not be forgotten.
        gate.open(names[0])
        wait_until("it has ended", lambda: not alive(pids[names[0]]))
        site.restart_coordinator()
        more = len(acknowledged) + 2
        wait_until("the retries are answered", lambda: len(submitter.acknowledged) >= more)
    acknowledged |= submitter.acknowledged
    assert site.ended(jobs[names[0]]).state == pb.JOB_STATE_COMPLETED
    for name in running[1:]:
        assert site.running(jobs[name]).job_id == jobs[name]
        assert site.pid(jobs[name]) == pids[name]
    # Every job once, under the number its submitter was told, in the order of submission.
    everything = site.client.list_jobs(include_ended=True).jobs
    listed = [job for job in everything if job.job_id not in before]
    known = {job.spec.name: job.job_id for job in listed}
    assert len(known) == len(listed)
    assert known.items() >= {**jobs, **acknowledged}.items()
    assert set(known) <= {*jobs, *acknowledged, f"dying-{len(acknowledged)}"}
    order = [job.spec.name for job in listed]
    assert order == sorted(order, key=lambda name: int(known[name]))
    queue = sorted(set(order) - set(running), key=lambda name: int(known[name]))
    for name in queue:
        gate.line(name)
    started = running[1:] + queue[:1]
    for number, name in enumerate(running[1:] + queue):
        # Cores are released by one job at a time, and go to the head of the queue.
        for job in started:
            wait_until(f"{job} to start", lambda job=job: gate.starts(job))
        assert {job for job in queue if gate.starts(job)} == set(queue[: number + 1])
        gate.open(name)
        assert site.ended(known[name]).state == pb.JOB_STATE_COMPLETED
        started = queue[number + 1 : number + 2]
    assert {name: len(gate.starts(name)) for name in known} == dict.fromkeys(known, 1)


def test_the_coordinator_dies_again_and_again(site: LiveSite, gate: Gate) -> None:
    jobs = {name: site.submit(gate.line(name)) for name in ("a", "b")}
    for _ in range(3):
        site.coordinator.kill()
        site.coordinator.wait()
        site.restart_coordinator()
    for name, job_id in jobs.items():
        site.running(job_id)
        gate.open(name)
        assert site.ended(job_id).state == pb.JOB_STATE_COMPLETED
        assert len(gate.starts(name)) == 1


def test_an_agent_dies_and_adopts_its_job(site: LiveSite, gate: Gate) -> None:
    job_id = site.submit(gate.line("kept", code=7))
    site.running(job_id)
    pid, index = site.pid(job_id), _node_of(site, job_id)
    site.kill_agent(index)
    wait_until("the node is silent", lambda: site.node(index).state == pb.NODE_STATE_SILENT)
    assert site.job(job_id).state == pb.JOB_STATE_RUNNING
    site.start_agent(index)
    wait_until("the node is up", lambda: site.node(index).state == pb.NODE_STATE_UP)
    assert site.pid(job_id) == pid
    gate.open("kept")
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 7)
    assert len(gate.starts("kept")) == 1


def test_a_job_ends_while_its_agent_is_away(site: LiveSite, gate: Gate) -> None:
    job_id = site.submit(gate.line("lonely", code=9))
    site.running(job_id)
    pid, index = site.pid(job_id), _node_of(site, job_id)
    site.kill_agent(index)
    gate.open("lonely")
    wait_until("it has ended", lambda: not alive(pid))
    site.start_agent(index)
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 9)


def test_coordinator_and_agents_die_together(site: LiveSite, gate: Gate) -> None:
    names = [f"both-{number}" for number in range(5)]
    jobs = {name: site.submit(gate.line(name, code=3), name=name) for name in names}
    for name in names[:4]:
        site.running(jobs[name])
    pids = {name: site.pid(jobs[name]) for name in names[:4]}
    site.coordinator.kill()
    site.coordinator.wait()
    for index in range(2):
        site.kill_agent(index)
    gate.open(names[0])
    wait_until("it has ended", lambda: not alive(pids[names[0]]))
    for index in range(2):
        site.start_agent(index)
    site.restart_coordinator()
    for name in names[1:4]:
        site.running(jobs[name])
        assert site.pid(jobs[name]) == pids[name]
    for name in names[1:]:
        gate.open(name)
    for job_id in jobs.values():
        job = site.ended(job_id)
        assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 3)
    assert {name: len(gate.starts(name)) for name in names} == dict.fromkeys(names, 1)


def test_a_job_whose_processes_are_all_killed_is_lost_or_failed(site: LiveSite, gate: Gate) -> None:
    job_id = site.submit(gate.line("shot"))
    site.running(job_id)
    os.kill(site.pid(job_id), signal.SIGKILL)
    job = site.ended(job_id)
    assert (job.state, job.exit_code) == (pb.JOB_STATE_FAILED, 128 + 9)


def _node_of(site: LiveSite, job_id: str) -> int:
    node_id = site.job(job_id).shares[0].node_id
    return [node.node_id for node in site.plan.nodes].index(node_id)
