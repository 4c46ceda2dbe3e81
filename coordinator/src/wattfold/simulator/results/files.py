"""Writer of the jobs and the series of a record as CSV, gzipped CSV, or Parquet.

The file name selects the format: ``.csv``, ``.csv.gz``, ``.parquet``. The same record gives the
same bytes, given the same version of pyarrow, which Parquet files state. A file appears complete or
not at all. Only Parquet needs and imports pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wattfold.simulator.engine.record import RunRecord, Series
from wattfold.simulator.results.errors import ResultFileError
from wattfold.simulator.results.job_columns import (
    JobColumn,
    csv_header,
    csv_rows,
    record_columns,
    series_columns,
)
from wattfold.simulator.workloads.swf_writer import whole_file

_ROWS_AT_ONCE = 20_000


def write_jobs(record: RunRecord, path: Path) -> None:
    """Write one row per job, in the order of the job table.

    Raises LogError if the file cannot be written, and ResultFileError for an unsuitable name or a
    missing library.
    """
    _write(record_columns(record), path)


def write_series(series: Series, path: Path) -> None:
    """Write one row per instant with a change. Raises as `write_jobs`."""
    _write(series_columns(series), path)


def _write(columns: Sequence[JobColumn], path: Path) -> None:
    if path.name.endswith((".csv", ".csv.gz")):
        _write_csv(columns, path)
    elif path.suffix == ".parquet":
        _write_parquet(columns, path)
    else:
        raise ResultFileError(path, 0, "the name must end in .csv, .csv.gz or .parquet")


def _write_csv(columns: Sequence[JobColumn], path: Path) -> None:
    with whole_file(path) as stream:
        stream.write(csv_header(columns))
        for start in range(0, len(columns[0].values), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            stream.write(
                csv_rows(
                    [
                        JobColumn(
                            name=column.name,
                            values=column.values[part],
                            known=None if column.known is None else column.known[part],
                        )
                        for column in columns
                    ]
                )
            )


def _write_parquet(columns: Sequence[JobColumn], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ResultFileError(
            path,
            0,
            "Parquet needs pyarrow: pip install 'wattfold[parquet]', or name a .csv.gz file",
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
