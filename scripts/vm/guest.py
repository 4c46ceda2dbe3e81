"""Checks inside the virtual machine of scripts/vm_trial: the agent under its units, in steps.

Prints a line for each check and continues after a failed check. All checks are external: they use
files of the kernel and of the zones, systemd's reports, and the agent's service.
"""

from __future__ import annotations

import os
import platform
import pwd
import select
import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import grpc

from wattfold.v1 import common_pb2 as common
from wattfold.v1 import node_agent_pb2 as pb
from wattfold.v1 import node_agent_pb2_grpc

UNIT = "wattfold-agent.service"
JOBS_UNIT = "wattfold-jobs.service"
CONFIG = Path("/etc/wattfold/agent.toml")
TOKEN = "the-token-of-this-trial"
ZONE = Path("/run/wattfold-agent/powercap/intel-rapl:0")
LIMIT = ZONE / "constraint_0_power_limit_uw"
GROUP = Path("/sys/fs/cgroup/wattfold.slice/wattfold-jobs.service")
DEADLINE_S = 240.0
ACCOUNT = "wattfold"
JOB = "j1"
SPIN = """
import os, threading, time
open("/dev/vda", "rb", buffering=0).close()
def spin():
    while True:
        pass
for _ in range(2):
    threading.Thread(target=spin, daemon=True).start()
while True:
    with open("beat", "w") as file:
        file.write(str(time.monotonic_ns()))
    time.sleep(0.2)
"""

checks = 0
failed: list[str] = []


def check(what: str, held: bool, detail: object = "") -> None:
    """Count and print a check."""
    global checks
    checks += 1
    if not held:
        failed.append(what)
    shown = f": {detail}" if detail != "" else ""
    print(f"{'ok  ' if held else 'FAIL'} {what}{shown}", flush=True)


def run(*command: str) -> str:
    """Return the output of a command, including its errors."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return (done.stdout + done.stderr).strip()


def shown(name: str, unit: str = UNIT) -> str:
    """One property of a unit."""
    return run("systemctl", "show", "-P", name, unit)


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    """Wait for a condition that has no notification."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.1)
    return True


def number(path: Path) -> int:
    """The number in a file."""
    return int(path.read_text())


class Agent:
    """A client of the agent."""

    def __init__(self) -> None:
        self._commands = 0
        self.stub = node_agent_pb2_grpc.NodeAgentStub(grpc.insecure_channel("127.0.0.1:7070"))

    def ask(self, method: str, request: object, **fields: object) -> object:
        """Make one call, with the token. Wait for an agent that is still starting."""
        call = getattr(self.stub, method)
        return call(
            request,
            timeout=120,
            wait_for_ready=True,
            metadata=[("authorization", f"Bearer {TOKEN}")],
            **fields,
        )

    def command(self, method: str, kind: type, **fields: object) -> object:
        """One command of the coordinator."""
        return self.send(method, kind(**fields))

    def send(self, method: str, request: object) -> object:
        """Send a command that is complete except for its header."""
        self._commands += 1
        header = common.CommandHeader(epoch=1, request_id=f"t{self._commands}", cause="trial")
        request.header.CopyFrom(header)
        return self.ask(method, request)

    def lease(self, seconds: float = 600) -> None:
        self.command("RenewLease", pb.RenewLeaseRequest, duration_ns=int(seconds * 1e9))

    def cap(self, watts: float) -> pb.CapResult:
        zone = pb.ZoneCap(name="package-0", cap_uw=int(watts * 1e6))
        return self.command("SetCaps", pb.SetCapsRequest, caps=[zone]).results[0]

    def mask(self, cpus: str) -> pb.SetMaskResponse:
        return self.command("SetMask", pb.SetMaskRequest, job_id=JOB, cpus=cpus)

    def jobs(self) -> dict[str, pb.ProcessInfo]:
        answer = self.ask("ListProcesses", pb.ListProcessesRequest())
        return {info.job_id: info for info in answer.processes}


def threads_allowed(pid: int) -> set[str]:
    """The masks of all threads, as the kernel shows them."""
    found = set()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        found.add(status.read_text().split("Cpus_allowed_list:")[1].split()[0])
    return found


