"""Every option of every command has a help text in the form that users expect."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from wattfold.coordinator.cli.main import cli


def commands(command: click.Command, path: str = "wattfold") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands with their paths, including the default command of a group."""
    yield path, command
    if (default := getattr(command, "default", None)) is not None:
        yield path, default
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, f"{path} {name}")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the help text of every shown option but `--help`, by command and option."""
    return {
        f"{path} {option.opts[0]}": option.help or ""
        for path, command in commands(cli)
        for option in command.params
        if isinstance(option, click.Option) and "--help" not in option.opts
        if not option.hidden
    }


def test_all_commands_are_read(texts: dict[str, str]) -> None:
    assert len(texts) > 250
    assert {
        "wattfold --token-file",
        "wattfold profile --caps",
        "wattfold node drain --wait",
    } <= set(texts)


def test_every_option_has_a_help_text(texts: dict[str, str]) -> None:
    assert [option for option, text in texts.items() if not text.strip()] == []


def test_every_help_text_is_a_sentence(texts: dict[str, str]) -> None:
    wrong = [option for option, text in texts.items() if text and not is_sentence(text)]
    assert wrong == []


def is_sentence(text: str) -> bool:
    """Whether a text begins with a capital letter and ends with a full stop."""
    return text[0].isupper() and text.endswith(".")


BEGINNINGS = frozenset(
    [
        "a",
        "also",
        "an",
        "at",
        "by",
        "for",
        "from",
        "how",
        "if",
        "in",
        "it",
        "of",
        "on",
        "one",
        "only",
        "so",
        "that",
        "the",
        "these",
        "this",
        "those",
        "to",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whoever",
        "with",
    ]
)
"""Words that do not begin a help text, which starts with a noun or a verb."""


def test_every_help_text_begins_with_a_noun_or_a_verb(texts: dict[str, str]) -> None:
    wrong = {o: text for o, text in texts.items() if text.split(" ")[0].lower() in BEGINNINGS}
    assert wrong == {}


def test_every_command_is_described_by_a_sentence() -> None:
    first_lines = {
        path: (command.help or "").partition("\n\n")[0].strip() for path, command in commands(cli)
    }
    assert [path for path, line in first_lines.items() if not (line and is_sentence(line))] == []


def test_the_first_sentence_of_each_command_fits_into_the_list_of_commands() -> None:
    """Longer sentences are cut by click on a terminal of 80 columns."""
    listed = [(path, command) for path, command in commands(cli) if command is not cli]
    long = [path for path, command in listed if command.get_short_help_str(60).endswith("...")]
    assert long == []
