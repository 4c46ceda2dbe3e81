"""Flags of the agent, from the keys of its configuration."""

from __future__ import annotations

import argparse
import textwrap
from importlib import metadata

from wattfold.nodeagent.adapters.config_keys import (
    EMULATION,
    EMULATION_OPTIONS,
    GENERAL,
    GROUPS,
    TOP,
)
from wattfold.nodeagent.emulation.fixtures import shipped

USAGE = """wattfold-agent [--config FILE] [OPTION...]
       wattfold-agent check [--json] [--config FILE] [OPTION...]
       wattfold-agent restore [--config FILE] [OPTION...]"""


DESCRIPTION = """\
Agent of one node. It enforces power caps and core masks, starts and monitors the
processes of jobs, and reports power and CPU time to wattfold-coordinator.

Commands:
  check                 Report what the agent can cap and measure on this machine
                        and what to change. It changes nothing.
  restore               Restore the original power limits of a node whose agent
                        is stopped.

Without a command, the agent runs until SIGTERM or SIGINT. Every option except
--config is also a key of the configuration file: --node-id is node_id."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Return the flags. A flag that is not given is None, so that the file's value is used."""
    return agent_parser().parse_args(arguments)


def agent_parser() -> argparse.ArgumentParser:
    """Return the parser of the command without a subcommand."""
    parser = argparse.ArgumentParser(
        prog="wattfold-agent",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=textwrap.fill(f"Machines for --emulate: {', '.join(shipped())}.", 80),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    add_flags(parser)
    return parser


def _version() -> str:
    try:
        return metadata.version("wattfold")
    except metadata.PackageNotFoundError:
        return "unknown (not installed as a package)"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the options of the configuration to a parser that has no help option yet."""
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    groups[GENERAL].add_argument("-h", "--help", action="help", help="Print this help.")
    groups[GENERAL].add_argument(
        "--version",
        action="version",
        version=f"wattfold-agent, version {_version()}",
        help="Print the version and exit.",
    )
    groups[GENERAL].add_argument(
        "--config",
        metavar="FILE",
        help="Configuration file in TOML. Options take precedence over it. Default: no file.",
    )
    keys = TOP | {name: EMULATION[name] for name in EMULATION_OPTIONS}
    for name, key in keys.items():
        flag = "--" + name.replace("_", "-")
        add = groups[key.group].add_argument
        if key.or_text:
            add(flag, nargs="?", const=True, default=None, metavar=key.metavar, help=key.help)
        elif key.kind is bool:
            add(flag, action="store_const", const=True, default=None, help=key.help)
        else:
            value = {"choices": key.choices} if key.choices else {"metavar": key.metavar}
            add(flag, type=key.kind, help=key.help, **value)
