"""Patterns in the output paths of jobs, such as `%j` for the job ID."""

from __future__ import annotations

import re
from collections.abc import Mapping

PATTERNS: Mapping[str, str] = {
    "j": "job ID",
    "A": "ID of the array, or of a job without an array",
    "a": "index of a task of an array",
    "x": "job name, with _ for /",
    "u": "account",
    "N": "node",
    "n": "number of the node within the job, from 0",
    "%": "a percent sign",
}
_PATTERN = re.compile(r"%(.?)", re.DOTALL)


def unknown_pattern(path: str) -> str:
    """Return the first pattern of a path that has no meaning, empty if there is none."""
    return next((f"%{found}" for found in _PATTERN.findall(path) if found not in PATTERNS), "")


def has_index_pattern(path: str) -> bool:
    """Whether the path contains the index of a task."""
    return "a" in _PATTERN.findall(path)


def has_node_pattern(path: str) -> bool:
    """Whether the path is a different one on each node of a job."""
    return not {"n", "N"}.isdisjoint(_PATTERN.findall(path))


def expand(path: str, values: Mapping[str, str]) -> str:
    """Replace the patterns of a path. Patterns without a value stay as they are."""
    values = {**values, "x": values.get("x", "").replace("/", "_"), "%": "%"}
    return _PATTERN.sub(lambda match: values.get(match[1], match[0]), path)


def process_path(path: str, values: Mapping[str, str], *, several: bool) -> str:
    """Return the path of a process with its patterns replaced; ``several`` processes get own files.

    An empty path stays empty: the agent chooses it.
    """
    if path and several and not has_node_pattern(path):
        path += ".%n"
    return expand(path, values)
