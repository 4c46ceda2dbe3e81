"""Slurm as a resource manager, through the formatted output of its commands.

Formatted output is the cheapest way to ask slurmctld, and it is the same in all releases; JSON
takes 5 to 10 times as long, and its layout changes with each release. Every command is a process
with a time limit, so that the loop never waits for slurmctld. Its output is parsed in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from wattfold.contract.ids import JobId, NodeId, valid_name
from wattfold.contract.units import NS_PER_S
from wattfold.coordinator.adapters.resource_manager.hostlist import names_in
from wattfold.coordinator.adapters.resource_manager.port import ManagerError, ManagerFacts
from wattfold.coordinator.adapters.resource_manager.settings import SlurmSettings
from wattfold.coordinator.core.model.resource_manager import (
    SLURM,
    ManagedEnd,
    ManagedJob,
    ManagedNode,
    ManagedState,
)

JOBS_MAX = 200_000
ASKED_MAX = 500
"""Maximum number of ended jobs in one question."""
_ERROR_MAX = 300
_FORMAT = "%A|%i|%T|%u|%U|%P|%C|%N|%V|%S|%l|%r|%j"
_FIELDS = _FORMAT.count("|") + 1
# The exit code is wait(2)'s. squeue prints it as a number in all releases.
_END_FORMAT = "JobID:32,State:32,exit_code:32"
_STATES = {
    "PENDING": ManagedState.PENDING,
    "REQUEUED": ManagedState.PENDING,
    "REQUEUE_HOLD": ManagedState.PENDING,
    "REQUEUE_FED": ManagedState.PENDING,
    "SPECIAL_EXIT": ManagedState.PENDING,
    "RESV_DEL_HOLD": ManagedState.PENDING,
    "RUNNING": ManagedState.RUNNING,
    "CONFIGURING": ManagedState.RUNNING,
    "COMPLETING": ManagedState.RUNNING,
    "RESIZING": ManagedState.RUNNING,
    "SIGNALING": ManagedState.RUNNING,
    "STAGE_OUT": ManagedState.RUNNING,
    "STOPPED": ManagedState.SUSPENDED,
    "SUSPENDED": ManagedState.SUSPENDED,
}
"""Open jobs by Slurm's states. Jobs in other states have ended."""
_PLAIN_NODES = frozenset({"idle", "mixed", "allocated", "completing", "reserved", "planned"})
_COMMENT_MAX = 200