def group_of(pid: int) -> str:
    """The control group of a process."""
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


def kernel_mask(pid: int) -> str:
    """The cores to which the kernel restricts the group of a process."""
    return Path(f"/sys/fs/cgroup{group_of(pid)}/cpuset.cpus.effective").read_text().strip()


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def goes_on(pid: int) -> bool:
    """Whether the job runs and makes progress."""
    before = beat()
    return alive(pid) and until(lambda: beat() > before, 60)


def beat() -> int:
    """Time of the last sign of life of the job."""
    try:
        return number(Path("/var/lib/wattfold/beat"))
    except (OSError, ValueError):
        return 0


def log_since(cursor: float) -> str:
    """Log entries of the agent since a time."""
    return run("journalctl", "-q", "-o", "cat", "-u", UNIT, "--since", f"@{cursor:.0f}")


def machine() -> None:
    """Description of this machine."""
    print(f"{platform.release()}; {run('systemctl', '--version').splitlines()[0]}", flush=True)
    check("systemd is process 1", Path("/proc/1/comm").read_text().strip() == "systemd")
    kind = run("stat", "-fc", "%T", "/sys/fs/cgroup")
    check("control groups are version 2", kind == "cgroup2fs", kind)
    verified = run(
        "systemd-analyze", "verify", "--man=no", f"/etc/systemd/system/{UNIT}",
        f"/etc/systemd/system/{JOBS_UNIT}", "/etc/systemd/system/wattfold-coordinator.service",
    )  # fmt: skip
    check("systemd-analyze verify finds nothing in the units", not verified, verified)
    account = pwd.getpwnam(ACCOUNT)
    check("systemd-sysusers has made the account", account.pw_uid > 0, account.pw_uid)
    mode = Path("/var/lib/wattfold-agent").stat().st_mode & 0o777
    check("systemd-tmpfiles has made the folders", mode == 0o700, f"{mode:o}")


def install() -> None:
    """Install configuration and token, as an administrator would."""
    shutil.copy("/opt/trial/agent.toml", CONFIG)
    token = Path("/etc/wattfold/agents.token")
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    home = Path("/var/lib/wattfold")
    home.mkdir(exist_ok=True)
    home.chmod(0o700)
    shutil.chown(home, ACCOUNT, ACCOUNT)
    os.chmod("/dev/vda", 0o666)


def refuses_a_wrong_configuration() -> None:
    """A wrong configuration stops the agent permanently and is reported with its line."""
    began = time.time()
    right = CONFIG.read_text()
    CONFIG.write_text("node_id = 'n001'\nflor_w = 30\n")
    run("systemctl", "start", UNIT)
    state, status = shown("ActiveState"), shown("ExecMainStatus")
    check("a wrong configuration ends it with status 2", (state, status) == ("failed", "2"), state)
    check("its log names the line", "agent.toml:2: flor_w" in log_since(began - 2))
    CONFIG.write_text(right)
    run("systemctl", "reset-failed", UNIT)


def starts(agent: Agent) -> None:
    """The unit starts; the node is at its floor; its capabilities are minimal."""
    report = run("/opt/wattfold/bin/wattfold-agent", "check", "--config", str(CONFIG))
    print("     " + report.replace("\n", "\n     "), flush=True)
    began = time.monotonic()
    error = run("systemctl", "start", UNIT)
    took_s = time.monotonic() - began
    check("systemctl start waits for the agent", shown("ActiveState") == "active", error)
    if failed:
        raise RuntimeError("nothing else can be tried")
    print(f"     ready after {took_s:.1f} s", flush=True)
    state = shown("ActiveState", JOBS_UNIT)
    check("the unit of the control groups is active", state == "active", state)
    found = agent.ask("GetInventory", pb.GetInventoryRequest())
    masks = pb.MaskMechanism.Name(found.mask_mechanism)
    check("masks are cpusets of version 2", masks.endswith("CPUSET_V2"), masks)
    slowed = pb.ThrottleMechanism.Name(found.throttle_mechanism)
    check("emulated caps use the bandwidth controller", slowed.endswith("BANDWIDTH"), slowed)
    check("the package is at its floor", number(LIMIT) == 30_000_000, number(LIMIT))
    status = Path(f"/proc/{shown('MainPID')}/status").read_text()
    rights = status.split("CapBnd:")[1].split()[0]
    check("its rights are bounded", int(rights, 16).bit_count() == 5, rights)
    score = Path(f"/proc/{shown('MainPID')}/oom_score_adj").read_text().strip()
    check("it is spared when memory is short", score == "-900", score)


