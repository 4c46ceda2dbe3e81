"""Frames of the pipe between `worker` and `worker_process`, and the niceness of workers.

The module imports nothing else, so that the process starts without asyncio.
"""

from __future__ import annotations

import os
import struct

HEADER = struct.Struct("!Q")
"""Length of the following message, in bytes."""
NICENESS = 10


def step_back() -> None:
    """Lower the priority of a worker with non-urgent results; used as ``warm_up``."""
    os.nice(NICENESS)
