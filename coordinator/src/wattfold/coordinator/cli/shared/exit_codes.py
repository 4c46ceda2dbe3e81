"""Exit codes of the `wattfold` command. The only place where they are defined.

The manual page wattfold(1) repeats this list; a test compares the two.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of the command. `submit --wait` and `wait` return that of the job."""

    OK = 0
    """Done as requested."""
    REFUSED = 1
    """The request was refused, or the job failed."""
    USAGE = 2
    """The command line is wrong; nothing was sent."""
    UNREACHABLE = 3
    """No coordinator listens at the address, or the connection was lost."""
    NO_SUCH_JOB = 4
    """No job, profile or log of that name."""
    UNFIT = 5
    """`certify`: the program is not fit for team mode; this result was stored as requested."""
    BUSY = 6
    """The coordinator accepts no more connections of this account now."""
    NO_ACCESS = 7
    """The account may not open the socket of the coordinator."""
    UNKNOWN_HOST = 8
    """The host in the address of the coordinator is unknown."""
    TIMED_OUT = 9
    """No connection to the coordinator, or no answer, in time; `wait`: jobs have not ended."""
    OTHER_SERVER = 10
    """Another server answers at the address, such as a TLS server."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""
    OUTPUT_CLOSED = 141
    """The reader of standard output closed it."""