def launched(agent: Agent, order: pb.LaunchRequest) -> bool:
    """Start a job. On a slow machine its keeper may be late, and then the job is refused."""
    try:
        agent.send("Launch", order)
    except grpc.RpcError as error:
        print(f"     not started yet: {error.details()}", flush=True)
        return False
    return True


def runs_a_job(agent: Agent) -> int:
    """A job of another account runs; the kernel restricts it to its cores."""
    agent.lease()
    result = agent.cap(60)
    check("a cap is in the zone's file", number(LIMIT) == 60_000_000, result.enforced_uw)
    home = pwd.getpwnam(ACCOUNT).pw_dir
    order = pb.LaunchRequest(
        job_id=JOB,
        argv=["/usr/bin/python3", "-c", SPIN],
        cpus="1-2",
        mode=common.RESIZE_MODE_MASK,
        launch_cpus=2,
        cwd=home,
        user=ACCOUNT,
    )
    check("a job is started", until(lambda: launched(agent, order)))
    pid = agent.jobs()[JOB].pid
    check("the job runs", until(lambda: beat() > 0) and alive(pid), pid)
    status = Path(f"/proc/{pid}/status").read_text()
    uid = int(status.split("Uid:")[1].split()[0])
    check("as its account", uid == pwd.getpwnam(ACCOUNT).pw_uid, uid)
    check("with no rights", int(status.split("CapEff:")[1].split()[0], 16) == 0)
    check("able to gain rights by programs that give them", "NoNewPrivs:\t0" in status)
    score = Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    check("as killable as others when memory is short", score == "0", score)
    check("in a control group of its own", group_of(pid).startswith("/wattfold.slice/"), pid)
    check("the kernel holds its group to its cores", kernel_mask(pid) == "1-2", kernel_mask(pid))
    group = Path(f"/sys/fs/cgroup{group_of(pid)}")
    check(
        "and to a number of processes", number(group / "pids.max") > 0, number(group / "pids.max")
    )
    check("its group can be killed at once", (group / "cgroup.kill").exists(), group)
    threads = threads_allowed(pid)
    check("and all its threads", threads == {"1-2"}, threads)
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    check("its keeper is in the agent's group", group_of(keeper).endswith(UNIT), group_of(keeper))
    return pid


def resizes(agent: Agent, pid: int) -> None:
    """Smaller, larger and other cores work, but no cores outside the node."""
    times = []
    for cpus in ("1", "1-2", "2-3", "1-2"):
        began = time.monotonic()
        agent.mask(cpus)
        times.append((time.monotonic() - began) * 1e3)
        held, threads = kernel_mask(pid), threads_allowed(pid)
        check(f"the job is moved to {cpus}", (held, threads) == (cpus, {cpus}), (held, threads))
    print("     calls took " + ", ".join(f"{t:.0f} ms" for t in times), flush=True)
    run("systemctl", "set-property", "--runtime", "wattfold.slice", "AllowedCPUs=0-1")
    narrowed = until(lambda: kernel_mask(pid) == "1", 60)
    check("limiting the slice narrows the job", narrowed, kernel_mask(pid))
    try:
        agent.mask("2-3")
        check("a mask outside of it is refused", False, kernel_mask(pid))
    except grpc.RpcError as error:
        check(
            "a mask outside of it is refused", "kernel confines" in error.details(), error.details()
        )
    run("systemctl", "set-property", "--runtime", "wattfold.slice", "AllowedCPUs=0-3")
    back = until(lambda: kernel_mask(pid) == "1-2", 60)
    check("and leaves it what it had when that is over", back, kernel_mask(pid))


