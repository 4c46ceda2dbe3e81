"""Jobs that keep working on cores they have lost: accounted and reported, but never slowed."""

import ast
import itertools
import os
import re
import sys
from pathlib import Path

import pytest
from system.agent.agent_process import agent, family, until
from system.agent.conftest import CPUS, EMULATE, emulation_file, need_two_cpus

import wattfold.nodeagent.app

BOTH = ",".join(map(str, CPUS))
KEEPER_SOURCES = Path(__file__).resolve().parents[3] / "runtime_shims" / "keeper"
# A thread that takes its old core back repeatedly and works there.
STRAY = """
import os, sys, threading, time
back = {int(sys.argv[1])}
def stray():
    while True:
        os.sched_setaffinity(0, back)
        end = time.monotonic() + 0.05
        while time.monotonic() < end: pass
threading.Thread(target=stray, daemon=True).start()
threading.Event().wait()
"""
BURN = ["sh", "-c", "(while :; do :; done) & while :; do :; done"]


def usage(message, job):
    return next((entry for entry in message.jobs if entry.job_id == job), None)


def seen(running, job, condition):
    found = running.telemetry(lambda m: usage(m, job) is not None and condition(usage(m, job)))
    return usage(found, job)


def priorities(pid):
    """Nice value and scheduling policy of every thread of a job."""
    tasks = [Path(f"/proc/{m}/task") for m in family(pid)]
    stats = itertools.chain.from_iterable(folder.glob("*/stat") for folder in tasks)
    fields = [path.read_text().rpartition(")")[2].split() for path in stats]
    return {(f[16], f[38]) for f in fields}


@pytest.fixture
def loose_agent(tmp_path):
    """An agent that confines jobs by affinity only, with a short alarm window."""
    need_two_cpus()
    flags = ("--masks", "affinity", "--throttle", "signals", "--residual-window-s", "1")
    with agent("--config", emulation_file(tmp_path), *flags, *EMULATE) as running:
        running.lease()
        running.caps(package_0=95, dram_0=35)
        yield running


def stray(running):
    """A job on its first core only, with a thread that works on the second core."""
    pid = running.launch("s", [sys.executable, "-c", STRAY, str(CPUS[1])], BOTH).pid
    seen(running, "s", lambda u: u.cpu_ns > 100_000_000)
    running.mask("s", str(CPUS[0]))
    return pid


def test_work_on_a_lost_core_is_accounted_to_job_and_core(loose_agent):
    loose_agent.launch("s", [sys.executable, "-c", STRAY, str(CPUS[1])], BOTH)
    before = seen(loose_agent, "s", lambda u: u.cpu_ns > 200_000_000)
    assert not before.residual_cores, "on cores that it holds it may work"
    loose_agent.mask("s", str(CPUS[0]))
    found = seen(loose_agent, "s", lambda u: u.residual_alarm)
    assert [core.cpu for core in found.residual_cores] == [CPUS[1]]
    assert found.residual_cores[0].cpu_ns == found.residual_cpu_ns > 0
    assert found.residual_cores[0].load > 0.05
    assert found.residual_cpu_ns < found.cpu_ns
    assert "residual_alarm job=s" in loose_agent.log()
    loose_agent.mask("s", BOTH)
    calm = seen(loose_agent, "s", lambda u: not u.residual_alarm)
    assert calm.residual_cpu_ns >= found.residual_cpu_ns


def test_cores_are_handed_on_with_what_is_left_on_them(loose_agent):
    stray(loose_agent)
    seen(loose_agent, "s", lambda u: u.residual_alarm)
    loose_agent.launch("next", ["sleep", "100"], str(CPUS[1]))
    line = next(x for x in loose_agent.log().splitlines() if "cores_taken_with_residual" in x)
    assert "job=next" in line
    assert "residual_of=s" in line
    assert f"cpus={CPUS[1]}" in line
    innocent = seen(loose_agent, "next", lambda u: u.threads == 1)
    assert not innocent.residual_cores


