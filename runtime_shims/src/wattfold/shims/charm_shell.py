"""A remote shell for charmrun that knows this host only: runs the command here, by `sh`.

    python -m wattfold.shims.charm_shell [OPTIONS...] HOST COMMAND

Options and host are dropped. The command is the last word, as with ssh; it reads its input here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Becomes the command; returns only without one."""
    if len(arguments) > 1:
        os.execv("/bin/sh", ["/bin/sh", "-c", arguments[-1]])  # noqa: S606 - it is for that
    print("usage: python -m wattfold.shims.charm_shell HOST COMMAND", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
