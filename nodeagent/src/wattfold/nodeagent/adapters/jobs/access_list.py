"""Access lists (acl(5)) for files of the agent that the account of a job may also use.

To give the account ownership of such files would take capabilities that the agent lacks: CAP_CHOWN,
and CAP_DAC_OVERRIDE to get them back. With an access list, the account cannot replace the agent's
files.
"""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

READ, WRITE, PASS = 4, 2, 1
# linux/posix_acl_xattr.h: a version, then entries of tag, rights and id.
_NAME, _VERSION = "system.posix_acl_access", struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _ACCOUNT, _GROUP, _MASK, _OTHERS, _NO_ID = 0x01, 0x02, 0x04, 0x10, 0x20, 0xFFFFFFFF
_UNKNOWN = (errno.EOPNOTSUPP, errno.ENOSYS)


class NoAccessListsError(OSError):
    """The file system has no access lists."""


def grant(path: Path | int, uid: int, *, own: int, rights: int) -> None:
    """Give one more account access. The owner has ``own``, all other accounts nothing.

    Raises NoAccessListsError, OSError.
    """
    entries = (
        (_OWNER, own, _NO_ID),
        (_ACCOUNT, rights, uid),
        (_GROUP, 0, _NO_ID),
        (_MASK, rights, _NO_ID),
        (_OTHERS, 0, _NO_ID),
    )
    packed = b"".join(_ENTRY.pack(*entry) for entry in entries)
    try:
        os.setxattr(path, _NAME, _VERSION + packed)
    except OSError as error:
        if error.errno in _UNKNOWN:
            raise NoAccessListsError(error.errno, "the file system has no access lists") from None
        raise
