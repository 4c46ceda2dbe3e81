"""`completion`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash and zsh, evaluate it: eval "$(wattfold completion bash)". For fish, source it: wattfold
    completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click completes the three shells of the choice above"
    root = context.find_root()
    click.echo(kind(root.command, {}, "wattfold", "_WATTFOLD_COMPLETE").source())
