"""Remote shell for charmrun that runs every command on this host, with `sh`.

    python -m wattfold.shims.charm_shell [OPTIONS...] HOST COMMAND

Options and host are ignored. The command is the last argument, as with ssh; it inherits the input.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

EXIT_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Become the command; return only without a command."""
    if len(arguments) > 1:
        os.execv("/bin/sh", ["/bin/sh", "-c", arguments[-1]])  # noqa: S606 - it is for that
    print("usage: python -m wattfold.shims.charm_shell HOST COMMAND", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
