"""Options whose values are words of a fixed list, separated by commas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


class WordList(click.ParamType[tuple[str, ...]]):
    """Words such as `running,held`, each one of a fixed list."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.words = tuple(words)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if not isinstance(value, str):
            return tuple(value)
        found = tuple(part.strip().lower() for part in value.split(","))
        for word in found:
            if word not in self.words:
                known = ", ".join(self.words)
                self.fail(f"no {self.name} {word!r}; {self.name}s: {known}", param, ctx)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        return completed_in_list(self.words, incomplete)


def completed_in_list(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return completions of the last word after the commas of an incomplete list."""
    from click.shell_completion import CompletionItem  # It is needed only in completions.

    before, comma, last = incomplete.rpartition(",")
    used = before.split(",")
    found = (word for word in words if word.startswith(last) and word not in used)
    return [CompletionItem(f"{before}{comma}{word}") for word in found]


def state_option(words: Sequence[str], text: str) -> Callable[[F], F]:
    """Return the option that selects states, with commas or repeated, as one tuple."""
    return click.option(
        "--state",
        "states",
        type=WordList("state", words),
        multiple=True,
        callback=_joined,
        metavar="STATE[,STATE]...",
        help=f"{text} States: {', '.join(words)}.",
    )


def _joined(
    _context: click.Context, _parameter: click.Parameter, value: Iterable[Iterable[str]]
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for words in value for word in words))
