"""The console of rich that commands print with."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console that leaves a closed pipe to the command's own ending."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
