"""Every option of the agent and of the shim programs has a help text."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wattfold.nodeagent import check, restore
from wattfold.nodeagent.adapters.config_flags import agent_parser
from wattfold.nodeagent.adapters.config_keys import EMULATION, EMULATION_OPTIONS, TOP, Key
from wattfold.nodeagent.emulation import fuse_tree

PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "wattfold-agent": agent_parser,
    "wattfold-agent check": check.check_parser,
    "wattfold-agent restore": restore.restore_parser,
    "powercap tree": fuse_tree.tree_parser,
}
SHIMS = Path(__file__).parents[3] / "runtime_shims"
OPTIONS = TOP | {name: EMULATION[name] for name in EMULATION_OPTIONS}


def actions(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.Action]]:
    """Options and arguments of a parser and its subparsers, each with its command."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from actions(child, f"{path} {name}")
        else:
            yield f"{path} {'/'.join(action.option_strings) or action.dest}", action


def without_help(parser: argparse.ArgumentParser, path: str) -> list[str]:
    return [name for name, action in actions(parser, path) if not (action.help or "").strip()]


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_has_a_help_text(name: str) -> None:
    assert without_help(PARSERS[name](), name) == []


@pytest.mark.parametrize("name", PARSERS)
def test_help_texts_are_sentences(name: str) -> None:
    texts = [action.help or "" for path, action in actions(PARSERS[name](), name)]
    assert [text for text in texts if not re.match(r"[A-Z].*\.\Z", text, re.S)] == []


@pytest.mark.parametrize("program", sorted(SHIMS.rglob("*.py")), ids=lambda path: path.name)
def test_every_option_of_a_program_of_the_shims_has_a_help_text(program: Path) -> None:
    """Some of these programs import Charm++ or PyTorch, so the test reads their sources."""
    missing = [
        ast.unparse(call)
        for call in ast.walk(ast.parse(program.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "add_argument"
        and not any(keyword.arg == "help" for keyword in call.keywords)
    ]
    assert missing == []


def test_an_option_without_a_help_text_is_named() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    command = parser.add_subparsers().add_parser("run", add_help=False)
    command.add_argument("--silent")
    command.add_argument("--loud", help="Print progress.")
    assert without_help(parser, "tool") == ["tool run --silent"]


def default_of(key: Key) -> str:
    return f"{key.default:g}" if key.kind is float else str(key.default)


@pytest.mark.parametrize("name", OPTIONS)
def test_help_texts_of_the_agent_name_the_default(name: str) -> None:
    key = OPTIONS[name]
    assert "Default: " in key.help
    if key.default not in (None, "") and key.kind is not bool:
        assert f"Default: {default_of(key)}" in key.help
