"""The history file: one row for each ended job, and sums for each day, in SQLite.

Triggers keep the sums (`usage`) equal to the rows, so a report never reads the rows. Words that
repeat, such as users, are stored once. Nothing here is needed for safety: the journal is the truth,
and the newest rows are built again from the state at each start. So `synchronous=NORMAL` is enough.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from wattfold.coordinator.adapters.history.rows import COLUMNS, WORDS, EndedJob
from wattfold.coordinator.adapters.journal.file import make_private, transaction

NAME = "history.sqlite"
SCHEMA_VERSION = 3
WAIT_S = 5.0
ASKED_MAX = 500
"""Jobs per query of their attempts."""
DROPPED_MAX = 20_000
"""Rows per transaction that deletes old rows."""
FAILED = ("failed", "lost", "timed-out")

_TEXTS = frozenset({"job", "name", "node_list", "earlier"})
_ROW_COLUMNS = ", ".join(
    f"{name} {'TEXT' if name in _TEXTS else 'INTEGER'} NOT NULL" for name in COLUMNS
)
_FAILED_IN = ", ".join(f"'{state}'" for state in FAILED)


_ADDED_2 = (
    *("jobs", "failures", "core_ms", "energy_mj", "residual_ms", "capped_core_ms", "cap_mw_ms"),
)
"""Sums in files of schema 1 and 2."""
ADDED = (*_ADDED_2, "given_up_mj", "gained_mj")
"""Sums of the tables `usage` and `totals`."""
TOTALS = ("user", "app", "queue", "account")
"""Kinds of the rows of `totals`, each by the column of this name."""


def _sum_columns(names: Iterable[str]) -> str:
    return ", ".join(
        f"{name} {'REAL' if name == 'cap_mw_ms' else 'INTEGER'} NOT NULL" for name in names
    )


_SUM_COLUMNS = _sum_columns(ADDED)


_USAGE_KEY = ("user", "day", "app", "queue", "account")
_USAGE_COLUMNS = ", ".join(f"{name} INTEGER NOT NULL" for name in _USAGE_KEY)


def _sums(row: str) -> tuple[str, ...]:
    """Return the expressions of `ADDED` for a row."""
    return (
        "1",
        f"(SELECT text IN ({_FAILED_IN}) FROM words WHERE id = {row}.state)",  # noqa: S608
        f"{row}.core_ms",
        f"{row}.energy_mj + {row}.idle_mj + {row}.gpu_mj",
        f"{row}.residual_ms",
        f"iif({row}.cap_mw, {row}.core_ms, 0)",
        f"1.0 * {row}.cap_mw * {row}.core_ms",
        f"{row}.given_up_mj",
        f"{row}.gained_mj",
    )


def _summed(row: str, sign: str) -> str:
    """Return the statements that add a row to the sums, or subtract it."""
    changed = ", ".join(f"{name} = {name} {sign} excluded.{name}" for name in ADDED)
    keys = {"usage": [", ".join(f"{row}.{name}" for name in _USAGE_KEY)]}
    keys["totals"] = [f"'{kind}', {row}.day, {row}.{kind}" for kind in TOTALS]
    return "".join(
        f"INSERT INTO {table} SELECT {key}, {', '.join(_sums(row))} WHERE true "
        f"ON CONFLICT DO UPDATE SET {changed};\n"
        for table, found in keys.items()
        for key in found
    )


_EMPTY_TOTALS = "".join(
    f"DELETE FROM totals WHERE kind = '{kind}' AND day = old.day AND key = old.{kind} "  # noqa: S608
    "AND jobs = 0;\n"
    for kind in TOTALS
)
_TABLES = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS words (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS jobs (
    series INTEGER NOT NULL, {_ROW_COLUMNS}, PRIMARY KEY (series, job)
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (end_ms);
CREATE INDEX IF NOT EXISTS jobs_by_user ON jobs (user, end_ms);
CREATE TABLE IF NOT EXISTS usage (
    {_USAGE_COLUMNS},
    {_SUM_COLUMNS}, PRIMARY KEY ({", ".join(_USAGE_KEY)})
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (
    kind TEXT NOT NULL, day INTEGER NOT NULL, key INTEGER NOT NULL,
    {_SUM_COLUMNS}, PRIMARY KEY (kind, day, key)
) STRICT, WITHOUT ROWID;
"""
_TRIGGERS = f"""
CREATE TRIGGER IF NOT EXISTS job_added AFTER INSERT ON jobs BEGIN
    {_summed("new", "+")}
END;
CREATE TRIGGER IF NOT EXISTS job_removed AFTER DELETE ON jobs BEGIN
    {_summed("old", "-")}
    DELETE FROM usage WHERE user = old.user AND day = old.day AND app = old.app
        AND queue = old.queue AND account = old.account AND jobs = 0;
    {_EMPTY_TOTALS}
END;
"""  # noqa: S608 - constants


