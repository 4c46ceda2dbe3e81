"""Console of rich for the output of commands."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console that leaves the handling of a closed pipe to the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