def stands_beside_systemd(pid: int) -> None:
    """Systemd's own changes of control groups do not affect the groups of jobs."""
    run("systemctl", "daemon-reload")
    run("systemd-run", "--wait", "-p", "CPUQuota=50%", "-p", "AllowedCPUs=0", "/usr/bin/true")
    run("systemctl", "daemon-reexec")
    time_to_settle = until(lambda: shown("ActiveState") == "active", 120)
    check("after daemon-reload and daemon-reexec the agent is active", time_to_settle)
    check("and the mask holds", kernel_mask(pid) == "1-2", kernel_mask(pid))
    refused = run("systemctl", "stop", JOBS_UNIT)
    check("systemd refuses to stop the control groups of jobs", "refused" in refused, refused)


def outlives_a_kill(agent: Agent, pid: int) -> None:
    """After kill -9, systemd starts another agent, which adopts the job and goes to the floor."""
    began, old = time.time(), shown("MainPID")
    os.kill(int(old), signal.SIGKILL)
    back = until(lambda: shown("ActiveState") == "active" and shown("MainPID") not in (old, "0"))
    check("after kill -9 systemd starts another agent", back, shown("NRestarts"))
    print(f"     it was back after {time.time() - began:.1f} s", flush=True)
    after_restart(agent, pid, began)
    check("the package is at its floor again", until(lambda: number(LIMIT) == 30_000_000, 30))
    agent.lease()
    check("a lease and a cap are taken", agent.cap(55).enforced_uw == 55_000_000)


def after_restart(agent: Agent, pid: int, began: float) -> None:
    """The job is the same, known, restricted to its cores, and can be resized."""
    check("the job runs on", goes_on(pid), pid)
    info = agent.jobs().get(JOB)
    check("the new agent has adopted it", info is not None and info.pid == pid, info and info.pid)
    check("its log says so", "job_adopted" in log_since(began - 1))
    check("the kernel held the mask", kernel_mask(pid) == "1-2", kernel_mask(pid))
    agent.mask("3")
    check("it can be resized", kernel_mask(pid) == "3", kernel_mask(pid))
    agent.mask("1-2")


def outlives_a_hang(agent: Agent, pid: int) -> None:
    """If an agent hangs, the guard ends its lease, and systemd kills and restarts it."""
    agent.lease(5)
    agent.cap(50)
    old, began = shown("MainPID"), time.time()
    os.kill(int(old), signal.SIGSTOP)
    floor = until(lambda: number(LIMIT) == 30_000_000, 60)
    check("the guard of a stopped agent sets the floor", floor, f"{time.time() - began:.1f} s")
    check("before systemd does anything", shown("MainPID") == old)
    back = until(lambda: shown("ActiveState") == "active" and shown("MainPID") not in (old, "0"))
    check("the watchdog has it replaced", back, f"{time.time() - began:.0f} s")
    after_restart(agent, pid, began)


def quota_of(pid: int) -> str:
    """The quota of emulated caps on a job."""
    return Path(f"/sys/fs/cgroup{group_of(pid)}/cpu.max").read_text().split()[0]


def outlives_orderly_stops(agent: Agent, pid: int) -> None:
    """Restart and stop keep the job and the floor; the limits return on request."""
    began = time.time()
    run("systemctl", "restart", UNIT)
    check("systemctl restart", shown("ActiveState") == "active")
    after_restart(agent, pid, began)
    agent.lease()
    agent.cap(50)
    run("systemctl", "stop", UNIT)
    state = shown("ActiveState")
    check("systemctl stop", state == "inactive", state)
    check("the package stays at its floor", number(LIMIT) == 30_000_000, number(LIMIT))
    check("the job runs on without an agent", goes_on(pid))
    check("in its cores", kernel_mask(pid) == "1-2" and threads_allowed(pid) == {"1-2"})
    check("slowed to the emulated floor", quota_of(pid) != "max", quota_of(pid))
    said = run(
        "/opt/wattfold/bin/wattfold-agent", "restore", "--config", "/etc/wattfold/agent.toml"
    )
    check("restore says what the node may draw", "may draw up to" in said, said)
    check("the limit found at the start is restored", number(LIMIT) == 95_000_000, number(LIMIT))
    check("the job has no quota of emulated caps then", quota_of(pid) == "max", quota_of(pid))
    guards = run("pgrep", "-x", "wattfold-guard")
    check("no guard is left", guards == "", guards)
    began = time.time()
    run("systemctl", "start", UNIT)
    after_restart(agent, pid, began)


