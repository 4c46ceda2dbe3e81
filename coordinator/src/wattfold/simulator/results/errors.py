"""Errors in files of results, a part of the error tree of workloads.

LogError
└── ResultFileError     a file of results cannot be written or continued
"""

from __future__ import annotations

from wattfold.simulator.workloads.errors import LogError


class ResultFileError(LogError):
    """A file that cannot be used. ``line`` is 0 if the fault has no line."""