def test_residual_work_keeps_its_priority(loose_agent):
    pid = loose_agent.launch("s", [sys.executable, "-c", STRAY, str(CPUS[1])], BOTH).pid
    seen(loose_agent, "s", lambda u: u.threads == 2)
    before = priorities(pid)
    assert before == {(str(os.getpriority(os.PRIO_PROCESS, 0)), str(os.SCHED_OTHER))}
    loose_agent.mask("s", str(CPUS[0]))
    seen(loose_agent, "s", lambda u: u.residual_alarm)
    loose_agent.launch("next", ["sleep", "100"], str(CPUS[1]))
    later = seen(loose_agent, "s", lambda u: u.residual_alarm).residual_cpu_ns
    seen(loose_agent, "s", lambda u: u.residual_cpu_ns > later + 100_000_000)
    assert priorities(pid) == before


def test_no_code_of_the_agent_can_lower_a_priority():
    """Residual processes take part in reductions of their job, so starving one process stalls the
    job.
    """
    forbidden = {"nice", "setpriority", "sched_setscheduler", "sched_setparam", "ionice"}
    files = list(Path(wattfold.nodeagent.app.__file__).parent.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            assert name not in forbidden, f"{path}:{node.lineno}"
            assert not (isinstance(name, str) and name.startswith("SCHED_IDLE")), path


def test_a_keeper_raises_its_priority_and_does_not_lower_it():
    """To end fork bombs."""
    sources = {path.name: path.read_text() for path in KEEPER_SOURCES.glob("*.c")}
    text = "".join(sources.values())
    assert len(sources) > 5
    assert "#define NICE (-10)\n" in sources["keeper.c"]
    assert text.count("setpriority(PRIO_PROCESS, 0, NICE)") == text.count("setpriority") == 1
    assert not re.findall(r"\bnice\(|sched_setscheduler|sched_setparam|ioprio_set", text)


def test_runnable_threads_above_the_mask_are_told(any_agent):
    any_agent.lease()
    any_agent.caps(package_0=95, dram_0=35)
    any_agent.launch("b", BURN, BOTH)
    any_agent.mask("b", str(CPUS[0]))
    found = seen(any_agent, "b", lambda u: u.excess_runnable_ns > 200_000_000)
    assert found.runnable_threads == 2
    assert found.threads == 2
    assert found.involuntary_switches > 0
    assert found.memory_bytes_max >= found.memory_bytes > 0
    assert not found.residual_alarm


def test_cores_and_time_held_and_the_idle_share_are_told(any_agent):
    any_agent.lease()
    any_agent.caps(package_0=95, dram_0=35)
    any_agent.launch("h", ["sleep", "100"], BOTH)
    first = seen(any_agent, "h", lambda u: u.idle_energy_uj > 1_000_000)
    begun_uj, until_uj = first.idle_energy_uj, first.idle_energy_uj + 2_000_000
    later = seen(any_agent, "h", lambda u: u.idle_energy_uj > until_uj)
    # It holds all cores, so all of the idle energy is its share. It does nothing after its start,
    # which takes long on a busy machine.
    assert later.energy_uj - first.energy_uj < later.idle_energy_uj - begun_uj
    any_agent.mask("h", str(CPUS[0]))
    until(lambda: any_agent.processes()["h"].core_ns > first.core_ns + 500_000_000)
    info = any_agent.processes()["h"]
    assert info.core_ns < 2 * info.elapsed_ns
    assert info.idle_energy_uj > first.idle_energy_uj


def test_what_was_accounted_survives_a_restart(loose_agent):
    stray(loose_agent)
    # Only saved values survive a kill. They are saved at a change of mask and at an orderly stop.
    seen(loose_agent, "s", lambda u: u.residual_alarm)
    loose_agent.mask("s", BOTH)
    saved = seen(loose_agent, "s", lambda u: bool(u.residual_cores))
    loose_agent.kill()
    loose_agent.start()
    found = seen(loose_agent, "s", lambda u: u.threads == 2)
    assert found.residual_cores[0].cpu == CPUS[1]
    assert found.residual_cpu_ns >= saved.residual_cpu_ns
    assert found.core_ns >= saved.core_ns
