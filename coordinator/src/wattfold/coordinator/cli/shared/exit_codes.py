"""Exit codes of the `wattfold` command. The only place where they are defined.

The manual page wattfold(1) repeats this list; a test compares the two.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of the command. `submit --wait` passes on the exit code of the job instead."""

    OK = 0
    """Done as asked."""
    REFUSED = 1
    """The request was refused, or the job failed."""
    USAGE = 2
    """The command line is wrong; nothing was sent."""
    UNREACHABLE = 3
    """The coordinator does not answer."""
    NO_SUCH_JOB = 4
    """No job, profile or log of that name."""
    UNFIT = 5
    """`certify`: the program is not fit for team mode; this was found out and stored as asked."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""
    OUTPUT_CLOSED = 141
    """The reader of standard output went away."""
