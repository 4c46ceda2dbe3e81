"""Frames of the pipe between `worker` and `worker_process`, and what a worker process needs first.

Nothing else is imported, so that the process starts without asyncio.
"""

from __future__ import annotations

import os
import struct

HEADER = struct.Struct("!Q")
"""Length of the message that follows, bytes."""
NICENESS = 10


def step_back() -> None:
    """As ``warm_up``: a worker whose results can wait leaves the processor to the others."""
    os.nice(NICENESS)