class HistoryError(Exception):
    """The history file cannot be read or written. The message names the file and the reason."""


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise HistoryError(f"history {path}: {error}") from error


class HistoryFile:
    """Writer of the history of one journal, from any one thread at a time.

    ``series`` identifies the journal: another journal in the same folder numbers its jobs anew.
    """

    def __init__(self, path: Path, series: str) -> None:
        self._path = path
        self._series_text = series
        self._series = 0
        self._db: sqlite3.Connection | None = None
        self._words: dict[str, int] = {}

    def known(self, jobs: Sequence[str]) -> dict[str, int]:
        """Return the stored number of attempts of those of these jobs that have a row.

        Raises HistoryError.
        """
        found: dict[str, int] = {}
        with _told(self._path):
            db = self._opened()
            for start in range(0, len(jobs), ASKED_MAX):
                part = jobs[start : start + ASKED_MAX]
                marks = ", ".join("?" * len(part))
                query = f"SELECT job, attempts FROM jobs WHERE series = ? AND job IN ({marks})"  # noqa: S608
                found.update(db.execute(query, (self._series, *part)))
        return found

    def write(self, rows: Iterable[EndedJob], gone: Iterable[str] = ()) -> None:
        """Store rows in one transaction, replacing rows of the same jobs; delete rows of ``gone``.

        Raises HistoryError. Then nothing has changed.
        """
        rows = list(rows)
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        try:
            with _told(self._path):
                db = self._opened()
                keys = [(self._series, job) for job in (*gone, *(row.job for row in rows))]
                with transaction(db):
                    db.executemany("DELETE FROM jobs WHERE series = ? AND job = ?", keys)
                    values = [self._values(db, row) for row in rows]
                    db.executemany(f"INSERT INTO jobs VALUES ({marks})", values)  # noqa: S608
        except HistoryError:
            self.close()
            raise

    def drop_before(self, end_ms: int) -> int:
        """Delete rows of jobs that ended before; at most `DROPPED_MAX`. Return their number.

        Raises HistoryError.
        """
        query = "DELETE FROM jobs WHERE rowid IN (SELECT rowid FROM jobs WHERE end_ms < ? LIMIT ?)"
        with _told(self._path):
            db = self._opened()
            with transaction(db):
                return db.execute(query, (end_ms, DROPPED_MAX)).rowcount

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        if self._db is not None:
            self._db.close()
        self._db = None
        self._words.clear()

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            make_private(self._path)
            db = sqlite3.connect(
                self._path, timeout=WAIT_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        found = schema_of(db)
        if found in ("1", "2"):
            with transaction(db):
                if found == "1":
                    _add_accounts(db)
                _add_watts(db)
        elif found not in (None, str(SCHEMA_VERSION)):
            raise sqlite3.DatabaseError(
                f"it has schema {found}, but this version writes schema {SCHEMA_VERSION}; move the "
                "file away, or start the version that wrote it"
            )
        db.executescript(_TABLES + _TRIGGERS)
        put = "INSERT OR IGNORE INTO meta VALUES ('schema', ?)"
        db.execute(put, (str(SCHEMA_VERSION),))
        self._series = self._word(db, f"journal {self._series_text}")

    def _values(self, db: sqlite3.Connection, row: EndedJob) -> tuple[object, ...]:
        cells = ((name, getattr(row, name)) for name in COLUMNS)
        return (
            self._series,
            *(self._word(db, cell) if name in WORDS else cell for name, cell in cells),
        )

    def _word(self, db: sqlite3.Connection, text: str) -> int:
        number = self._words.get(text)
        if number is None:
            db.execute("INSERT OR IGNORE INTO words (text) VALUES (?)", (text,))
            number = int(db.execute("SELECT id FROM words WHERE text = ?", (text,)).fetchone()[0])
            self._words[text] = number
        return number


_NO_TRIGGERS = ("DROP TRIGGER IF EXISTS job_added", "DROP TRIGGER IF EXISTS job_removed")


def _add_accounts(db: sqlite3.Connection) -> None:
    """Change a file of schema 1, whose jobs have no accounts, to schema 2."""
    db.execute("INSERT OR IGNORE INTO words (text) VALUES ('')")
    (none,) = db.execute("SELECT id FROM words WHERE text = ''").fetchone()
    sums = ", ".join(_ADDED_2)
    added = ", ".join(f"sum({name})" for name in _ADDED_2)
    for statement in (
        *_NO_TRIGGERS,
        f"ALTER TABLE jobs ADD COLUMN account INTEGER NOT NULL DEFAULT {none}",
        "ALTER TABLE usage RENAME TO usage_1",
        f"CREATE TABLE usage ({_USAGE_COLUMNS}, {_sum_columns(_ADDED_2)}, "
        f"PRIMARY KEY ({', '.join(_USAGE_KEY)})) STRICT, WITHOUT ROWID",
        f"INSERT INTO usage SELECT user, day, app, queue, {none}, {sums} FROM usage_1",  # noqa: S608
        "DROP TABLE usage_1",
        f"INSERT INTO totals SELECT 'account', day, {none}, {added} FROM totals "  # noqa: S608
        "WHERE kind = 'user' GROUP BY day",
    ):
        db.execute(statement)


def _add_watts(db: sqlite3.Connection) -> None:
    """Change a file of schema 2 to schema 3. Its jobs get 0 for the unknown watts."""
    added = [("jobs", name) for name in ("given_up_mj", "gained_mj", "capped_ms")]
    added += [(table, name) for table in ("usage", "totals") for name in ADDED[len(_ADDED_2) :]]
    for statement in (
        *_NO_TRIGGERS,
        *(f"ALTER TABLE {t} ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0" for t, name in added),
        "UPDATE meta SET value = '3' WHERE key = 'schema'",
    ):
        db.execute(statement)


def schema_of(db: sqlite3.Connection) -> str | None:
    """Return the stored schema; None = empty file. Raises sqlite3.Error."""
    if not db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]:
        return None
    row = db.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return row[0] if row else None


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the file for queries; None if nothing was recorded yet. Raises HistoryError."""
    if not path.exists():
        yield None
        return
    with _told(path):
        # Not read-only: SQLite needs to write files next to it to read the log of a killed writer.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)) as db:
            db.execute("PRAGMA query_only=ON")
            db.execute("BEGIN")  # All queries of an answer see the same rows.
            db.row_factory = sqlite3.Row
            if schema_of(db) is None:
                yield None
            else:
                yield db


def sum_again(db: sqlite3.Connection) -> None:
    """Build the sums of all rows again, as after rows were added without triggers."""
    columns = ", ".join(f"sum({name})" for name in ADDED)
    named = ", ".join(
        f"{value} AS {name}" for name, value in zip(ADDED, _sums("jobs"), strict=True)
    )
    key = ", ".join(_USAGE_KEY)
    rows = f"SELECT {key}, {named} FROM jobs"  # noqa: S608
    db.execute("DELETE FROM usage")
    db.execute("DELETE FROM totals")
    db.execute(f"INSERT INTO usage SELECT {key}, {columns} FROM ({rows}) GROUP BY {key}")  # noqa: S608
    for kind in TOTALS:
        db.execute(
            f"INSERT INTO totals SELECT '{kind}', day, {kind}, {columns} FROM usage "  # noqa: S608
            f"GROUP BY day, {kind}"
        )
