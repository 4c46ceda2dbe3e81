"""Writes the jobs and the series of a record as CSV, CSV packed by gzip, or Parquet.

The name says which: ``.csv``, ``.csv.gz``, ``.parquet``. The same record gives the same bytes (the
same pyarrow provided, whose version stands in Parquet files), and a file appears whole or not at
all. pyarrow is only needed, and imported, for Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattfold.coordinator.simulation.pool.record import RunRecord, Series
from wattfold.coordinator.simulation.results.errors import ResultFileError
from wattfold.coordinator.simulation.results.job_columns import (
    Column,
    csv_header,
    csv_rows,
    record_columns,
    series_columns,
)
from wattfold.coordinator.simulation.workloads.swf_writer import whole_file

_ROWS_AT_ONCE = 20_000


def write_jobs(record: RunRecord, path: Path) -> None:
    """One row a job, in the order of the job table.

    Raises LogError (ResultFileError for a name or library that will not do) where the file cannot
    be written.
    """
    _write(record_columns(record), path)


def write_series(series: Series, path: Path) -> None:
    """One row an instant at which something changed. Raises as `write_jobs`."""
    _write(series_columns(series), path)


def _write(columns: Sequence[Column], path: Path) -> None:
    if path.name.endswith((".csv", ".csv.gz")):
        _write_csv(columns, path)
    elif path.suffix == ".parquet":
        _write_parquet(columns, path)
    else:
        raise ResultFileError(path, 0, "the name must end in .csv, .csv.gz or .parquet")


def _write_csv(columns: Sequence[Column], path: Path) -> None:
    with whole_file(path) as stream:
        stream.write(csv_header(columns))
        for start in range(0, len(columns[0].values), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            stream.write(
                csv_rows(
                    [
                        Column(
                            name=column.name,
                            values=column.values[part],
                            known=None if column.known is None else column.known[part],
                        )
                        for column in columns
                    ]
                )
            )


def _write_parquet(columns: Sequence[Column], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ResultFileError(
            path,
            0,
            "Parquet needs pyarrow: pip install 'wattfold[sim]' or pyarrow, or name a .csv.gz file",
        ) from error
    table = pa.table(
        {
            column.name: pa.array(
                column.values, mask=None if column.known is None else ~column.known
            )
            for column in columns
        }
    )
    with whole_file(path) as stream:
        pq.write_table(table, stream, compression="zstd")
