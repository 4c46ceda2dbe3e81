#!/usr/bin/env python3
"""Measure the history of ended jobs: a year at 10,000 jobs a day, generated in a temporary folder.

Prints the size of the file and the time of each report and list. Also prints the CPU time of the
event loop for each ended job, and the time that the thread needs to write it into the full file.

    scripts/benchmarks/history.py [--days 365] [--per-day 10000] [--json]

Targets: any report within 2 s, a file below 2 GB, and less than 1 % of the loop while ten jobs end
every second. Exits with status 1 if one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from wattfold.contract.cpuset import CpuSet
from wattfold.contract.ids import JobId, NodeId
from wattfold.coordinator.adapters.clock import Clock
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.history import answers
from wattfold.coordinator.adapters.history.file import NAME, HistoryFile, sum_again
from wattfold.coordinator.adapters.history.questions import BY, HistoryQuestion, ReportQuestion
from wattfold.coordinator.adapters.history.recorder import KEEP_DAYS, HistoryRecorder
from wattfold.coordinator.adapters.history.rows import COLUMNS, EndedJob, row_of
from wattfold.coordinator.adapters.history.watts import Traded
from wattfold.coordinator.core.machine import CoordinatorCore
from wattfold.coordinator.core.model.job import Job, JobState
from wattfold.coordinator.core.model.jobs.rank import Rank, RankEnd
from wattfold.coordinator.core.model.jobs.spec import JobSpec
from wattfold.coordinator.core.state.changes import Changes

REPORT_S_MAX = 2.0
BYTES_MAX = 2_000_000_000
LOOP_SHARE_MAX = 0.01
ENDS_PER_S = 10
USERS, APPS, QUEUES = 500, 300, 5
ENDED = 5_000
S = 1_000_000_000
OPERATOR = Peer(uid=0, account="root", address="unix")
USER = Peer(uid=1, account="user1", address="unix")
LISTS = {
    "newest": HistoryQuestion(viewer=OPERATOR),
    "of one user": HistoryQuestion(viewer=OPERATOR, user="user1"),
    "by energy": HistoryQuestion(viewer=OPERATOR, sort="energy"),
    "failed, of one application": HistoryQuestion(
        viewer=OPERATOR, states=("failed",), app="app285"
    ),
    "by energy, for a user": HistoryQuestion(viewer=USER, sort="energy"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--days", type=int, default=365, help="Days of the history.")
    parser.add_argument("--per-day", type=int, default=10_000, help="Jobs of each day.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wattfold-history-") as folder:
        path = Path(folder) / NAME
        count = arguments.days * arguments.per_day
        _generate(path, arguments.days, arguments.per_day)
        found = {"jobs": count, "file_bytes": path.stat().st_size} | _answers(path)
        found |= asyncio.run(_recording(path))
    missed = _missed(found)
    if arguments.json:
        print(json.dumps(found | {"missed": missed}, indent=1))
    else:
        for name, value in found.items():
            print(f"{name:45}{value:14.6g}{'   MISSED' if name in missed else ''}")
    return 1 if missed else 0


def _missed(found: dict[str, float]) -> list[str]:
    missed = [n for n, value in found.items() if n.startswith("report") and value > REPORT_S_MAX]
    if found["file_bytes"] > BYTES_MAX:
        missed.append("file_bytes")
    if found["loop_share"] > LOOP_SHARE_MAX:
        missed.append("loop_share")
    return missed


def _generate(path: Path, days: int, per_day: int) -> None:
    """Fill a file with jobs of skewed users and applications, as the triggers would sum them."""
    file = HistoryFile(path, "year")
    row = row_of(_ended(0), Clock(), "parm-wse", Traded(1, 1, 1))
    words = [replace(row, job=f"u{n}", user=f"user{n}") for n in range(USERS)]
    words += [replace(row, job=f"a{n}", app=f"app{n}") for n in range(APPS)]
    words += [replace(row, job=f"q{n}", queue=f"queue{n}") for n in range(QUEUES)]
    words += [replace(row, job=f"s{s}", state=s) for s in ("completed", "failed", "lost")]
    file.write(words)
    file.write([], gone=[one.job for one in words])
    file.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        ids = dict(db.execute("SELECT text, id FROM words"))
        db.execute("DROP TRIGGER job_added")
        db.execute("DROP TRIGGER job_removed")
        db.execute("BEGIN")
        for day in range(days):
            db.execute(_jobs_of_a_day(row, ids), {"day": day, "date": _day(day), "n": per_day})
        sum_again(db)
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _day(days: int) -> int:
    local = time.localtime(1_767_268_800 + days * 86_400)
    return local.tm_year * 10_000 + local.tm_mon * 100 + local.tm_mday


def _jobs_of_a_day(row: EndedJob, ids: dict[str, int]) -> str:
    """Return the statement that inserts ``:n`` jobs. The numbers only look random."""
    number = "(:day * :n + i)"
    chance = f"(abs({number} * 2654435761 + {number} * {number} * 40503) % 1000003)"
    end = "(1767268800000 + :day * 86400000 + i * 86400000 / :n)"
    user = f"({ids['user0']} + {chance} * {chance} / 1000003 * {USERS} / 1000003)"
    values = {
        "job": f"CAST({number} AS TEXT)",
        "name": f"'simulation-' || ({chance} % 977)",
        "user": user,
        "uid": f"{user} - {ids['user0']}",
        "app": f"{ids['app0']} + ({chance} / 7 + {user} * 3) % 20 * 15",
        "queue": f"{ids['queue0']} + {chance} % {QUEUES}",
        "state": f"iif({chance} % 20, {ids['completed']}, {ids['failed']})",
        "submit_ms": f"{end} - 9000000",
        "start_ms": f"{end} - {chance}",
        "end_ms": end,
        "day": ":date",
        "node_list": f"'node[' || ({chance} % 900 + 100) || '-' || ({chance} % 900 + 107) || ']'",
        "core_ms": f"{chance} * 8",
        "energy_mj": f"{chance} * 40",
    }
    kept = {name: getattr(row, name) for name in COLUMNS}
    kept |= {"unit": ids[row.unit], "policy": ids[row.policy]}
    cells = (values.get(name, repr(kept[name])) for name in COLUMNS)
    return (
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < :n) "
        f"INSERT INTO jobs SELECT {ids['journal year']}, {', '.join(cells)} FROM c"
    )


def _answers(path: Path) -> dict[str, float]:
    found = {}
    for by in BY:
        for viewer in (OPERATOR, USER):
            question = ReportQuestion(viewer=viewer, by=by)
            name = f"report by {by} for {viewer.account}, s"
            found[name] = _seconds(lambda q=question: answers.report(path, q))
    for name, listed in LISTS.items():
        found[f"list: {name}, s"] = _seconds(lambda q=listed: answers.history(path, q))
    return found


def _seconds(answer: Callable[[], bytes]) -> float:
    began_s = time.monotonic()
    assert answer(), "an empty answer"
    return time.monotonic() - began_s


def _ended(number: int) -> Job:
    end = RankEnd(exit_code=0, cpu_ns=90 * S, energy_uj=5_000_000, core_ns=200 * S)
    nodes = [NodeId(f"node{100 + number % 800 + n}") for n in range(8)]
    return Job(
        job_id=JobId(f"new{number}"),
        spec=JobSpec(name="bench", app="new", argv=("true",), user="new", uid=1),
        state=JobState.COMPLETED,
        submitted_ns=0,
        started_ns=S,
        ended_ns=100 * S,
        ranks={name: Rank(node_id=name, held=CpuSet(), end=end) for name in nodes},
        capped_ns=99 * S,
        cap_uw_ns=45_000_000 * 99 * S,
    )


async def _recording(path: Path) -> dict[str, float]:
    """End jobs one by one, as the service tells them, then write them into the full file."""
    clock, state = Clock(), CoordinatorCore(1).state
    recorder = HistoryRecorder(path, "year", clock, lambda: state, lambda: "parm-wse", KEEP_DAYS)
    recorder.start()
    await recorder.flush()
    changes = []
    for number in range(ENDED):
        job = _ended(number)
        job.ended_ns = clock.now_ns()
        state.jobs[job.job_id] = job
        changes.append(Changes(jobs={job.job_id: None}))
    began_s = time.thread_time()
    for change in changes:
        recorder.note(change)
    noted_s = time.thread_time() - began_s
    cpu_s, began_s = time.process_time(), time.monotonic()
    await recorder.flush()
    # All CPU time of the writing thread counts, as if it never released the interpreter.
    cpu_s, written_s = time.process_time() - cpu_s, time.monotonic() - began_s
    await recorder.close()
    return {
        "loop_us_per_job": noted_s / ENDED * 1e6,
        "written_us_per_job": written_s / ENDED * 1e6,
        "thread_cpu_us_per_job": cpu_s / ENDED * 1e6,
        "loop_share": (noted_s + cpu_s) / ENDED * ENDS_PER_S,
    }


if __name__ == "__main__":
    sys.exit(main())