class Slurm:
    """A Slurm that its commands reach. See `port.ResourceManager`."""

    name = SLURM

    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings

    async def read(self) -> ManagerFacts:
        """Return the open jobs and the nodes."""
        states = ",".join(_STATES)
        jobs, nodes = await asyncio.gather(
            self._run("squeue", "-h", "-a", "-t", states, "-o", _FORMAT),
            self._run("sinfo", "-h", "-a", "-N", "-o", "%N|%T"),
        )
        return await asyncio.to_thread(_facts, jobs, nodes)

    async def ends(self, job_ids: Collection[JobId]) -> tuple[ManagedEnd, ...]:
        """Return how jobs ended. Slurm forgets them after MinJobAge."""
        asked = list(job_ids)[:ASKED_MAX]
        numbers = ",".join(number_of(job_id) for job_id in asked)
        try:
            # Without -r, squeue fails if it knows none of the jobs.
            text = await self._run(
                "squeue", "-h", "-a", "-t", "all", "-j", numbers, "-O", _END_FORMAT
            )
        except ManagerError as error:
            if "Invalid job id" not in str(error):
                raise
            text = ""
        found = {end.job_id: end for end in _ends(text)}
        still_open = {JobId(f"{SLURM}-{number}") for number in _open_numbers(text)}
        message = "Slurm no longer knows this job, so its result is unknown"
        return tuple(
            found.get(job_id) or ManagedEnd(job_id=job_id, lost=True, message=message)
            for job_id in asked
            if job_id not in still_open
        )

    async def tell(self, comments: Mapping[JobId, str]) -> None:
        """Set the comments of jobs with one scontrol, one line for each job."""
        lines = [
            # The comment belongs to the user, the administrator's comment to the site.
            f'update JobId={number_of(job_id)} AdminComment="{_plain(text)}"'
            for job_id, text in comments.items()
        ]
        if lines:
            # scontrol reports a job that has ended on its output, and continues.
            await self._run("scontrol", "-Q", stdin="\n".join([*lines, "quit", ""]), may_fail=True)

    async def offer(self, watts: int) -> None:
        """Let the reservation hold all licences but ``watts``; make it if there is none.

        A reservation of licences alone changes without a new configuration of Slurm. If jobs
        use more than is left, Slurm lets them run, but starts no other job.
        """
        total, name = self._settings.licence_total, self._settings.reservation
        held = f"Licenses=watts:{max(total - max(watts, 0), 0)}"
        try:
            await self._run("scontrol", "update", f"ReservationName={name}", held)
        except ManagerError as error:
            if "not found" not in str(error).lower() and "invalid" not in str(error).lower():
                raise
            words = ("StartTime=now", "Duration=infinite", "Users=root", "Flags=LICENSE_ONLY")
            await self._run("scontrol", "create", f"ReservationName={name}", *words, held)

    async def _run(self, name: str, *words: str, stdin: str = "", may_fail: bool = False) -> str:
        """Run a command of Slurm and return its output."""
        settings = self._settings
        program = str(Path(settings.commands) / name) if settings.commands else name
        environment = {n: v for n, v in os.environ.items() if not n.startswith("SQUEUE_")}
        if settings.conf:
            environment["SLURM_CONF"] = settings.conf
        # Times without a zone would depend on the environment of the coordinator.
        environment["SLURM_TIME_FORMAT"] = "%s"
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *words,
                stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise ManagerError(f"{program} cannot be started: {error.strerror}") from error
        try:
            async with asyncio.timeout(settings.timeout_s):
                out, errors = await process.communicate(stdin.encode() or None)
        except TimeoutError:
            raise ManagerError(f"{name} did not answer within {settings.timeout_s:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode and not may_fail:
            said = errors.decode(errors="replace").strip().splitlines()
            why = said[-1][:_ERROR_MAX] if said else f"exit status {process.returncode}"
            raise ManagerError(f"{name} failed: {why}")
        return out.decode(errors="replace")


def number_of(job_id: JobId) -> str:
    """Return Slurm's number of a job."""
    return job_id.removeprefix(f"{SLURM}-")


def _facts(jobs: str, nodes: str) -> ManagerFacts:
    return ManagerFacts(jobs=tuple(_jobs(jobs)), nodes=tuple(_nodes(nodes)))


def _jobs(text: str) -> Iterable[ManagedJob]:
    lines = text.splitlines()
    if len(lines) > JOBS_MAX:
        raise ManagerError(f"squeue lists {len(lines)} jobs; the limit is {JOBS_MAX}")
    for line in lines:
        # The name of a job comes last, because it may contain every character.
        words = line.split("|", _FIELDS - 1)
        if len(words) != _FIELDS:
            raise ManagerError(f"squeue printed an unknown line: {line[:80]!r}")
        number, label, state, user, uid, partition, cores, hosts, submitted, started, limit = words[
            :11
        ]
        known = _STATES.get(state)
        if known is None:
            continue
        runs = known is not ManagedState.PENDING
        yield ManagedJob(
            job_id=JobId(f"{SLURM}-{_whole(number)}"),
            label=label,
            state=known,
            name="".join(c if c.isprintable() else "?" for c in words[12])[:100] or "job",
            user=user,
            uid=_whole(uid),
            partition=partition,
            cores=_whole(cores),
            nodes=tuple(NodeId(n) for n in names_in(hosts) if valid_name(n)) if runs else (),
            submitted=submitted,
            started=started if runs else "",
            limit_ns=_limit_ns(limit),
            reason="" if runs or words[11] == "None" else words[11],
        )


def _nodes(text: str) -> Iterable[ManagedNode]:
    """Yield the nodes that are not simply available. A node of several partitions appears once."""
    seen: set[str] = set()
    for line in text.splitlines():
        name, _, state = line.partition("|")
        if name in seen or state in _PLAIN_NODES or not valid_name(name):
            continue
        seen.add(name)
        yield ManagedNode(node_id=NodeId(name), state=state)


def _ends(text: str) -> Iterable[ManagedEnd]:
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[1] in _STATES:
            continue
        number, state = words[:2]
        status = _whole(words[2]) if len(words) > 2 and words[2].isdigit() else 0
        code = 128 + (status & 127) if status & 127 else status >> 8
        yield ManagedEnd(
            job_id=JobId(f"{SLURM}-{_whole(number)}"),
            exit_code=code or int(state in ("FAILED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")),
            cancelled=state.startswith(("CANCELLED", "PREEMPTED", "REVOKED")),
            timed_out=state == "TIMEOUT",
            lost=state == "NODE_FAIL",
            message="" if state == "COMPLETED" else f"{state} in Slurm",
        )


def _open_numbers(text: str) -> Iterable[str]:
    """Yield the numbers of jobs that became open since they were missing in a list."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1] in _STATES:
            yield words[0]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ManagerError(f"Slurm printed {text[:40]!r} where a number is expected")
    return int(text)


def _limit_ns(text: str) -> int:
    """Return a time limit, [DAYS-]HOURS:MINUTES:SECONDS or shorter; 0 = none, or unknown."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in parts) or (dash and not days.isdigit()):
        return 0  # UNLIMITED, INVALID or NOT_SET.
    seconds = 0
    for part in parts:
        seconds = seconds * 60 + int(part)
    return (seconds + int(days or 0) * 86_400) * NS_PER_S


def _plain(text: str) -> str:
    """Return a comment that is one word for scontrol."""
    kept = "".join(c for c in text if c.isprintable() and c not in "\"'\\")
    return kept[:_COMMENT_MAX]
