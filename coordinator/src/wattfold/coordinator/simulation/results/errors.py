"""What can be wrong with files of results, in one line for people; part of the tree of workloads.

LogError
└── ResultFileError     a file of results cannot be written or continued
"""

from __future__ import annotations

from wattfold.coordinator.simulation.workloads.errors import LogError


class ResultFileError(LogError):
    """A file that cannot be used. ``line`` is 0 where the fault has no line."""
