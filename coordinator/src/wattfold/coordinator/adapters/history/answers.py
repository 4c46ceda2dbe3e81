"""Answers from the history file, as serialised messages of the API. They run in a worker process.

For users who are no operators, the private columns of jobs of other accounts are NULL below all
criteria and orders, so no filter and no order reveals them. A report counts only their own jobs.
"""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from pathlib import Path

from wattfold.coordinator.adapters.copies.job_messages import job_state
from wattfold.coordinator.adapters.door.peers import Peer
from wattfold.coordinator.adapters.history.file import ADDED, reading
from wattfold.coordinator.adapters.history.folded_names import holds
from wattfold.coordinator.adapters.history.questions import (
    BY,
    LIMIT_DEFAULT,
    LIMIT_MAX,
    SORTS,
    HistoryQuestion,
    ReportQuestion,
)
from wattfold.coordinator.adapters.history.rows import COLUMNS, WORDS
from wattfold.coordinator.adapters.requests.wire_enums import UNITS
from wattfold.coordinator.core.model.job import FINAL_STATES
from wattfold.v1 import coordinator_pb2 as pb

PUBLIC = frozenset(
    {
        *("series", "job", "user", "uid", "state", "submit_ms", "start_ms", "end_ms", "nodes"),
        *("node_list", "size_min", "size_max", "unit"),
    }
)
"""Columns that all users who can connect may see, as in the queue."""
_UNITS = {unit.value: number for number, unit in UNITS.items() if number}
_STATES = {state.value: job_state(state) for state in FINAL_STATES}
_MS_PER_H = 3_600_000
_MJ_PER_KWH = 3_600_000_000
_OWN = "(uid = :uid OR (uid = -1 AND user = :own_word))"
_ROWS_PER_QUERY = 500
_LISTS = 10_000


def history(path: Path, question: HistoryQuestion) -> bytes:
    """Return a `ListHistoryResponse`. Raises HistoryError."""
    with reading(path) as db:
        return (_listed(db, question) if db else pb.ListHistoryResponse()).SerializeToString()


def report(path: Path, question: ReportQuestion) -> bytes:
    """Return a `GetReportResponse`. Raises HistoryError."""
    with reading(path) as db:
        answer = _reported(db, question) if db else pb.GetReportResponse()
        answer.own_only = not question.viewer.operator
        return answer.SerializeToString()


def _asked_by(db: sqlite3.Connection, viewer: Peer) -> dict[str, object]:
    found = _word_ids(db, (viewer.account,)) if viewer.account else ()
    return {"uid": viewer.uid, "own_word": found[0] if found else -1}


def _visible(viewer: Peer) -> str:
    """Return the table of jobs as this account may see it."""
    if viewer.operator:
        return f"SELECT rowid AS row, *, {_OWN} AS own FROM jobs"  # noqa: S608 - constants
    columns = (
        name if name in PUBLIC else f"iif({_OWN}, {name}, NULL) AS {name}"
        for name in ("series", *COLUMNS)
    )
    return f"SELECT rowid AS row, {', '.join(columns)}, {_OWN} AS own FROM jobs"  # noqa: S608 - constants


def _listed(db: sqlite3.Connection, question: HistoryQuestion) -> pb.ListHistoryResponse:
    own = _asked_by(db, question.viewer)
    values = dict(own)
    where = _criteria(db, question, values)
    way = "ASC" if question.ascending else "DESC"
    order = SORTS[question.sort]
    if order in WORDS:
        order = f"(SELECT text FROM words WHERE id = {order})"  # noqa: S608 - constants
    # Jobs with equal values follow each other by their ends.
    order = f"{order} {way}" if question.sort == "end" else f"{order} {way}, end_ms {way}"
    limit = min(question.limit or LIMIT_DEFAULT, LIMIT_MAX)
    values["limit"] = limit + 1
    visible = _visible(question.viewer)
    # Whole rows are read only after the sort: it would carry all columns of a year.
    chosen = db.execute(
        f"SELECT row FROM ({visible}) WHERE {where} ORDER BY {order} LIMIT :limit",  # noqa: S608
        values,
    )
    numbers = [number for (number,) in chosen]
    found: dict[int, sqlite3.Row] = {}
    for start in range(0, len(numbers), _ROWS_PER_QUERY):
        part = ", ".join(map(str, numbers[start : start + _ROWS_PER_QUERY]))
        query = f"SELECT * FROM ({visible}) WHERE row IN ({part})"  # noqa: S608 - integers
        found.update((row["row"], row) for row in db.execute(query, own))
    rows = [found[number] for number in numbers]
    words = dict(db.execute("SELECT id, text FROM words").fetchall())
    jobs = [_message(row, words, question.viewer) for row in rows[:limit]]
    return pb.ListHistoryResponse(jobs=jobs, more=len(rows) > limit)


def _criteria(db: sqlite3.Connection, question: HistoryQuestion, values: dict[str, object]) -> str:
    where = ["1"]
    for column, value in (
        ("end_ms >= :since_ms", question.since_ms),
        ("end_ms < :until_ms", question.until_ms),
    ):
        if value:
            where.append(column)
            values[column.rpartition(":")[2]] = value
    if question.user:
        where.append(_in(values, "user", _word_ids(db, (question.user,)), "user"))
        if question.user.isdecimal():
            where[-1] = f"({where[-1]} OR uid = {int(question.user)})"
    words = ("app", question.app), ("queue", question.queue), ("account", question.account)
    for column, word in words:
        if word:
            where.append(_in(values, column, _word_ids(db, (word,)), column))
    if question.node:
        # Many jobs have the same nodes, so most lists are looked up once.
        db.create_function("on_node", 2, lru_cache(_LISTS)(holds), deterministic=True)
        where.append("on_node(node_list, :node)")
        values["node"] = question.node
    if question.states:
        where.append(_in(values, "state", _word_ids(db, question.states), "state"))
    if question.job_ids:
        where.append(_in(values, "job", question.job_ids, "job"))
    if question.mine:
        where.append("own")
    return " AND ".join(where)


