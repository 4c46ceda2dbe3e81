"""A live site whose jobs have both nodes and start the second node's part themselves."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
from system.site.live_site import DEADLINE_S, MARK, LiveSite, wait_until
from system.site.processes import processes_of

from wattfold.v1 import common_pb2, node_agent_pb2, node_agent_pb2_grpc
from wattfold.v1 import coordinator_pb2 as pb

# MPI talks on the loopback interface only, and may run as root.
LAUNCHER_ENV = {
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "lo",
    "HYDRA_IFACE": "lo",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}


class LauncherSite(LiveSite):
    """Submits launchers and reads their output."""

    def launch(self, script: str, tasks: int = 1, **env: str) -> str:
        """Submit a shell line as the launcher of a job on both nodes; $RSH is its remote shell."""
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.work), MARK: str(self.folder)}
        return self.submit(
            ["/bin/sh", "-c", f'RSH="$CONV_RSH"; {script}'],
            env=variables | LAUNCHER_ENV | env,
            unit=pb.SIZE_UNIT_NODES,
            size_min=2,
            size_max=2,
            mode=common_pb2.RESIZE_MODE_FIXED,
            own_launcher=True,
            tasks_per_node=tasks,
        )

    def done(self, script: str, code: int = 0, **env: str) -> str:
        """Run a launcher to its end; return its output."""
        job_id = self.launch(script, **env)
        job = self.ended(job_id)
        assert job.exit_code == code, (job, self.printed(job_id), self.errors(job_id))
        wait_until("both nodes free", lambda: not self.client.list_jobs().jobs)
        return self.printed(job_id)

    def printed(self, job_id: str) -> str:
        return self._read(job_id, "out")

    def errors(self, job_id: str) -> str:
        return self._read(job_id, "err")

    def says(self, job_id: str, words: str) -> str:
        """Wait until a job has printed a text; return all its output."""
        return wait_until(
            f"{words!r} from job {job_id}",
            lambda: text if words in (text := self.printed(job_id)) else "",
        )

    def _read(self, job_id: str, kind: str) -> str:
        path = self.work / f"wattfold-{job_id}.{kind}"
        return path.read_text() if path.exists() else ""

    def steps_folder(self, index: int, job_id: str) -> Path:
        return self.folder / self.plan.nodes[index].node_id / "steps" / job_id

    def step_host(self) -> int:
        """The pid of the only step host."""
        return wait_until("a step host", lambda: _only(_named(self.processes(), "wattfold-steps")))

    def node_processes(self, index: int) -> list[node_agent_pb2.ProcessInfo]:
        """Processes reported by the agent of a node."""
        with grpc.insecure_channel(f"unix:{self.agent_socket(index)}") as channel:
            stub = node_agent_pb2_grpc.NodeAgentStub(channel)
            request = node_agent_pb2.ListProcessesRequest()
            return list(stub.ListProcesses(request, timeout=240).processes)

    def pid_on(self, index: int, job_id: str) -> int:
        """The first process of a job on a node."""
        return next(p.pid for p in self.node_processes(index) if p.job_id == job_id)

    def marked(self, mark: str) -> list[int]:
        """Processes of this site whose command line or environment contains a word."""
        own = set(self.processes())
        return [pid for pid in processes_of(Path(mark)) if pid in own]

    def gone(self, mark: str) -> None:
        """Wait until no process of this site has that word any more."""
        wait_until(f"no {mark}", lambda: not self.marked(mark), DEADLINE_S)

    def check_end(self) -> None:
        """Check that nothing of the site is left and the budget was kept."""
        self.check_record()
        wait_until("all processes have ended", lambda: not self.processes())


def _named(pids: list[int], name: str) -> list[int]:
    found = []
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
        except OSError:
            continue
    return found


def _only(found: list[int]) -> int:
    return found[0] if len(found) == 1 else 0
