"""Store of results of a sweep, in small JSON files that appear complete or not at all.

A file that is not a valid result (cut by a full disk, edited) counts as missing and is written
again; its name is kept in `broken` for the report of the sweep.
"""

from __future__ import annotations

import json
import math
import secrets
from pathlib import Path

from wattfold.simulator.sweep.case import Case, Done


class ResultStore:
    """Results in one folder. The folder is created with the first result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.broken: list[str] = []

    def path(self, key: str) -> Path:
        """Return the file of a key's result, which may not exist."""
        return self._folder / f"{key}.json"

    def get(self, key: str) -> Done | None:
        """Return the result of a key, None without a valid result."""
        path = self.path(key)
        try:
            document = json.loads(path.read_bytes())
            values = {str(name): float(value) for name, value in document["values"].items()}
            cpu_s = float(document["cpu_s"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError):
            self.broken.append(path.name)
            return None
        return Done(values=values, cpu_s=cpu_s)

    def put(self, key: str, case: Case, done: Done) -> None:
        """Store a result. Raises OSError, and ValueError for a value that is not finite."""
        odd = [name for name, value in done.values.items() if not math.isfinite(value)]
        if odd:
            raise ValueError(f"{odd[0]} of {case.label} is {done.values[odd[0]]}")
        document = {
            "label": case.label,
            "case": dict(case.identity()),
            "values": dict(done.values),
            "cpu_s": round(done.cpu_s, 3),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        target = self.path(key)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            temporary.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