def _in(values: dict[str, object], column: str, found: tuple[object, ...], name: str) -> str:
    names = [f"{name}{number}" for number in range(len(found))]
    values.update(zip(names, found, strict=True))
    return f"{column} IN ({', '.join(':' + one for one in names)})"


def _word_ids(db: sqlite3.Connection, texts: tuple[str, ...]) -> tuple[object, ...]:
    marks = ", ".join("?" * len(texts))
    query = f"SELECT id FROM words WHERE text IN ({marks})"  # noqa: S608
    return tuple(row[0] for row in db.execute(query, texts))


def _message(row: sqlite3.Row, words: dict[int, str], viewer: Peer) -> pb.HistoryJob:
    def word(column: str) -> str:
        return words.get(row[column], "") if row[column] is not None else ""

    made = pb.HistoryJob(
        job_id=row["job"],
        access=_access(row, viewer),
        user=word("user"),
        name=row["name"] or "",
        app=word("app"),
        queue=word("queue"),
        state=_STATES[word("state")],
        exit_code=row["exit_code"] or 0,
        submitted_at_s=row["submit_ms"] / 1e3,
        started_at_s=row["start_ms"] / 1e3,
        ended_at_s=row["end_ms"] / 1e3,
        nodes=row["nodes"],
        node_list=row["node_list"],
        core_s=(row["core_ms"] or 0) / 1e3,
        energy_j=(row["energy_mj"] or 0) / 1e3,
        idle_energy_j=(row["idle_mj"] or 0) / 1e3,
        gpu_energy_j=(row["gpu_mj"] or 0) / 1e3,
        mean_cap_w=(row["cap_mw"] or 0) / 1e3,
        residual_s=(row["residual_ms"] or 0) / 1e3,
        attempts=row["attempts"] or 0,
        earlier=[pb.HistoryAttempt(**one) for one in json.loads(row["earlier"] or "[]")],
        size_min=row["size_min"],
        size_max=row["size_max"],
        unit=_UNITS.get(word("unit"), pb.SIZE_UNIT_UNSPECIFIED),
        policy=word("policy"),
        account=word("account"),
        given_up_w=(row["given_up_mj"] or 0) / (row["capped_ms"] or 1),
        gained_w=(row["gained_mj"] or 0) / (row["capped_ms"] or 1),
        given_up_j=(row["given_up_mj"] or 0) / 1e3,
        gained_j=(row["gained_mj"] or 0) / 1e3,
    )
    if row["uid"] >= 0:
        made.uid = row["uid"]
    return made


def _access(row: sqlite3.Row, viewer: Peer) -> pb.JobAccess:
    if row["own"]:
        return pb.JOB_ACCESS_OWN
    return pb.JOB_ACCESS_OPERATOR if viewer.operator else pb.JOB_ACCESS_OTHER


def _reported(db: sqlite3.Connection, question: ReportQuestion) -> pb.GetReportResponse:
    assert question.by in BY
    where: list[str] = ["1"]
    values: dict[str, object] = {}
    for criterion, day in (
        ("day >= :first_day", question.first_day),
        ("day <= :last_day", question.last_day),
    ):
        if day:
            where.append(criterion)
            values[criterion.rpartition(":")[2]] = day
    # Sums of one account are few; sums over all accounts are stored by kind.
    users = [question.user] if question.user else []
    users += [] if question.viewer.operator else [question.viewer.account]
    for number, user in enumerate(users):
        where.append(_in(values, "user", _word_ids(db, (user,)), f"user{number}_"))
    table, key = "usage", question.by
    if not users:
        table, key = "totals", "day" if question.by == "day" else "key"
        where.append(f"kind = '{'user' if question.by == 'day' else question.by}'")
    sums = ", ".join(f"sum({name}) AS {name}" for name in ADDED)
    order = "key" if question.by == "day" else "energy_mj DESC, key"
    found = db.execute(
        f"SELECT {key} AS key, {sums} FROM {table} WHERE {' AND '.join(where)} "  # noqa: S608
        f"GROUP BY 1 ORDER BY {order}",
        values,
    ).fetchall()
    words = dict(db.execute("SELECT id, text FROM words").fetchall())
    rows = [_report_row(_key(question.by, row["key"], words), [row]) for row in found]
    return pb.GetReportResponse(rows=rows, total=_report_row("", found))


def _key(by: str, value: int, words: dict[int, str]) -> str:
    if by == "day":
        return f"{value // 10_000:04}-{value // 100 % 100:02}-{value % 100:02}"
    return words.get(value, "")


def _report_row(key: str, found: list[sqlite3.Row]) -> pb.ReportRow:
    sums = {name: sum(row[name] for row in found) for name in ADDED}
    capped_ms = sums["capped_core_ms"]
    return pb.ReportRow(
        key=key,
        jobs=sums["jobs"],
        failures=sums["failures"],
        core_h=sums["core_ms"] / _MS_PER_H,
        energy_kwh=sums["energy_mj"] / _MJ_PER_KWH,
        mean_cap_w=sums["cap_mw_ms"] / capped_ms / 1e3 if capped_ms else 0.0,
        residual_h=sums["residual_ms"] / _MS_PER_H,
        given_up_kwh=sums["given_up_mj"] / _MJ_PER_KWH,
        gained_kwh=sums["gained_mj"] / _MJ_PER_KWH,
    )
