"""Files of reports: CSV, JSON or Parquet, by the ending of the name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wattfold.coordinator.cli.shared.errors import BadRequestError, CliError
from wattfold.coordinator.cli.shared.packages import require
from wattfold.coordinator.cli.shared.texts.formats import csv_text
from wattfold.coordinator.cli.shared.texts.json_output import dumps

PARQUET = ".parquet"
ENDINGS = (".csv", ".json", PARQUET)


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before the coordinator is asked.

    Raises BadRequestError for another ending or a missing folder, ModuleNotFoundError for Parquet
    without pyarrow.
    """
    if path.suffix not in ENDINGS:
        raise BadRequestError(f"{path}: the name must end in {', '.join(ENDINGS)}")
    if not path.absolute().parent.is_dir():
        raise BadRequestError(f"{path}: no such folder: {path.absolute().parent}")
    if path.suffix == PARQUET:
        require("pyarrow")


def write_file(path: Path, columns: Sequence[str], document: Mapping[str, Any]) -> None:
    """Write the rows of a report; JSON has the whole document. The file appears complete.

    Raises CliError if the file cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{path.name}-", dir=path.absolute().parent
        ) as name:
            part = Path(name) / path.name
            if path.suffix == PARQUET:
                _write_parquet(part, columns, document["rows"])
            elif path.suffix == ".json":
                part.write_text(f"{dumps(document)}\n", encoding="utf-8")
            else:
                part.write_text(csv_text(columns, document["rows"]), encoding="utf-8")
            os.replace(part, path)
    except OSError as error:
        raise CliError(f"{path}: {error.strerror or error}") from error


def _write_parquet(
    path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, object]]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"key": pa.string(), "jobs": pa.uint64(), "failures": pa.uint64()}
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in columns])
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path, compression="zstd")
