"""Digest of the command of a job. It distinguishes two jobs with the same number.

Two coordinators can give one number to different jobs, as those of a copied journal do. An agent
compares the digest before it answers that a job is already running. A coordinator compares it
before it assigns the end of a process to its own job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from wattfold.contract.os_text import os_bytes

_DIGEST_BYTES = 16


def command_digest(argv: Iterable[str], cwd: str, user: str) -> str:
    """Return arguments, working directory and account of a job as 32 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for text in (cwd, user, *argv):
        # Arguments from messages and from the kernel give the same bytes.
        data = os_bytes(text)
        digest.update(len(data).to_bytes(8) + data)
    return digest.hexdigest()
