"""A bar of a power relative to its budget, drawn with characters."""

from __future__ import annotations

from rich.text import Text

_EIGHTHS = " ▏▎▍▌▋▊▉"


def power_bar(value_uw: int, budget_uw: int, cells: int, style: str) -> Text:
    """Return a bar of `cells` characters; full means the budget. Above it, the whole bar is red."""
    share = value_uw / budget_uw if budget_uw else 0.0
    if share > 1:
        return Text("█" * cells, style="bold red")
    eighths = round(share * cells * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return Text.assemble((filled, style), ("·" * (cells - len(filled)), "dim"))