def ends_the_job(agent: Agent, pid: int) -> None:
    """The job is ended, its end is known, and its control group no longer exists."""
    group = Path("/sys/fs/cgroup" + group_of(pid))
    agent.command("Signal", pb.SignalRequest, job_id=JOB, signal=15, grace_ns=int(20e9))
    ended = until(lambda: agent.jobs()[JOB].state == pb.PROCESS_STATE_ENDED)
    info = agent.jobs()[JOB]
    check("the job ends when it is told to", ended and info.signal == 15, info.signal)
    check("its control group is removed", until(lambda: not group.exists(), 20))


def coordinates() -> None:
    """The coordinator's unit runs a job through the whole site."""
    agent_token = Path("/etc/wattfold/coordinator-agents.token")
    agent_token.write_text(TOKEN + "\n")
    agent_token.chmod(0o600)
    shutil.chown(agent_token, ACCOUNT, ACCOUNT)
    Path("/etc/wattfold/coordinator.toml").write_text(
        'listen = "unix:/run/wattfold/coordinator.sock"\n'
        'state_dir = "/var/lib/wattfold/coordinator"\nbudget_w = 200.0\n'
        f'agent_token_file = "{agent_token}"\npolicy = "fifo"\nlease_s = 60.0\n'
        'command_timeout_s = 20.0\n\n[[node]]\nid = "n001"\naddress = "127.0.0.1:7070"\n'
    )
    run("systemctl", "start", "wattfold-coordinator.service")
    as_account = ("setpriv", "--reuid", ACCOUNT, "--regid", ACCOUNT, "--init-groups", "env",
                  "-C", "/var/lib/wattfold", "/opt/wattfold/bin/wattfold",
                  "--coordinator", "unix:/run/wattfold/coordinator.sock")  # fmt: skip

    def node_is_up() -> bool:
        text = run(*as_account, "--json", "nodes")
        return "NODE_STATE_UP" in text

    check("the coordinator's unit starts and the node is up", until(node_is_up))
    if failed and failed[-1].startswith("the coordinator"):
        print(run(*as_account, "--json", "nodes"))
        print(run("journalctl", "-q", "-o", "cat", "-n", "40", "-u", "wattfold-coordinator"))
        return
    home = pwd.getpwnam(ACCOUNT).pw_dir
    print("     " + run(*as_account, "submit", "--cores", "2", "--", "/bin/sh", "-c",
                        "cat /proc/self/status > seen; id -un >> seen"), flush=True)  # fmt: skip
    seen = Path(home) / "seen"
    done = until(lambda: seen.exists() and seen.read_text().endswith(f"{ACCOUNT}\n"))
    check("a submitted job runs under the coordinator's account", done)
    run("systemctl", "stop", "wattfold-coordinator.service")
    result = shown("Result", "wattfold-coordinator.service")
    check("systemctl stop of the coordinator", result == "success", result)


def main() -> None:
    """Run all steps. An exception in a step is a failed check."""
    agent = Agent()
    job: dict[str, int] = {}

    def started() -> None:
        job["pid"] = runs_a_job(agent)

    steps: list[Callable[[], None]] = [
        machine,
        install,
        refuses_a_wrong_configuration,
        lambda: starts(agent),
        started,
        lambda: resizes(agent, job["pid"]),
        lambda: stands_beside_systemd(job["pid"]),
        lambda: outlives_a_kill(agent, job["pid"]),
        lambda: outlives_a_hang(agent, job["pid"]),
        lambda: outlives_orderly_stops(agent, job["pid"]),
        lambda: ends_the_job(agent, job["pid"]),
        coordinates,
    ]
    for step in steps:
        try:
            step()
        except Exception:  # noqa: BLE001 - the other steps still tell something
            check("a step of the trial", False, traceback.format_exc())
            if not job:
                break
    if failed:
        print(run("journalctl", "-q", "-b", "-o", "short-monotonic", "-n", "150", "-u", UNIT))
        print(f"vm_trial: {len(failed)} of {checks} failed: {'; '.join(failed)}", flush=True)
    else:
        print(f"vm_trial: all held ({checks} checks)", flush=True)


if __name__ == "__main__":
    main()
